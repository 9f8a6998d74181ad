package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"highwater/storage"
)

// BenchmarkFindMessage is the look-up of a known id over 64 partitions of 8,000 ids
// each, and the fetch of the same record by its offset.
func BenchmarkFindMessage(b *testing.B) {
	const partitions, batches, each = 64, 80, 100
	n := startNode(b)
	n.create("t", partitions)
	id := func(num, i int) string { return fmt.Sprintf("message-%d-%d", num, i) }
	for num := range partitions {
		for k := range batches {
			builder := storage.BatchBuilder{AppendTime: time.Now().UnixMilli()}
			for i := range each {
				builder.Append(&storage.Record{Timestamp: time.Now().UnixMilli(), Value: make([]byte, 200),
					Headers: []storage.Header{{Key: []byte(storage.MessageIDHeader), Value: []byte(id(num, k*each+i))}}})
			}
			sealed, err := builder.Seal(storage.CompressionNone, nil)
			n.must(err)
			n.must(n.Append(context.Background(), AcksAll, []AppendRequest{{Topic: "t", Partition: int32(num), Batches: []storage.Batch{sealed}}})[0].Err)
		}
	}
	b.Run("by id", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			num, i := rand.IntN(partitions), rand.IntN(batches*each)
			m, err := n.FindMessage(context.Background(), "t", id(num, i))
			if err != nil || m.Record.Offset != int64(i) || m.Partition != int32(num) {
				b.Fatal(m, err)
			}
		}
	})
	b.Run("by offset", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 64<<10)
		for range b.N {
			num, i := rand.IntN(partitions), rand.IntN(batches*each)
			res, err := n.Fetch(context.Background(), FetchRequest{Topic: "t", Partition: int32(num), Offset: int64(i), MaxBytes: 1, Buffer: buf})
			if err != nil || len(res.Data) == 0 {
				b.Fatal(err)
			}
		}
	})
}
