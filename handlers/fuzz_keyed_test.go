package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"highwater/storage"
)

// FuzzKeyedBody feeds bodies to the passes of a request with an Idempotency-Key, or of a
// producer, to one partition. They must agree with one another: the same body has the
// same hash, each record carries it, nobody sees it, and a producer's records are one
// batch that tells the time of its append.
func FuzzKeyedBody(f *testing.F) {
	for _, body := range []string{
		`{"records":[{"value":1}]}`, `{"records":[{"value":1},{"key":"k","value":null,"headers":[{"key":"h","value":null}]}]}`, `{"records":[{"value":1,"id":"x"}]}`,
		`{"producer_id":1,"producer_epoch":0,"base_sequence":2147483647,"records":[{"value":1},{"value":2}]}`,
		`{"records":[{"value":1},{"value":2}],"producer_id":9223372036854775807,"producer_epoch":32767,"base_sequence":0}`,
		`{"producer_id":1,"records":[{"value":1}],"base_sequence":0}`, `{"producer_id":null,"producer_epoch":null,"base_sequence":null,"records":[{"value":1}]}`,
		`{"producer_id":1e3,"producer_epoch":-0,"base_sequence":00,"records":[{"value":1}]}`, `{"records":[],"producer_id":1,"producer_epoch":1,"base_sequence":1}`,
		"{\"value\":1}\n{\"value\":2}", ``, `[`,
	} {
		f.Add(true, false, []byte(body))
		f.Add(false, true, []byte(body))
		f.Add(true, true, []byte(body))
	}
	f.Fuzz(func(t *testing.T, keyed, lines bool, body []byte) {
		rules := produceRules{topic: "t", partitions: 1, fixed: 0, maxRecordBytes: 1 << 20, now: 1000, key: formatString, value: formatJSON}
		if keyed {
			rules.idPrefix = "K/"
		}
		media := typeJSON
		if lines {
			media = typeNDJSON
		}
		p := new(pools).newPlan(&rules, len(body))
		err := parseBody(p, bytes.Clone(body), media)
		again := new(pools).newPlan(&rules, 0)
		if failed := parseBody(again, bytes.Clone(body), media); (failed == nil) != (err == nil) {
			t.Fatalf("%v, and the second time %v", err, failed)
		}
		if err != nil {
			var refusal *requestError
			if !errors.As(err, &refusal) || refusal.code.status() >= 500 || !json.Valid(explain(err, place{}).append(nil, true)) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if p.hash.value != again.hash.value || p.count != len(p.slots) {
			t.Fatalf("hashes %x and %x, %d records, %d slots", p.hash.value, again.hash.value, p.count, len(p.slots))
		}
		if reqs, err := p.requests(nil); err != nil || len(reqs) != 1 || p.producer != nil && (len(reqs[0].Batches) != 1 || !reqs[0].Batches[0].Marked()) {
			t.Fatalf("%d requests, %v", len(reqs), err)
		}
		renderer := newRecordRenderer(nativeFormat(), "t", 0)
		for _, r := range plannedRecords(t, again) {
			if !keyed {
				continue
			}
			last := r.Headers[len(r.Headers)-1]
			if string(last.Key) != storage.RequestHashHeader || string(last.Value) != string(p.hash.value[:]) || recordID(&r) < 0 {
				t.Fatalf("a record carries %q", r.Headers)
			}
			if bytes.Contains(renderer.append(nil, &r), []byte(`"key":"`+requestHeader)) {
				t.Fatalf("a reader sees %q", last.Key)
			}
		}
	})
}
