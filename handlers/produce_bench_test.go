package handlers

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkParse measures the road from a body to sealed batches.
func BenchmarkParse(b *testing.B) {
	value := `{"id":123456,"name":"order","items":[{"sku":"a-1","n":2},{"sku":"b-7","n":1}],"note":"` + strings.Repeat("x", 110) + `"}`
	for _, shape := range []struct{ name, media, record, between, open, end string }{
		{"native", typeJSON, `{"value":` + value + `}`, ",", `{"records":[`, `]}`},
		{"keyed", typeJSON, `{"key":"customer-17","value":` + value + `,"timestamp":1764424000000}`, ",", `{"records":[`, `]}`},
		{"headers", typeJSON, `{"value":` + value + `,"headers":[{"key":"trace","value":"YWJjZGVm"}],"id":"guid-0001"}`, ",", `{"records":[`, `]}`},
		{"ndjson", typeNDJSON, `{"value":` + value + `}`, "\n", "", "\n"},
	} {
		for _, n := range []int{1, 100, 10_000} {
			body := []byte(shape.open + strings.Repeat(shape.record+shape.between, n-1) + shape.record + shape.end)
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				rules := produceRules{topic: "t", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, value: formatJSON}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					p := newPlan(&rules, len(body))
					must(b, parseBody(p, body, shape.media))
					if _, err := p.requests(nil); err != nil {
						b.Fatal(err)
					}
					p.release()
				}
			})
		}
	}
}
