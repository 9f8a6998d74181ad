package dedupe

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// IDs and IDOf make the same of ids of every length.
func TestIDsAreIDOf(t *testing.T) {
	var ids IDs
	rng := rand.New(rand.NewPCG(4, 4))
	for range 5 {
		for n := range 200 {
			id := make([]byte, n)
			for i := range id {
				id[i] = byte(rng.Uint32())
			}
			if got, want := ids.Of(id), IDOf(id); !bytes.Equal(got[:], want[:]) {
				t.Fatalf("%x instead of %x for %d bytes", got, want, n)
			}
		}
	}
}
