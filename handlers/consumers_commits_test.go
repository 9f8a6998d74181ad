package handlers

import (
	"strings"
	"testing"
)

func TestH40_CommitBelowThePosition(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 10)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	b.pollUntil(path, 10)
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"next_offset":7,"metadata":"half"}]}`).want(204)
	b.stock("t", 0, 1)
	if got := placesOf(b.poll(path, "")); got != "0:10" {
		t.Errorf("the instance goes on with %q", got)
	}
	for _, q := range []string{"", "?topic=t", "?topic=t&partition=0"} {
		if got := string(b.get(path + "/offsets" + q).want(200).body); got != `{"offsets":[{"topic":"t","partition":0,"offset":7,"next_offset":7,"metadata":"half"}]}`+"\n" {
			t.Errorf("committed %s", got)
		}
	}
	if got := string(b.do("GET", path+"/offsets", `{"partitions":[{"topic":"t","partition":0}]}`, ofType(typeKafka)).want(200).body); !strings.Contains(got, `"offset":7`) {
		t.Errorf("committed %s", got)
	}
	b.get(path + "/offsets?partition=0").problem(40001)
	b.get(path + "/offsets?topic=nope&partition=0").problem(40401)
	b.get(path + "/offsets?topic=t&partition=9").problem(40402)
	// A refused entry refuses all of them.
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":12}]}`).problem(41601)
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":8},{"topic":"t","partition":4,"offset":0}]}`).problem(40402)
	if got := b.committedOf("g", "t"); got != "0:7" {
		t.Errorf("committed %q", got)
	}
	b.remove(path).want(204)
	path = b.subscriber("g", `{"name":"c2"}`, "t")
	if got := b.poll(path, "")[0].Offset; got != 7 {
		t.Errorf("the new instance begins at %d", got)
	}
	b.post(path+"/offsets", nil).want(204)
	if got := b.committedOf("g", "t"); got != "0:11" {
		t.Errorf("committed %q", got)
	}
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":2}]}`).want(204) // it may go back
	if got := b.committedOf("g", "t"); got != "0:2" {
		t.Errorf("committed %q", got)
	}
}

func TestH40_LastProcessedMeaning(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.CommitMeaning = CommitLast }))
	b.topic("t", 1)
	b.stock("t", 0, 10)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	b.pollUntil(path, 10)
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":3}]}`).want(204)
	if got := b.committedOf("g", "t"); got != "0:4" {
		t.Errorf("committed %q", got)
	}
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"next_offset":3}]}`).want(204)
	if got := b.committedOf("g", "t"); got != "0:3" {
		t.Errorf("committed %q", got)
	}
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":10}]}`).problem(41601)
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":9223372036854775807}]}`).problem(42201)
}

// Lag counts what can still be read.
func TestH41_Lag(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 100)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	b.poll(path, "count=5")
	b.post(path+"/offsets", nil).want(204)
	lag := func() (out []groupOffsetView) {
		b.get("/consumers/g/offsets").want(200).into(&out)
		return out
	}
	if got := lag(); len(got) != 1 || *got[0].Lag != 95 || *got[0].Committed != 5 || *got[0].EndOffset != 100 || *got[0].LogStartOffset != 0 {
		t.Errorf("%+v", got)
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=100", nil).want(200)
	if got := lag(); *got[0].Lag != 0 || *got[0].LogStartOffset != 100 {
		t.Errorf("%+v", got)
	}
	// The member's own position was removed: its reset policy decides, and it is told.
	b.stock("t", 0, 1)
	a := b.get(path + "/records?timeout=20000").want(200)
	if got := a.header.Get("Highwater-Reset"); got != "t/0:5:100" || !strings.Contains(string(a.body), `"offset":100`) {
		t.Errorf("reset %q: %s", got, a.body)
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=101", nil).want(200)
	b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":7}]}`).want(204)
	b.do("PUT", path, nil).want(200)
	b.stock("t", 0, 1)
	if a := b.get(path + "/records?timeout=0").want(200); a.header.Get("Highwater-Reset") != "t/0:7:101" || !strings.Contains(string(a.body), `"offset":101`) {
		t.Errorf("reset %q without a wait: %s", a.header.Get("Highwater-Reset"), a.body)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			b.post("/topics/t?acks=1", recordsBody(3))
		}
	}()
	for sampling := true; sampling; {
		select {
		case <-done:
			sampling = false
		default:
		}
		b.poll(path, "timeout=0")
		b.post(path+"/offsets", nil).want(204)
		for _, o := range lag() {
			if *o.Lag < 0 || *o.Lag > *o.EndOffset-*o.LogStartOffset {
				t.Errorf("%+v", o)
			}
		}
	}
}

// The names of groups and instances are as bounded as those of topics.
func TestH51_GroupAndInstanceNames(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, name := range []string{"..%2Fx", "..%5cx", "a%20b", "caf%C3%A9", "a%2Fb", strings.Repeat("a", 256), "%22%3E%3Cimg%20src=x%3E", "a~1"} {
		b.post("/consumers/"+name, "{}").problem(42201)
		b.get("/consumers/" + name).problem(42201)
		b.get("/consumers/" + name + "/records?topics=t&member=m").problem(42201)
		if name != "a~1" {
			b.do("PUT", "/consumers/g/instances/"+name, nil).problem(42201)
			b.get("/consumers/g/instances/" + name + "/records").problem(42201)
			b.get("/consumers/g/records?topics=t&member=" + name).problem(40001)
		}
	}
	for _, name := range []string{"..", ".", "%2e%2e", "a%00b"} {
		b.post("/consumers/"+name, "{}").problem(40001)
		b.do("PUT", "/consumers/g/instances/"+name, nil).problem(40001)
	}
	for _, name := range []string{"../x", "..", ".", "a b", "", "a/b", "/etc/x", strings.Repeat("a", 256), "c1~2"} {
		b.post("/consumers/g", map[string]any{"name": name}).problem(42201)
	}
	b.do("PUT", "/consumers/g/instances/c1~1", nil).problem(42201)
	b.do("PUT", "/consumers/g/instances/c1", `{"name":"c2"}`).problem(42201)
	b.consumer("g", `{"name":"`+strings.Repeat("a", 255)+`"}`)
}
