package handlers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"highwater/replication"
	"highwater/storage"
)

// produceResult is the answer of a produce as clients parse it.
type produceResult struct {
	Offsets []struct {
		Partition  int32   `json:"partition"`
		Offset     int64   `json:"offset"`
		ErrorCode  *int    `json:"error_code"`
		Error      *string `json:"error"`
		KafkaError string  `json:"kafka_error"`
		Retriable  bool    `json:"retriable"`
		Outcome    string  `json:"outcome"`
	} `json:"offsets"`
	Partitions []struct {
		Partition      int32  `json:"partition"`
		BaseOffset     int64  `json:"base_offset"`
		LastOffset     int64  `json:"last_offset"`
		LeaderEpoch    int32  `json:"leader_epoch"`
		HighWatermark  int64  `json:"high_watermark"`
		InSyncReplicas int    `json:"in_sync_replicas"`
		Durability     string `json:"durability"`
	} `json:"partitions"`
	Acks          int             `json:"acks"`
	KeySchemaID   json.RawMessage `json:"key_schema_id"`
	ValueSchemaID json.RawMessage `json:"value_schema_id"`
}

func (a answer) produced(status int) produceResult {
	a.t.Helper()
	var res produceResult
	a.want(status).into(&res)
	return res
}

func TestProduceAnswerHasTheDialectsShape(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=-1", `{"records":[{"value":0}]}`).want(200)
	a := b.post("/topics/t?acks=-1", `{"records":[{"key":"k1","value":{"n":1},"partition":0,"timestamp":1764424000000,"headers":[{"key":"h","value":"YmFzZTY0"}],"id":"guid-1"},{"value":2}]}`)
	res := a.produced(200)
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := a.header.Get("Highwater-Leader"); got != b.url {
		t.Errorf("Highwater-Leader %q, want %q", got, b.url)
	}
	if len(res.Offsets) != 2 || res.Offsets[0].Offset != 1 || res.Offsets[1].Offset != 2 || res.Offsets[0].ErrorCode != nil || res.Offsets[0].Error != nil {
		t.Errorf("offsets: %s", a.body)
	}
	p := res.Partitions[0]
	if len(res.Partitions) != 1 || p.BaseOffset != 1 || p.LastOffset != 2 || p.HighWatermark != 3 || p.InSyncReplicas != 1 || p.Durability != "fsynced" || res.Acks != -1 {
		t.Errorf("partitions: %s", a.body)
	}
	if string(res.KeySchemaID) != "null" || string(res.ValueSchemaID) != "null" {
		t.Errorf("schema ids: %s", a.body)
	}
	recs := b.stored("t", 0, 3)
	r := recs[1]
	if string(r.Key) != "k1" || string(r.Value) != `{"n":1}` || r.Timestamp != 1764424000000 || len(r.Headers) != 2 ||
		string(r.Headers[0].Key) != "h" || string(r.Headers[0].Value) != "base64" || string(r.Headers[1].Key) != idHeader || string(r.Headers[1].Value) != "guid-1" {
		t.Errorf("stored %+v", r)
	}
	if r.Attributes != storage.FlagValueJSON|storage.FlagValueOneLine {
		t.Errorf("flags %b", r.Attributes)
	}
}

// storedAs is what a key or value became on disk; nil stays nil.
type storedAs struct{ key, value []byte }

func TestRepresentationsOfKeysAndValues(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct {
		name, query, media, record string
		want                       storedAs
		code                       int // of the refusal, 0: accepted
	}{
		{name: "native string key", record: `{"key":"k1","value":{"a": [1,2 ]}}`, want: storedAs{[]byte("k1"), []byte(`{"a": [1,2 ]}`)}},
		{name: "native escaped key", record: `{"key":"a\u00e9\n","value":"x"}`, want: storedAs{[]byte("aé\n"), []byte(`"x"`)}},
		{name: "native empty key", record: `{"key":"","value":1}`, want: storedAs{[]byte{}, []byte(`1`)}},
		{name: "native null key", record: `{"key":null,"value":1}`, want: storedAs{nil, []byte(`1`)}},
		{name: "native number key", record: `{"key":1,"value":1}`, code: 42201},
		{name: "native object key", record: `{"key":{},"value":1}`, code: 42201},
		{name: "native tombstone", record: `{"key":"k","value":null}`, want: storedAs{[]byte("k"), nil}},
		{name: "native absent value", record: `{"key":"k"}`, code: 42201},
		{name: "native number text kept", record: `{"value":1e400}`, want: storedAs{nil, []byte(`1e400`)}},
		{name: "key_format=json", query: "?key_format=json", record: `{"key":{"a": 1},"value":1}`, want: storedAs{[]byte(`{"a": 1}`), []byte(`1`)}},
		{name: "key_format=json string keeps quotes", query: "?key_format=json", record: `{"key":"a","value":1}`, want: storedAs{[]byte(`"a"`), []byte(`1`)}},
		{name: "key_format=binary", query: "?key_format=binary", record: `{"key":"AP8=","value":1}`, want: storedAs{[]byte{0, 255}, []byte(`1`)}},
		{name: "value_format=string", query: "?value_format=string", record: `{"value":"hi \u0022"}`, want: storedAs{nil, []byte(`hi "`)}},
		{name: "value_format=string, number", query: "?value_format=string", record: `{"value":5}`, code: 42201},
		{name: "value_format=string, empty", query: "?value_format=string", record: `{"value":""}`, want: storedAs{nil, []byte{}}},
		{name: "value_format=string, tombstone", query: "?value_format=string", record: `{"value":null}`, want: storedAs{nil, nil}},
		{name: "value_format=binary", query: "?value_format=binary", record: `{"value":"AP8="}`, want: storedAs{nil, []byte{0, 255}}},
		{name: "value_encoding text", record: `{"value":"hi","value_encoding":"text"}`, want: storedAs{nil, []byte(`hi`)}},
		{name: "value_encoding before value", record: `{"value_encoding":"base64","value":"AP8="}`, want: storedAs{nil, []byte{0, 255}}},
		{name: "key_encoding base64", record: `{"key":"AP8=","key_encoding":"base64","value":1}`, want: storedAs{[]byte{0, 255}, []byte(`1`)}},
		{name: "key_encoding unknown", record: `{"key":"AP8=","key_encoding":"hex","value":1}`, code: 42201},
		{name: "bad base64", record: `{"value":"AP8","value_encoding":"base64"}`, code: 42201},
		{name: "base64 with a line break", record: `{"value":"AP8=\n","value_encoding":"base64"}`, code: 42201},
		{name: "base64 with stray bits", record: `{"value":"AP9=","value_encoding":"base64"}`, code: 42201},
		{name: "vnd json", media: typeKafkaJSON, record: `{"key":"a","value":"b"}`, want: storedAs{[]byte(`"a"`), []byte(`"b"`)}},
		{name: "vnd json object key", media: typeKafkaJSON, record: `{"key":{"a":1.0},"value":null}`, want: storedAs{[]byte(`{"a":1.0}`), nil}},
		{name: "vnd binary", media: typeKafkaBinary, record: `{"key":"` + b64([]byte("k")) + `","value":"` + b64([]byte{0xff, 0}) + `"}`, want: storedAs{[]byte("k"), []byte{0xff, 0}}},
		{name: "vnd binary, no base64", media: typeKafkaBinary, record: `{"value":"!"}`, code: 42201},
		{name: "vnd binary, object key", media: typeKafkaBinary, record: `{"key":{},"value":""}`, code: 42201},
		{name: "vnd text", media: typeKafkaText, record: `{"key":"k","value":"é"}`, want: storedAs{[]byte("k"), []byte("é")}},
		{name: "vnd text, object", media: typeKafkaText, record: `{"value":{}}`, code: 42201},
		{name: "vnd json with value_format", media: typeKafkaJSON, query: "?value_format=binary", record: `{"value":"AP8="}`, want: storedAs{nil, []byte{0, 255}}},
		{name: "a fetched record", record: `{"topic":"other","partition":0,"offset":99,"timestamp":5,"key":"k","value":1,"headers":[],"id":"x"}`, want: storedAs{[]byte("k"), []byte(`1`)}},
		{name: "nulls of a fetched record", record: `{"partition":null,"timestamp":null,"key":null,"value":1,"headers":null,"id":null}`, want: storedAs{nil, []byte(`1`)}},
		{name: "unknown member", record: `{"value":1,"vlaue":2}`, code: 42201},
		{name: "member in other case", record: `{"Value":1}`, code: 42201},
		{name: "escaped member name", record: `{"v\u0061lue":1}`, want: storedAs{nil, []byte(`1`)}},
		{name: "repeated member", record: `{"value":1,"value":2}`, code: 40001},
		{name: "repeated, one escaped", record: `{"value":1,"v\u0061lue":2}`, code: 40001},
		{name: "reserved header", record: `{"value":1,"headers":[{"key":"highwater.id","value":"eA=="}]}`, code: 42201},
		{name: "null header value", record: `{"value":1,"headers":[{"key":"h","value":null}]}`, want: storedAs{nil, []byte(`1`)}},
		{name: "header without value", record: `{"value":1,"headers":[{"key":"h"}]}`, code: 42201},
		{name: "header key no string", record: `{"value":1,"headers":[{"key":1,"value":null}]}`, code: 42201},
		{name: "header no base64", record: `{"value":1,"headers":[{"key":"h","value":"?"}]}`, code: 42201},
		{name: "headers as object", record: `{"value":1,"headers":{"a":"b"}}`, code: 42201},
		{name: "empty id", record: `{"value":1,"id":""}`, code: 42201},
		{name: "id no string", record: `{"value":1,"id":7}`, code: 42201},
		{name: "id with a control character", record: `{"value":1,"id":"a\u0000"}`, code: 42201},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			media := c.media
			if media == "" {
				media = typeJSON
			}
			p := planOf(t, c.query, media)
			err := parseBody(p, []byte(`{"records":[`+c.record+`]}`), media)
			if c.code != 0 {
				if err == nil {
					t.Fatal("accepted")
				}
				if got := explain(err, place{}).code; int(got) != c.code {
					t.Fatalf("code %d, want %d: %v", got, c.code, err)
				}
				return
			}
			must(t, err)
			got := plannedRecords(t, p)
			if len(got) != 1 {
				t.Fatalf("%d records", len(got))
			}
			checkBytes(t, "key", got[0].Key, c.want.key)
			checkBytes(t, "value", got[0].Value, c.want.value)
		})
	}
}

func checkBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if (got == nil) != (want == nil) || string(got) != string(want) {
		t.Errorf("%s %q (nil: %v), want %q (nil: %v)", what, got, got == nil, want, want == nil)
	}
}

// planOf is an empty plan for a topic of one partition.
func planOf(t testing.TB, query, media string) *plan {
	t.Helper()
	rules := produceRules{topic: "t", partitions: 1, fixed: anyPartition, maxRecordBytes: 1 << 20, now: 1000}
	q := parseQuery(strings.TrimPrefix(query, "?"), "key_format", "value_format")
	rules.key, rules.value = mediaFormats(media)
	rules.key, rules.value = q.payloadParam("key_format", rules.key), q.payloadParam("value_format", rules.value)
	must(t, q.err())
	return new(pools).newPlan(&rules, 1024)
}

// plannedRecords decodes what the plan would append.
func plannedRecords(t testing.TB, p *plan) []storage.Record {
	t.Helper()
	reqs, err := p.requests(nil)
	must(t, err)
	var out []storage.Record
	for _, req := range reqs {
		for _, batch := range req.Batches {
			it, err := batch.Records()
			must(t, err)
			for {
				var rec storage.Record
				if !it.Next(&rec) {
					break
				}
				out = append(out, rec)
			}
			must(t, it.Err())
		}
	}
	return out
}

func TestRawRecords(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	res := b.post("/topics/t/records?key=a&partition=1&timestamp=12345", "hi", ofType("text/plain; charset=utf-8"),
		header("Message-Id", "m-1"), header("Record-Header-Trace-Id", "abc"), header("Record-Header-A", "1"), header("Record-Header-A", "2")).produced(200)
	if res.Offsets[0].Partition != 1 || res.Offsets[0].Offset != 0 {
		t.Errorf("offsets %+v", res.Offsets)
	}
	r := b.stored("t", 1, 1)[0]
	if string(r.Key) != "a" || string(r.Value) != "hi" || r.Timestamp != 12345 || r.Attributes != 0 {
		t.Errorf("stored %+v", r)
	}
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, string(h.Key)+"="+string(h.Value))
	}
	if got, want := strings.Join(headers, " "), "content-type=text/plain; charset=utf-8 a=1 a=2 trace-id=abc highwater.id=m-1"; got != want {
		t.Errorf("headers %q, want %q", got, want)
	}

	// curl -d's own type says nothing about the value, and an empty body is a value.
	b.post("/topics/t/partitions/2/records", "", ofType("application/x-www-form-urlencoded")).want(200)
	r = b.stored("t", 2, 1)[0]
	if r.Key != nil || r.Value == nil || len(r.Value) != 0 || len(r.Headers) != 0 {
		t.Errorf("stored %+v", r)
	}
	b.post("/topics/t/partitions/2/records?key=", `{"a":1}`, ofType("application/json")).want(200)
	r = b.stored("t", 2, 2)[1]
	if r.Key == nil || len(r.Key) != 0 || r.Attributes != storage.FlagValueJSON|storage.FlagValueOneLine {
		t.Errorf("stored %+v", r)
	}

	for _, c := range []struct {
		path string
		code int
		with request
	}{
		{"/topics/t/records?partition=3", 40402, nil},
		{"/topics/t/records?partition=-1", 40001, nil},
		{"/topics/t/partitions/0/records?partition=0", 40001, nil},
		{"/topics/t/partitions/x/records", 40402, nil},
		{"/topics/t/records?timestamp=-5x", 40001, nil},
		{"/topics/t/records?key_format=binary&key=!", 40001, nil},
		{"/topics/t/records?value_format=json", 40001, nil},
		{"/topics/t/records", 40001, header("Message-Id", "")},
		{"/topics/t/records", 40001, func(r *http.Request) { r.Header["Message-Id"] = []string{"a", "b"} }},
		{"/topics/t/records", 40001, header("Record-Header-Highwater.id", "x")},
		{"/topics/t/records", 41501, ofType("application/cloudevents+avro")},
		{"/topics/t/records", 40001, header("Ce-Specversion", "1.0")},
		{"/topics/nope/records", 40401, nil},
	} {
		if c.with == nil {
			c.with = func(*http.Request) {}
		}
		p := b.post(c.path, "x", c.with).problem(c.code)
		if p.Outcome != "not_written" {
			t.Errorf("%s: outcome %q", c.path, p.Outcome)
		}
	}
}

func TestNDJSON(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	a := b.post("/topics/t?acks=all", "{\"value\":1}\r\n\n  {\"key\":\"k\",\"value\":{\"a\":2}}  \n{\"value\":null}", ofType(typeNDJSON))
	res := a.produced(200)
	if res.Offsets != nil || res.Partitions[0].LastOffset != 2 {
		t.Errorf("answer %s", a.body)
	}
	if got := b.post("/topics/t?response=full", `{"value":4}`+"\n", ofType(typeNDJSON)).produced(200); len(got.Offsets) != 1 || got.Offsets[0].Offset != 3 {
		t.Errorf("offsets %+v", got.Offsets)
	}
	for body, want := range map[string]struct {
		code int
		line string
	}{
		"{\"value\":1}\nnot json\n{\"value\":2}\n":   {40001, "ine 2"},
		"{\"value\":1}\n{\"value\":\n{\"value\":2}":  {40001, "ine 2"},
		"{\"value\":1}\n{\"value\":2} {\"value\":3}": {40001, "ine 2"},
		"{\"value\":1}\n\n{\"value\":\n2}":           {40001, "ine 3"},
		"{\"value\":1}\n{\"key\":\"a\"}":             {42201, "ine 2"},
		"{\"value\":1}\n[]":                          {42201, "ine 2"},
		"{\"value\":1}}":                             {40001, "ine 1"},
		"{\"value\":1":                               {40001, "ine 1"},
		"\n \n":                                      {42201, ""},
		"":                                           {42201, ""},
	} {
		p := b.post("/topics/t", body, ofType(typeNDJSON)).problem(want.code)
		if !strings.Contains(p.Detail, want.line) {
			t.Errorf("%q: %s", body, p.Detail)
		}
	}
	if end := b.end("t", 0); end != 4 {
		t.Errorf("log end %d after refusals, want 4", end)
	}
}

func TestExpectedOffset(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t/partitions/0?expected_offset=0", recordsBody(3)).want(200)
	a := b.post("/topics/t/partitions/0?expected_offset=0", recordsBody(3))
	a.problem(41201)
	var m struct {
		LogEnd int64 `json:"log_end_offset"`
	}
	if a.into(&m); m.LogEnd != 3 {
		t.Errorf("log_end_offset %d", m.LogEnd)
	}
	b.post("/topics/t/partitions/0/records?expected_offset=3", "x").want(200)
	b.post("/topics/t?expected_offset=4", recordsBody(1)).problem(40001)
	if end := b.end("t", 0); end != 4 {
		t.Errorf("log end %d", end)
	}
}

func TestIdempotencyKeyGivesIDs(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", recordsBody(2), header("Idempotency-Key", `"K"`)).want(200)
	b.post("/topics/t/records", "x", header("Idempotency-Key", "L")).want(200)
	var ids []string
	for _, r := range b.stored("t", 0, 3) {
		ids = append(ids, string(r.Headers[recordID(&r)].Value))
	}
	if got := fmt.Sprint(ids); got != "[K/0 K/1 L/0]" {
		t.Errorf("ids %s", got)
	}
	b.post("/topics/t", `{"records":[{"value":1,"id":"x"}]}`, header("Idempotency-Key", "K")).problem(42201)
}

// The ids that the longest key gives are taken as ids, too.
func TestALongIdempotencyKey(t *testing.T) {
	b := startBroker(t)
	b.topic("from", 1)
	b.topic("to", 1)
	key := strings.Repeat("k", maxKeyBytes)
	b.post("/topics/from?acks=-1", recordsBody(11), header("Idempotency-Key", key)).want(200)
	fetched := b.get("/topics/from/partitions/0/records?offset=10").want(200)
	b.post("/topics/to", `{"records":`+string(fetched.body)+`}`).want(200)
	b.post("/topics/from", recordsBody(1), header("Idempotency-Key", key+"k")).problem(40001)
}

func TestAutoCreate(t *testing.T) {
	b := startBroker(t, withDefaults(func(d *replication.Defaults) { d.AutoCreateTopics = true }))
	b.post("/topics/new", recordsBody(1)).want(200)
	b.post("/topics/new/records", "x").want(200)
	b.post("/topics/..%2Fx", recordsBody(1)).problem(42201)
	if end := b.end("new", 0); end != 2 {
		t.Errorf("log end %d", end)
	}
	p := startBroker(t).post("/topics/new", recordsBody(1)).problem(40401)
	if !strings.Contains(p.Fix, "curl -X PUT http://127.0.0.1:") || !strings.HasSuffix(p.Fix, "/topics/new") {
		t.Errorf("fix %q", p.Fix)
	}
}
