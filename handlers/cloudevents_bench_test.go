package handlers

import (
	"fmt"
	"strings"
	"testing"
)

// benchEvent is an event with the data that BenchmarkParse's values have.
var benchEvent = eventIn("6e8bc430-9c3a-11d9", `"subject":"order-17","time":"2018-04-05T17:31:00Z","datacontenttype":"application/json","data":{"id":123456,"name":"order","items":[{"sku":"a-1","n":2},{"sku":"b-7","n":1}],"note":"`+strings.Repeat("x", 110)+`"}`)

// BenchmarkParseEvents measures the road from a batch of events to sealed batches.
func BenchmarkParseEvents(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		body := []byte("[" + strings.Repeat(benchEvent+",", n-1) + benchEvent + "]")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ps := new(pools)
			rules := produceRules{topic: "t", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, now: 1000, events: batchedEvents}
			e := &eventRequest{produceRequest: &produceRequest{rules: rules}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				p := ps.newPlan(&rules, len(body))
				must(b, e.parseBody(p, body))
				if _, err := p.requests(nil); err != nil {
					b.Fatal(err)
				}
				p.release()
			}
		})
	}
}

// BenchmarkRenderEvent measures one record, given as the event it is.
func BenchmarkRenderEvent(b *testing.B) {
	p := eventPlan(b, benchEvent, structuredEvent)
	defer p.release()
	rec := plannedRecords(b, p)[0]
	renderer := newRecordRenderer(eventFormat(), "t", 0)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = renderer.append(out[:0], &rec)
	}
	b.SetBytes(int64(len(out)))
}
