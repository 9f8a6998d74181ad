package storage

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// What a builder tells of a batch is what anybody reads in it.
func TestFactsOfABuilder(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 500 {
		b := BatchBuilder{KeepFacts: true}
		if rng.IntN(4) > 0 {
			b.AppendTime = 1 + rng.Int64N(1e12)
		}
		for i := range 1 + rng.IntN(20) {
			rec := Record{Timestamp: rng.Int64N(1e12), Value: fmt.Append(nil, rng.IntN(5)), Headers: []Header{{Key: []byte("h"), Value: fmt.Append(nil, rng.IntN(3))}}}
			if rng.IntN(2) == 0 {
				rec.Key = []byte("k")
			}
			if rng.IntN(2) == 0 {
				rec.Headers = append(rec.Headers, Header{Key: []byte(MessageIDHeader), Value: fmt.Append(nil, "id-", i)})
			}
			b.Append(&rec)
		}
		var p *Producer
		if rng.IntN(3) == 0 {
			p = &Producer{ID: rng.Int64N(9), Epoch: int16(rng.IntN(3)), BaseSequence: rng.Int32N(1000)}
		}
		sealed, err := b.Seal([]Compression{CompressionNone, CompressionGzip, CompressionZstd}[rng.IntN(3)], p)
		if err != nil {
			t.Fatal(err)
		}
		var fr factsReader
		want, err := fr.batch(sealed)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Facts(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, and in the batch stands %+v", got, want)
		}
	}
}
