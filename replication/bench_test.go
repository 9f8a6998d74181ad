package replication

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"highwater/storage"
)

// BenchmarkAppend is the road below HTTP: one record of 200 bytes an append.
func BenchmarkAppend(b *testing.B) {
	value := []byte(strings.Repeat("x", 200))
	for _, acks := range []Acks{AcksNone, AcksLeader, AcksAll} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("acks=%d/callers=%d", acks, callers), func(b *testing.B) {
				n := startNode(b)
				n.create("a", 1)
				b.ReportAllocs()
				b.ResetTimer()
				forEach(callers, callers, func(i int) {
					for range (b.N + callers - 1 - i) / callers {
						builder := storage.NewBatchBuilder(make([]byte, 0, 320))
						builder.Append(&storage.Record{Timestamp: 1, Value: value})
						sealed, err := builder.Seal(storage.CompressionNone, nil)
						if err != nil {
							b.Error(err)
							return
						}
						res := n.Append(context.Background(), acks, []AppendRequest{{Topic: "a", Batches: []storage.Batch{sealed}}})
						if res[0].Err != nil {
							b.Error(res[0].Err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkWake is what an append costs when others wait: on the same partition,
// where it must wake them, and on another, where it must not.
func BenchmarkWake(b *testing.B) {
	for _, c := range []struct {
		name      string
		partition int32
		waiters   int
	}{{"none", 0, 0}, {"1000 elsewhere", 1, 1000}, {"1000 here", 0, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			n := startNode(b)
			n.create("a", 2)
			for range c.waiters {
				b.Cleanup(n.partition("a", c.partition).Subscribe(NewSignal()))
			}
			p := n.partition("a", 0)
			b.ResetTimer()
			for range b.N {
				p.subs.wake()
				p.topic.data.wake()
			}
		})
	}
}
