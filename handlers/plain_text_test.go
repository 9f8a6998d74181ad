package handlers

import (
	"testing"
	"unicode/utf8"
)

// plainText and what idFault asks of each character agree on every byte at every place.
func TestPlainText(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := []byte("abcdefghijklmnopqrst"[:n])
				b[at] = byte(c)
				if got, want := plainText(b), c < utf8.RuneSelf && !isControl(rune(c)); got != want {
					t.Fatalf("%q: %v", b, got)
				}
			}
		}
	}
}
