package replication

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"highwater/storage"
)

// Many clients send the same messages at the same time, in requests that overlap: each
// is stored once, and every answer names the same place for it (I6, V4, V5).
func TestI6_TheSameMessagesFromManyAtOnce(t *testing.T) {
	n := startNode(t)
	n.create("t", 1)
	const messages, clients, rounds = 200, 16, 40
	var mu sync.Mutex // guards what follows
	places := map[string]int64{}
	duplicates := 0
	forEach(clients, clients, func(i int) {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		for range rounds {
			first := rng.IntN(messages)
			var some []string
			for k := range 1 + rng.IntN(5) {
				some = append(some, fmt.Sprintf("m%d=x", (first+k)%messages))
			}
			acks := []Acks{AcksAll, AcksLeader}[rng.IntN(2)]
			res := n.Append(context.Background(), acks, []AppendRequest{{Topic: "t", Batches: []storage.Batch{marked(t, time.Now(), nil, some...)}}})[0]
			if res.Err != nil {
				t.Error(res.Err)
				return
			}
			mu.Lock()
			for k, m := range some {
				offset := res.BaseOffset + int64(k)
				if res.Offsets != nil {
					offset = res.Offsets[k]
				}
				if was, ok := places[m]; ok && was != offset {
					t.Errorf("V5: %s is said to be at %d and at %d", m, was, offset)
				}
				places[m] = offset
				if res.Duplicate != nil && res.Duplicate[k] {
					duplicates++
				}
			}
			mu.Unlock()
		}
	})
	p := n.partition("t", 0)
	stored := map[string]int{}
	for at := int64(0); at < p.log.WrittenEnd(); {
		r, err := p.log.Read(at, p.log.WrittenEnd(), 1<<20, nil)
		n.must(err)
		for _, rec := range records(t, FetchResult{Data: r.Data, HighWatermark: p.log.WrittenEnd()}, at) {
			id := string(messageID(&rec)) + "=x"
			if stored[id]++; stored[id] > 1 {
				t.Errorf("V4: %s is stored twice", id)
			}
			if places[id] != rec.Offset {
				t.Errorf("V5: %s is at %d, not at %d", id, rec.Offset, places[id])
			}
		}
		at = nextOffset(r.Data)
	}
	if len(stored) != len(places) || duplicates == 0 {
		t.Errorf("%d messages of %d are stored, %d duplicates", len(stored), len(places), duplicates)
	}
	figures := p.log.DedupeFigures()
	if figures.Ids != int64(len(stored)) || figures.Hits != uint64(duplicates) {
		t.Errorf("%+v, of %d messages and %d duplicates", figures, len(stored), duplicates)
	}
	m := gather(t, n)
	if m["highwater_dedupe_hits_total/t"] != float64(duplicates) || m["highwater_dedupe_ids/t"] != float64(len(stored)) {
		t.Errorf("series: %v hits, %v ids", m["highwater_dedupe_hits_total/t"], m["highwater_dedupe_ids/t"])
	}
}
