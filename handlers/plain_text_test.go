package handlers

import "testing"

// plainText and a loop agree on every byte at every place.
func TestPlainText(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := []byte("abcdefghijklmnopqrst"[:n])
				b[at] = byte(c)
				if got, want := plainText(b), c >= ' ' && c < 0x7f; got != want {
					t.Fatalf("%q: %v", b, got)
				}
			}
		}
	}
}
