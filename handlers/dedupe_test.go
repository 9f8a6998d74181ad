package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"highwater/replication"
)

// produceAnswer is an answer of a produce as clients parse it.
type produceAnswer struct {
	Offsets []struct {
		Partition int32   `json:"partition"`
		Offset    int64   `json:"offset"`
		ErrorCode *int    `json:"error_code"`
		Outcome   string  `json:"outcome"`
		Error     *string `json:"error"`
		Duplicate bool    `json:"duplicate"`
	} `json:"offsets"`
	Partitions []struct {
		Partition  int32 `json:"partition"`
		BaseOffset int64 `json:"base_offset"`
		LastOffset int64 `json:"last_offset"`
		Duplicates int   `json:"duplicates"`
		ErrorCode  int   `json:"error_code"`
	} `json:"partitions"`
}

// places tells of each record its offset, with a d if it was there before.
func (p *produceAnswer) places() string {
	var out []string
	for _, o := range p.Offsets {
		text := fmt.Sprint(o.Offset)
		if o.Duplicate {
			text += "d"
		}
		if o.ErrorCode != nil {
			text = fmt.Sprint("!", *o.ErrorCode)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// produced posts and decodes an answer with this status.
func (b *testBroker) produced(status int, path string, body any, change ...request) (p produceAnswer) {
	b.t.Helper()
	b.post(path, body, change...).want(status).into(&p)
	return p
}

// F56, D5: a request that is sent again after its answer was lost is stored once, and
// answered with the first offset, however it named its message.
func TestF56_ARetryIsAnsweredWithTheFirstOffset(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	next := int64(0)
	for name, send := range map[string]func(acks string) produceAnswer{
		"id": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t?acks="+acks, `{"records":[{"value":1,"id":"guid-`+acks+`"}]}`)
		},
		"Message-Id": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t/records?acks="+acks, "x", header("Message-Id", "mid"+acks))
		},
		"Idempotency-Key": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t?acks="+acks, `{"records":[{"value":1}]}`, header("Idempotency-Key", "K"+acks))
		},
		"Idempotency-Key, raw": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t/partitions/0/records?acks="+acks, "x", header("Idempotency-Key", "R"+acks))
		},
		"ndjson": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t?response=full&acks="+acks, `{"value":1,"id":"nd`+acks+`"}`+"\n", ofType(typeNDJSON))
		},
		"vnd": func(acks string) produceAnswer {
			return b.produced(200, "/topics/t?acks="+acks, `{"records":[{"value":"AAA=","id":"vnd`+acks+`"}]}`, ofType(typeKafkaBinary))
		},
	} {
		for _, acks := range []string{"1", "-1"} {
			first := send(acks)
			if got := first.places(); got != fmt.Sprint(next) || first.Partitions[0].Duplicates != 0 {
				t.Fatalf("%s, acks=%s: at %s, want %d", name, acks, got, next)
			}
			for range 2 {
				again := send(acks)
				line := again.Partitions[0]
				if got := again.places(); got != fmt.Sprint(next, "d") || line.Duplicates != 1 || line.BaseOffset != next || line.LastOffset != next {
					t.Errorf("%s, acks=%s: again at %s: %+v", name, acks, got, line)
				}
			}
			if next++; b.end("t", 0) != next {
				t.Fatalf("%s, acks=%s: the log ends at %d, want %d", name, acks, b.end("t", 0), next)
			}
		}
	}
	b.restart()
	if again := b.produced(200, "/topics/t", `{"records":[{"value":1,"id":"guid--1"}]}`); !again.Offsets[0].Duplicate || b.end("t", 0) != next {
		t.Errorf("after a restart: %+v, end %d", again, b.end("t", 0))
	}
}

// The quotes of a structured field don't count, and a timestamp or partition that the
// retry gets otherwise doesn't either.
func TestARetryMayBeSpelledOtherwise(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", `{"records":[{"value":{"a":1},"key":"k","headers":[{"key":"h","value":"eA=="}]}]}`, header("Idempotency-Key", "K")).want(200)
	for _, body := range []string{
		` { "records" : [ {"key":"k", "headers":[{"value":"eA==","key":"h"}], "value":{"a":1} } ] } `,
		`{"records":[{"value":{"a":1},"key":"k","headers":[{"key":"h","value":"eA=="}],"timestamp":5}]}`,
		`{"records":[{"value":"{\"a\":1}","value_encoding":"text","key":"aw==","key_encoding":"base64","headers":[{"key":"h","value":"eA=="}]}]}`,
	} {
		if p := b.produced(200, "/topics/t/partitions/0", body, header("Idempotency-Key", `"K"`)); p.places() != "0d" {
			t.Errorf("%s: %s", body, p.places())
		}
	}
	// Without ids nothing is a duplicate, with acks=0 nobody is told.
	b.post("/topics/t", `{"records":[{"value":1}]}`).want(200)
	b.post("/topics/t", `{"records":[{"value":1}]}`).want(200)
	const two = `{"records":[{"value":{"a":1},"key":"k","headers":[{"key":"h","value":"eA=="}]},{"value":2}]}`
	for range 2 {
		if p := b.produced(202, "/topics/t?acks=0", two, header("Idempotency-Key", "Z")); p.places() != "-1 -1" {
			t.Errorf("acks=0: %s", p.places())
		}
		b.eventually("it is written", func() bool { return b.end("t", 0) >= 5 })
	}
	if p := b.produced(200, "/topics/t", two, header("Idempotency-Key", "Z")); p.places() != "3d 4d" {
		t.Errorf("after acks=0: %s", p.places())
	}
	if end := b.end("t", 0); end != 5 {
		t.Errorf("the log ends at %d", end)
	}
}

// D7: the same id for another message is refused, naming the first; nothing of the
// partition's part is written, and other partitions' parts are.
func TestD7_AnIDStandsForOneMessage(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.post("/topics/t", `{"records":[{"value":0,"partition":0},{"value":1,"partition":0,"id":"a"}]}`).want(200)
	for what, record := range map[string]string{
		"value":              `{"value":2,"id":"a"}`,
		"no value":           `{"value":null,"id":"a"}`,
		"other text of JSON": `{"value":1.0,"id":"a"}`,
		"a key":              `{"value":1,"key":"k","id":"a"}`,
		"an empty key":       `{"value":1,"key":"","id":"a"}`,
		"a header":           `{"value":1,"id":"a","headers":[{"key":"h","value":null}]}`,
	} {
		a := b.post("/topics/t/partitions/0", `{"records":[{"value":9},`+record+`,{"value":9,"id":"new"}]}`)
		p := a.problem(40908)
		var more struct {
			Partition   *int32 `json:"partition"`
			FirstOffset int64  `json:"first_offset"`
		}
		a.into(&more)
		if p.Outcome != "not_written" || more.FirstOffset != 1 || more.Partition == nil || *more.Partition != 0 || len(p.Errors) != 1 || p.Errors[0].Pointer != "/records/1" ||
			!strings.Contains(p.Fix, "/topics/t/partitions/0/records?offset=1&count=1") {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	if end := b.end("t", 0); end != 2 {
		t.Fatalf("the log ends at %d: something was written", end)
	}
	mixed := b.produced(207, "/topics/t?response=summary", `{"records":[{"value":7,"partition":1,"id":"x"},{"value":2,"partition":0,"id":"a"},{"value":8,"partition":1,"id":"y"},{"value":3,"partition":0}]}`)
	if mixed.places() != "0 !40908 1 !40908" || mixed.Offsets[1].Outcome != "not_written" || mixed.Partitions[0].BaseOffset != 0 {
		t.Errorf("mixed: %s, %+v", mixed.places(), mixed.Partitions)
	}
	again := b.produced(207, "/topics/t", `{"records":[{"value":7,"partition":1,"id":"x"},{"value":2,"partition":0,"id":"a"},{"value":8,"partition":1,"id":"y"},{"value":3,"partition":0}]}`)
	if again.places() != "0d !40908 1d !40908" {
		t.Errorf("mixed, again: %s", again.places())
	}
	// The fix mends: with an id of its own it goes through.
	b.post("/topics/t/partitions/0", `{"records":[{"value":2,"id":"b"}]}`).want(200)
}

// D10: in one request some are there already; the others are appended, and each record
// is told its place.
func TestD10_SomeRecordsAreThereAlready(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", `{"records":[{"value":0,"id":"a"},{"value":1,"id":"b"}]}`).want(200)
	body := `{"records":[{"value":2,"id":"c"},{"value":1,"id":"b"},{"value":3},{"value":0,"id":"a"},{"value":2,"id":"c"},{"value":4,"id":"d"}]}`
	p := b.produced(200, "/topics/t", body)
	if line := p.Partitions[0]; p.places() != "2 1d 3 0d 2d 4" || line.BaseOffset != 2 || line.LastOffset != 4 || line.Duplicates != 3 {
		t.Errorf("%s, %+v", p.places(), line)
	}
	p = b.produced(200, "/topics/t?response=summary", body)
	if line := p.Partitions[0]; len(p.Offsets) != 0 || line.BaseOffset != 5 || line.LastOffset != 5 || line.Duplicates != 5 {
		t.Errorf("again, but for the record without an id: %+v", p)
	}
	p = b.produced(200, "/topics/t", `{"value":1,"id":"b"}`+"\n"+`{"value":2,"id":"c"}`+"\n", ofType(typeNDJSON))
	if line := p.Partitions[0]; len(p.Offsets) != 0 || line.BaseOffset != 1 || line.LastOffset != 2 || line.Duplicates != 2 {
		t.Errorf("NDJSON: %+v", p)
	}
	a := b.post("/topics/t", `{"records":[{"value":1,"id":"twice"},{"value":2,"id":"twice"}]}`)
	if p := a.problem(40908); len(p.Errors) != 1 || p.Errors[0].Pointer != "/records/1" || strings.Contains(string(a.body), "first_offset") {
		t.Errorf("one id, two messages in one request: %s", a.body)
	}
	if end := b.end("t", 0); end != 6 {
		t.Errorf("the log ends at %d", end)
	}
	var values []string
	for _, r := range b.stored("t", 0, 6) {
		values = append(values, string(r.Value))
	}
	if got := strings.Join(values, " "); got != "0 1 2 3 4 3" {
		t.Errorf("stored: %s", got)
	}
}

// An Idempotency-Key stands for one request: another body is refused, also where only
// another record, or the number of records, is another one.
func TestAnIdempotencyKeyStandsForOneRequest(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	key := header("Idempotency-Key", "order 1")
	b.post("/topics/t", `{"records":[{"value":0},{"value":1},{"value":2}]}`, key).want(200)
	for what, body := range map[string]string{
		"the first record": `{"records":[{"value":9},{"value":1},{"value":2}]}`,
		"the last record":  `{"records":[{"value":0},{"value":1},{"value":9}]}`,
		"one less":         `{"records":[{"value":0},{"value":1}]}`,
		"one more":         `{"records":[{"value":0},{"value":1},{"value":2},{"value":3}]}`,
		"another order":    `{"records":[{"value":1},{"value":0},{"value":2}]}`,
		"a key":            `{"records":[{"value":0,"key":""},{"value":1},{"value":2}]}`,
		"none of them":     `{"records":[{"value":"x"}]}`,
	} {
		if p := b.post("/topics/t", body, key).problem(40908); p.Outcome != "not_written" || !strings.Contains(p.Detail, `order 1/`) {
			t.Errorf("%s: %+v", what, p)
		}
	}
	if p := b.produced(200, "/topics/t", `{"records":[{"value":0},{"value":1},{"value":2}]}`, key); p.places() != "0d 1d 2d" {
		t.Errorf("the same again: %s", p.places())
	}
	b.post("/topics/t/records", "raw", header("Idempotency-Key", "raw")).want(200)
	b.post("/topics/t/records", "other", header("Idempotency-Key", "raw")).problem(40908)
	if end := b.end("t", 0); end != 4 {
		t.Errorf("the log ends at %d", end)
	}
}

// Another request under the same Idempotency-Key is refused whole, wherever its records
// would go; at a partition's own address only that partition judges.
func TestAnIdempotencyKeyOverPartitions(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	record := func(value, partition int) string { return fmt.Sprintf(`{"value":%d,"partition":%d}`, value, partition) }
	body := func(records ...string) string { return `{"records":[` + strings.Join(records, ",") + `]}` }
	key := header("Idempotency-Key", "K")
	b.post("/topics/t", body(record(0, 0), record(1, 1)), key).want(200)
	// Only the record in partition 1 differs: partition 0 notices, too.
	b.post("/topics/t", body(record(0, 0), record(9, 1)), key).problem(40908)
	b.post("/topics/t", body(record(0, 0)), key).problem(40908)
	b.post("/topics/t", body(record(0, 0), record(1, 1), record(2, 2)), key).problem(40908)
	b.post("/topics/t", body(record(7, 2)), key).problem(40908)
	b.post("/topics/t/records?partition=2", "raw", key).problem(40908)
	if p := b.produced(200, "/topics/t", body(record(0, 0), record(1, 1)), key); p.places() != "0d 0d" {
		t.Errorf("the same again: %s", p.places())
	}
	b.post("/topics/t/partitions/0", `{"records":[{"value":7}]}`, key).problem(40908)
	b.post("/topics/t/partitions/2", `{"records":[{"value":7}]}`, key).want(200)
	for partition, want := range []int64{1, 1, 1} {
		if end := b.end("t", int32(partition)); end != want {
			t.Errorf("partition %d ends at %d", partition, end)
		}
	}
}

// F54: after the number of partitions was raised the partitioner may send an id
// elsewhere; a retry that is pinned to the partition of the first try is recognised.
func TestF54_ARetryPinnedToItsPartition(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	moved := ""
	for i := 0; moved == ""; i++ {
		if id := fmt.Sprint("id-", i); partitionForKey([]byte(id), 7) != 0 {
			moved = id
		}
	}
	body := `{"records":[{"value":1,"id":"` + moved + `"}]}`
	first := b.produced(200, "/topics/t", body)
	b.do(http.MethodPatch, "/topics/t", `{"partitions":7}`).want(200)
	for path, body := range map[string]string{
		fmt.Sprint("/topics/t/partitions/", first.Offsets[0].Partition): body,
		"/topics/t": fmt.Sprintf(`{"records":[{"value":1,"id":"%s","partition":%d}]}`, moved, first.Offsets[0].Partition),
	} {
		if p := b.produced(200, path, body); p.places() != "0d" || p.Offsets[0].Partition != 0 {
			t.Errorf("%s: %s", path, p.places())
		}
	}
	var found struct {
		Partition int32 `json:"partition"`
		Offset    int64 `json:"offset"`
	}
	b.get("/topics/t/messages/" + moved).want(200).into(&found)
	if found.Partition != 0 || found.Offset != 0 || b.end("t", 0) != 1 {
		t.Errorf("found %+v, the log ends at %d", found, b.end("t", 0))
	}
	// What isn't pinned goes where its id belongs now: no partition knows of another's ids.
	if p := b.produced(200, "/topics/t", body); p.Offsets[0].Duplicate || p.Offsets[0].Partition == 0 {
		t.Errorf("not pinned: %+v", p.Offsets[0])
	}
}

// dedupe.window.ms=0: ids are kept, and not looked at.
func TestIDsAreNotLookedAtWithoutAWindow(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1, "dedupe.window.ms", "0")
	for want := range 2 {
		if p := b.produced(200, "/topics/t", `{"records":[{"value":1,"id":"a"}]}`); p.places() != fmt.Sprint(want) {
			t.Errorf("%s, want %d", p.places(), want)
		}
	}
	if p := b.get("/topics/t/messages/a").problem(40404); !strings.Contains(p.Detail, "dedupe.window.ms is 0") || !strings.Contains(p.Fix, "PATCH") {
		t.Errorf("%+v", p)
	}
}

// What isn't appended asks for nothing of an append: a retry is answered whatever the
// log's end is by now, and a reused id is refused at acks=0, too.
func TestARetryAsksForNothing(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	const body = `{"records":[{"value":1,"id":"a"}]}`
	for _, want := range []string{"0", "0d"} {
		if p := b.produced(200, "/topics/t/partitions/0?acks=-1&expected_offset=0", body); p.places() != want {
			t.Errorf("%s, want %s", p.places(), want)
		}
	}
	b.post("/topics/t/partitions/0?expected_offset=0", `{"records":[{"value":1,"id":"a"},{"value":2,"id":"b"}]}`).problem(41201)
	if p := b.produced(200, "/topics/t/partitions/0?expected_offset=1", `{"records":[{"value":1,"id":"a"},{"value":2,"id":"b"}]}`); p.places() != "0d 1" {
		t.Errorf("some of it is new: %s", p.places())
	}
	b.post("/topics/t?acks=0", `{"records":[{"value":2,"id":"a"}]}`).problem(40908)
	b.post("/topics/t/partitions/0?acks=0", sequenced(7, 0, 0, 1)).problem(40904)
	if end := b.end("t", 0); end != 2 {
		t.Errorf("the log ends at %d", end)
	}
}

// A request that goes to several partitions and is refused in each tells every record
// that is at fault.
func TestReusedIDsOfSeveralPartitions(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	b.post("/topics/t", `{"records":[{"value":1,"partition":0,"id":"a"},{"value":1,"partition":2,"id":"c"}]}`).want(200)
	a := b.post("/topics/t", `{"records":[{"value":1,"partition":2},{"value":9,"partition":0,"id":"a"},{"value":9,"partition":2,"id":"c"}]}`)
	var pointers []string
	for _, f := range a.problem(40908).Errors {
		pointers = append(pointers, f.Pointer)
	}
	slices.Sort(pointers)
	if got := strings.Join(pointers, " "); got != "/records/1 /records/2" {
		t.Errorf("%s: %s", got, a.body)
	}
}

// A request of several partitions whose outcome is unknown in all tells of each record
// where it went, as long as that is a list that can be read.
func TestUnknownOutcomesNameEachPartition(t *testing.T) {
	for _, records := range []int{3, maxListedFates + 1} {
		rules := produceRules{topic: "t", partitions: 3, fixed: anyPartition, maxRecordBytes: 1 << 20, now: 1000, dedupes: true, value: formatJSON}
		p := new(pools).newPlan(&rules, 1000)
		var body []string
		for i := range records {
			body = append(body, fmt.Sprintf(`{"value":1,"partition":%d,"id":"%d"}`, i%3, i))
		}
		must(t, parseBody(p, []byte(`{"records":[`+strings.Join(body, ",")+`]}`), typeJSON))
		failures := make([]*problem, len(p.parts))
		for i := range failures {
			failures[i] = explain(replication.ErrTimeout, place{})
		}
		got := oneReason(commonFailure(failures), p, make([]replication.AppendResult, 3), failures)
		text := string(got.append(nil, true))
		switch {
		case records > maxListedFates && got.results != nil:
			t.Errorf("%d records are listed", records)
		case records <= maxListedFates && (strings.Count(text, `"outcome":"unknown"`) != records+1 || !strings.Contains(text, `{"partition":2,"offset":-1,`) || !strings.Contains(got.fix, "each record")):
			t.Errorf("%s", text)
		}
	}
}
