package handlers

import (
	"bytes"
	"fmt"
	"highwater/replication/group"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/storage"
)

func TestH23_OneRecordWithABadPartition(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 3)
	p := b.post("/topics/t", `{"records":[{"value":0,"partition":0},{"value":1,"partition":99},{"value":2},{"value":3,"partition":-1},{"value":4,"partition":2}]}`).problem(42201)
	if len(p.Errors) != 2 || p.Errors[0].Pointer != "/records/1/partition" || p.Errors[0].ErrorCode != 40402 || p.Errors[1].Pointer != "/records/3/partition" {
		t.Errorf("errors %+v", p.Errors)
	}
	for i := range int32(3) {
		if end := b.end("t", i); end != 0 {
			t.Errorf("partition %d ends at %d", i, end)
		}
	}
	b.post("/topics/t", `{"records":[{"value":1,"partition":3}]}`).problem(40402)
	b.post("/topics/t", `{"records":[{"value":1,"partition":2147483648}]}`).problem(42201)
	b.post("/topics/t/partitions/1", `{"records":[{"value":1,"partition":2}]}`).problem(42201)
	b.post("/topics/t/partitions/1", `{"records":[{"value":1,"partition":1},{"value":1}]}`).want(200)
	b.post("/topics/t/partitions/3", batchOf("1")).problem(40402)
	for _, bad := range []string{"01", "+1", "-1", "x", "1.0", "99999999999", "%31x"} {
		b.post("/topics/t/partitions/"+bad, batchOf("1")).problem(40402)
	}
}

func TestH24_ResultsStandInRequestOrder(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 5)
	const batches, records = 20, 50
	var mu sync.Mutex
	at := map[string]string{} // "partition/offset" → value
	var wg sync.WaitGroup
	for n := range batches {
		wg.Go(func() {
			var body strings.Builder
			for i := range records {
				fmt.Fprintf(&body, `,{"value":"%d.%d","partition":%d}`, n, i, (i*i+n)%5)
			}
			res := b.post("/topics/t?acks=-1", `{"records":[`+body.String()[1:]+`]}`).produced(200)
			mu.Lock()
			defer mu.Unlock()
			for i, o := range res.Offsets {
				at[fmt.Sprintf("%d/%d", o.Partition, o.Offset)] = fmt.Sprintf(`"%d.%d"`, n, i)
			}
		})
	}
	wg.Wait()
	if len(at) != batches*records {
		t.Fatalf("%d places for %d records", len(at), batches*records)
	}
	for p := range int32(5) {
		last := map[string]int{}
		for _, r := range b.stored("t", p, 1) {
			if got := at[fmt.Sprintf("%d/%d", p, r.Offset)]; got != string(r.Value) {
				t.Fatalf("%d/%d holds %s, answered for %s", p, r.Offset, r.Value, got)
			}
			var n, i int
			_, err := fmt.Sscanf(string(r.Value), `"%d.%d"`, &n, &i)
			must(t, err)
			if prev, ok := last[fmt.Sprint(n)]; ok && prev >= i {
				t.Fatalf("batch %d: record %d stands behind %d", n, i, prev)
			}
			last[fmt.Sprint(n)] = i
		}
	}
}

func TestH25_KeylessRecordToACompactedTopic(t *testing.T) {
	b := startBroker(t)
	b.topic("c", 1, "cleanup.policy", "compact")
	b.topic("cd", 1, "cleanup.policy", "compact,delete")
	for _, topic := range []string{"c", "cd"} {
		b.post("/topics/"+topic, batchOf("1")).problem(42201)
		b.post("/topics/"+topic, `{"records":[{"key":null,"value":1}]}`).problem(42201)
		p := b.post("/topics/"+topic, `{"records":[{"key":"k","value":1},{"value":2}]}`).problem(42201)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/records/1/key" {
			t.Errorf("errors %+v", p.Errors)
		}
		b.post("/topics/"+topic+"/records", "x").problem(42201)
		b.post("/topics/"+topic+"/records?key=k", "x").want(200)
		b.post("/topics/"+topic, `{"records":[{"key":"","value":1}]}`).want(200)
		if end := b.end(topic, 0); end != 2 {
			t.Errorf("log end %d", end)
		}
	}
}

func TestH26_EmptyAndLargeBatches(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, acks := range []string{"0", "1", "-1"} {
		b.post("/topics/t?acks="+acks, `{"records":[]}`).problem(42201)
		b.post("/topics/t?acks="+acks, `{"records":[{}]}`).problem(42201)
		b.post("/topics/nope?acks="+acks, `{"records":[]}`).problem(40401)
		b.post("/topics/nope?acks="+acks, `nonsense`).problem(40401)
	}
	if end := b.end("t", 0); end != 0 {
		t.Fatalf("log end %d", end)
	}
	b.post("/topics/t", batchOf(`""`)).want(200)
	const n = 100_000
	res := b.post("/topics/t", `{"records":[`+strings.Repeat(`{"value":0},`, n-1)+`{"value":0}]}`).produced(200)
	if len(res.Offsets) != n || res.Offsets[n-1].Offset != n || res.Partitions[0].LastOffset != n {
		t.Errorf("%d results, partitions %+v", len(res.Offsets), res.Partitions)
	}
	if got := len(b.stored("t", 0, n+1)); got != n+1 {
		t.Errorf("%d stored", got)
	}
}

func TestH27_OversizeRecordAmongSmallOnes(t *testing.T) {
	const most = 2000
	b := startBroker(t)
	b.topic("t", 1, "max.message.bytes", fmt.Sprint(most))
	value := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` } // n bytes of JSON text
	p := b.post("/topics/t", batchOf("1", value(most+1), "2", value(most), "3")).problem(41302)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/records/1" || !strings.Contains(p.Detail, fmt.Sprint(most+1)) {
		t.Errorf("problem %+v", p)
	}
	if end := b.end("t", 0); end != 0 {
		t.Fatalf("log end %d", end)
	}
	b.post("/topics/t", batchOf("1", value(most), "3")).want(200)
	b.post("/topics/t", batchOf(value(most), value(most), value(most), value(most))).want(200)
	// Key and headers count.
	b.post("/topics/t", `{"records":[{"key":"k","value":`+value(most)+`}]}`).problem(41302)
	b.post("/topics/t", `{"records":[{"key":"k","value":`+value(most-1)+`}]}`).want(200)
	b.post("/topics/t/records", strings.Repeat("x", most), ofType(typeForm)).want(200)
	b.post("/topics/t/records", strings.Repeat("x", most+1), ofType(typeForm)).problem(41302)
	b.post("/topics/t/records", strings.NewReader(strings.Repeat("x", most+1)), ofType(typeForm), func(r *http.Request) { r.ContentLength = -1 }).problem(41302)
	b.post("/topics/t/records?key=k", strings.Repeat("x", most), ofType(typeForm)).problem(41302)
	if end := b.end("t", 0); end != 9 {
		t.Errorf("log end %d", end)
	}
}

func TestH28_Timestamps(t *testing.T) {
	now := time.UnixMilli(1_764_424_000_123)
	b := startBroker(t, withHandlers(func(c *Config) { c.Now = func() time.Time { return now } }))
	b.topic("t", 1)
	future := now.AddDate(10, 0, 0).UnixMilli()
	good := []string{"0", "1700000000", fmt.Sprint(future), fmt.Sprint(int64(MaxTimestampMs)), "null"}
	for _, ts := range good {
		b.post("/topics/t", `{"records":[{"value":1,"timestamp":`+ts+`}]}`).want(200)
	}
	b.post("/topics/t", batchOf("1")).want(200)
	want := []int64{0, 1700000000, future, MaxTimestampMs, now.UnixMilli(), now.UnixMilli()}
	for i, r := range b.stored("t", 0, len(want)) {
		if r.Timestamp != want[i] {
			t.Errorf("record %d: timestamp %d, want %d", i, r.Timestamp, want[i])
		}
	}
	for _, ts := range []string{"-1", fmt.Sprint(int64(MaxTimestampMs) + 1), "9223372036854775807", `"2026-01-01T00:00:00Z"`, "1.5", "1e3", "1.0", "true", "{}"} {
		p := b.post("/topics/t", `{"records":[{"value":1,"timestamp":`+ts+`}]}`).problem(42201)
		if p.Errors[0].Pointer != "/records/0/timestamp" {
			t.Errorf("%s: %+v", ts, p)
		}
	}
	for query, want := range map[string]int64{"0": 0, "2026-01-01T00:00:00Z": 1767225600000, "-15m": now.UnixMilli() - 900_000, fmt.Sprint(future): future} {
		b.topic("raw"+strings.NewReplacer(":", "_").Replace(query), 1)
		topic := "raw" + strings.NewReplacer(":", "_").Replace(query)
		b.post("/topics/"+topic+"/records?timestamp="+query, "x").want(200)
		if got := b.stored(topic, 0, 1)[0].Timestamp; got != want {
			t.Errorf("?timestamp=%s: %d, want %d", query, got, want)
		}
	}
}

func TestH29_PartitionerIsKafkas(t *testing.T) {
	for key, want := range map[string]int32{"order-1": 4, "order-2": 3, "order-7": 1, "0": 2} {
		if got := partitionForKey([]byte(key), 6); got != want {
			t.Errorf("%s goes to %d, want %d", key, got, want)
		}
	}
	// The vectors of Kafka's UtilsTest.testMurmur2.
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107} {
		if got := int32(group.Murmur2([]byte(key))); got != want {
			t.Errorf("Murmur2(%s) = %d, want %d", key, got, want)
		}
	}
	b := startBroker(t)
	b.topic("t", 6, "dedupe.window.ms", "0") // the same ids come with other values
	check := func() {
		t.Helper()
		for key, want := range map[string]int32{"order-1": 4, "order-2": 3, "order-7": 1, "0": 2} {
			if got := b.post("/topics/t", `{"records":[{"key":"`+key+`","value":1}]}`).produced(200).Offsets[0].Partition; got != want {
				t.Errorf("batch: %s went to %d, want %d", key, got, want)
			}
			if got := b.post("/topics/t/records?key="+key, "x").produced(200).Offsets[0].Partition; got != want {
				t.Errorf("raw: %s went to %d, want %d", key, got, want)
			}
			if got := b.post("/topics/t", `{"records":[{"id":"`+key+`","value":1}]}`).produced(200).Offsets[0].Partition; got != want {
				t.Errorf("id: %s went to %d, want %d", key, got, want)
			}
			if got := b.post("/topics/t/records", "x", header("Message-Id", key)).produced(200).Offsets[0].Partition; got != want {
				t.Errorf("raw id: %s went to %d, want %d", key, got, want)
			}
		}
	}
	check()
	b.restart()
	check()
}

func TestKeylessRecordsShareAPartitionPerRequest(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 4)
	seen := map[int32]int{}
	for range 8 {
		res := b.post("/topics/t", recordsBody(10)).produced(200)
		if len(res.Partitions) != 1 {
			t.Fatalf("one keyless request went to %d partitions", len(res.Partitions))
		}
		seen[res.Partitions[0].Partition]++
	}
	if len(seen) != 4 {
		t.Errorf("8 requests went to partitions %v", seen)
	}
}

func TestH30_Acks(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, c := range []struct {
		query      string
		status     int
		acks       int
		durability string
	}{
		{"?acks=0", 202, 0, "queued"}, {"?acks=1", 200, 1, "written"}, {"", 200, 1, "written"}, {"?acks=-1", 200, -1, "fsynced"}, {"?acks=all", 200, -1, "fsynced"},
	} {
		res := b.post("/topics/t"+c.query, recordsBody(2)).produced(c.status)
		if res.Acks != c.acks || res.Partitions[0].Durability != c.durability {
			t.Errorf("%s: %+v", c.query, res)
		}
		if c.acks == 0 && (res.Offsets[0].Offset != -1 || res.Offsets[1].Offset != -1 || res.Partitions[0].BaseOffset != -1) {
			t.Errorf("acks=0 invents offsets: %+v", res)
		}
		if c.acks != 0 && res.Offsets[1].Offset != res.Offsets[0].Offset+1 {
			t.Errorf("%s: offsets %+v", c.query, res.Offsets)
		}
	}
	for _, bad := range []string{"acks=2", "acks=-2", "acks=1.0", "acks=", "acks=1&acks=-1", "acks=ALL", "acks=+1", "acks=01", "ack=-1", "acks=%31&acks=1", "acks=1;timeout_ms=5",
		"timeout_ms=0", "timeout_ms=-1", "timeout_ms=1.5", "timeout_ms=5s", "timeout_ms=", "timeout_ms=%2010", "timeout_ms=1e3", "response=none", "timeout_ms=5&timeout_ms=6", "acks=%zz"} {
		b.post("/topics/t?"+bad, batchOf("1")).problem(40001)
		b.post("/topics/t/records?"+bad, "x").problem(40001)
	}
	for _, fine := range []string{"timeout_ms=9223372036854775807", "timeout_ms=99999999999999999999", "timeout_ms=1000"} {
		b.post("/topics/t?"+fine, batchOf("1")).want(200)
	}
	if p := b.post("/topics/t?ack=-1", batchOf("1")).problem(40001); !strings.Contains(p.Detail, "did you mean acks?") || !strings.Contains(p.Detail, "timeout_ms") {
		t.Errorf("detail %q", p.Detail)
	}
	if end := b.end("t", 0); end != 13 {
		t.Errorf("log end %d", end)
	}
	all := startBroker(t, withHandlers(func(c *Config) { c.DefaultAcks = replication.AcksAll }))
	all.topic("t", 1)
	if res := all.post("/topics/t", batchOf("1")).produced(200); res.Acks != -1 {
		t.Errorf("default acks %d", res.Acks)
	}
}

// answerTo renders the answer to a request of six records over three partitions
// with these results.
func answerTo(t *testing.T, results []replication.AppendResult) answer {
	t.Helper()
	a := newAPI(Config{Logger: zerolog.Nop()})
	rules := produceRules{topic: "t", partitions: 3, fixed: anyPartition, maxRecordBytes: 1000, value: formatJSON}
	p := new(pools).newPlan(&rules, 100)
	defer p.release()
	must(t, parseBatchBody(p, []byte(`{"records":[{"value":1,"partition":0},{"value":2,"partition":2},{"value":3,"partition":1},{"value":4,"partition":0},{"value":5,"partition":2},{"value":6,"partition":0}]}`)))
	w := httptest.NewRecorder()
	x := &exchange{ResponseWriter: w, writes: true}
	r := httptest.NewRequest(http.MethodPost, "/topics/t", nil)
	a.fail(x, r, a.answerProduce(x, r, &produceRequest{acks: replication.AcksAll, summary: true}, p, results))
	return answer{t: t, status: w.Code, header: w.Header(), body: w.Body.Bytes()}
}

func TestPartialFailureIs207(t *testing.T) {
	few := &replication.NotEnoughReplicasError{Topic: "t", Partition: 2, InSync: 1, Min: 2}
	a := answerTo(t, []replication.AppendResult{{BaseOffset: 10, LastOffset: 12}, {Err: few}, {BaseOffset: 7, LastOffset: 7}})
	res := a.produced(207)
	if len(res.Offsets) != 6 {
		t.Fatalf("offsets %s", a.body)
	}
	for i, want := range []int64{10, -1, 7, 11, -1, 12} {
		o := res.Offsets[i]
		if o.Offset != want || (want == -1) != (o.ErrorCode != nil) {
			t.Errorf("record %d: %+v, want offset %d", i, o, want)
		}
		if want == -1 && (*o.ErrorCode != 50303 || *o.Error == "" || o.KafkaError != "NOT_ENOUGH_REPLICAS" || !o.Retriable || o.Outcome != "not_written") {
			t.Errorf("record %d: %+v", i, o)
		}
	}
}

func TestWholeFailureHasItsReasonsStatus(t *testing.T) {
	few := func(appended bool) error {
		return &replication.NotEnoughReplicasError{Topic: "t", InSync: 1, Min: 2, Appended: appended}
	}
	same := []replication.AppendResult{{Err: few(false)}, {Err: few(false)}, {Err: few(false)}}
	a := answerTo(t, same)
	if p := a.problem(50303); p.Outcome != "not_written" || !p.Retriable || a.header.Get("Retry-After") == "" {
		t.Errorf("problem %+v", p)
	}
	after := []replication.AppendResult{{Err: few(true), Unknown: true}, {Err: few(true), Unknown: true}, {Err: few(true), Unknown: true}}
	if p := answerTo(t, after).problem(50304); p.Outcome != "unknown" {
		t.Errorf("problem %+v", p)
	}
	mixed := []replication.AppendResult{{Err: few(false)}, {Err: replication.ErrTimeout, Unknown: true}, {Err: storage.ErrDiskNearlyFull}}
	a = answerTo(t, mixed)
	if p := a.problem(50401); p.Outcome != "unknown" {
		t.Errorf("problem %+v", p)
	}
	var res produceResult
	if a.into(&res); len(res.Offsets) != 6 || *res.Offsets[0].ErrorCode != 50303 || *res.Offsets[1].ErrorCode != 50401 || *res.Offsets[2].ErrorCode != 50701 {
		t.Errorf("offsets %s", a.body)
	}
}

func TestProduceSurvivesTheClientsLeaving(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	c := b.raw()
	body := batchOf("1")
	_, err := fmt.Fprintf(c, "POST /topics/t?acks=-1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	must(t, err)
	must(t, c.Close())
	if got := len(b.stored("t", 0, 1)); got != 1 {
		t.Errorf("%d stored", got)
	}
}

func TestLargeBodiesGoInOneRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB")
	}
	b := startBroker(t)
	b.topic("t", 1)
	line := []byte(`{"value":{"event":"click","user":123456,"path":"/a/b/c","agent":"` + strings.Repeat("m", 900) + `"}}` + "\n")
	n := (100<<20)/len(line) + 1
	res := b.post("/topics/t", bytes.Repeat(line, n), ofType(typeNDJSON)).produced(200)
	if got := res.Partitions[0].LastOffset; got != int64(n-1) {
		t.Errorf("last offset %d, want %d", got, n-1)
	}
	if res.Offsets != nil {
		t.Error("the answer to NDJSON isn't a summary")
	}
}

func TestTimeoutsDontOverflow(t *testing.T) {
	q := parseQuery("a=9223372036855&b=18446744073709552&c=9223372036854775807&d=99999999999999999999&e=5&f=0", "a", "b", "c", "d", "e", "f")
	for name, want := range map[string]time.Duration{"a": time.Minute, "b": time.Minute, "c": time.Minute, "d": time.Minute, "e": 5 * time.Millisecond, "f": 0} {
		if got := q.milliseconds(name, 0, 0, time.Minute); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	must(t, q.err())
	// H19: everything else is refused, with the bounds in the text.
	for _, bad := range []string{"-1", "1e3", "5s", "1.5", "", "%2010", "0x5", "+5", "%2B5", "05", "5%00", "٣"} {
		q := parseQuery("timeout="+bad, "timeout")
		q.milliseconds("timeout", 0, 0, time.Minute)
		if q.err() == nil {
			t.Errorf("timeout=%s is accepted", bad)
		}
	}
	if q := parseQuery("n=9223372036854775808", "n"); q.integer("n", 0, 0, math.MaxInt64) != 0 || q.err() == nil {
		t.Error("beyond int64 is accepted")
	}
}
