package handlers

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/rs/zerolog"

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
				ps := new(pools)
				rules := produceRules{topic: "t", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, value: formatJSON, now: 1000}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					p := ps.newPlan(&rules, len(body))
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

// discardAnswer is a ResponseWriter without a connection.
type discardAnswer struct{ h http.Header }

func (d *discardAnswer) Header() http.Header              { return d.h }
func (d *discardAnswer) Write(p []byte) (int, error)      { return len(p), nil }
func (d *discardAnswer) WriteHeader(int)                  {}
func (d *discardAnswer) SetReadDeadline(time.Time) error  { return nil }
func (d *discardAnswer) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkProduce measures a whole produce without net/http: frame, parser,
// broker, log and answer.
func BenchmarkProduce(b *testing.B) {
	broker := startBroker(b, withHandlers(func(c *Config) { c.Logger = zerolog.New(io.Discard) }))
	broker.topic("t", 1)
	for _, n := range []int{1, 100} {
		body := []byte(recordsBody(n))
		for _, acks := range []string{"0", "1"} {
			b.Run(fmt.Sprintf("acks=%s/%d", acks, n), func(b *testing.B) {
				b.ReportAllocs()
				src := bytes.NewReader(body)
				r := httptest.NewRequest(http.MethodPost, "/topics/t?acks="+acks, nil)
				r.ContentLength = int64(len(body))
				for b.Loop() {
					src.Reset(body)
					r.Body = io.NopCloser(src)
					broker.handler.ServeHTTP(&discardAnswer{h: http.Header{}}, r)
				}
			})
		}
	}
}

// BenchmarkProduceIDs is BenchmarkProduce at acks=1 of batches of 100, each of whose
// records has an id: a new one, or one that the log knows.
func BenchmarkProduceIDs(b *testing.B) {
	const records, digits = 100, 16
	var body []byte
	var at []int
	for i := range records {
		body = append(body, `,{"id":"`...)
		at = append(at, len(body))
		body = fmt.Appendf(body, `%0*d-%019d","key":"customer-%d","value":{"n":%d,"note":"%s"}}`, digits, 0, i, i, i, strings.Repeat("x", 170))
	}
	body = append(append([]byte(`{"records":[ `), body[1:]...), `]}`...)
	for i := range at {
		at[i] += len(`{"records":[ `) - 1
	}
	for name, fresh := range map[string]bool{"new": true, "duplicates": false} {
		b.Run(name, func(b *testing.B) {
			broker := startBroker(b, withHandlers(func(c *Config) { c.Logger = zerolog.New(io.Discard) }))
			broker.topic("t", 1)
			src := bytes.NewReader(body)
			r := httptest.NewRequest(http.MethodPost, "/topics/t?acks=1", nil)
			r.ContentLength = int64(len(body))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if fresh {
					number := fmt.Appendf(nil, "%0*d", digits, n)
					for _, i := range at {
						copy(body[i:], number)
					}
				}
				src.Reset(body)
				r.Body = io.NopCloser(src)
				broker.handler.ServeHTTP(&discardAnswer{h: http.Header{}}, r)
			}
		})
	}
}
