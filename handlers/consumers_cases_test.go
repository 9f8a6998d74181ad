package handlers

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// What a group is asked for is given exactly, as on every other path.
func TestH01_NumbersThroughAGroup(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	values := []string{"9007199254740993", "-9223372036854775808", "18446744073709551615", `{"id":123456789012345678901234567890}`, "1.0", "1e400"}
	b.post("/topics/t?acks=-1", batchOf(values...)).want(200)
	for _, accepts := range []string{"", typeJSON, typeKafkaJSON, typeNDJSON} {
		path := b.subscriber("g", `{"name":"c-`+strings.NewReplacer("/", "_", "+", "_").Replace(accepts)+`"}`, "t")
		body := string(b.get(path+"/records?timeout=20000", accept(accepts)).want(200).body)
		for _, v := range values {
			if !strings.Contains(body, `"value":`+v) {
				t.Errorf("Accept %q: no %s in %s", accepts, v, body)
			}
		}
		b.remove(path).want(204)
	}
}

// Bodies are read as strictly as everywhere (H02-H05, H08, H11, H12).
func TestH02_StrictGroupBodies(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	deep := strings.Repeat("[", 200_000)
	for _, call := range []struct{ method, path, good string }{
		{"POST", "/consumers/g", `{"name":"%s"}`}, {"PUT", "/consumers/g/instances/c9", `{"format":"json"}`}, {"POST", path + "/subscription", `{"topics":["t"]}`},
		{"POST", path + "/offsets", `{"offsets":[]}`}, {"POST", path + "/positions", `{"offsets":[]}`}, {"POST", path + "/positions/end", `{"partitions":[]}`},
		{"POST", "/consumers/g/offsets?member=c1", `{"offsets":[]}`}, {"PUT", "/consumers/h/offsets", `{"offsets":[]}`}, {"GET", path + "/offsets", `{"partitions":[]}`},
		{"POST", b.consumer("g", `{"name":"c2"}`) + "/assignments", `{"partitions":[]}`},
	} {
		good := call.good
		if strings.Contains(good, "%s") {
			good = fmt.Sprintf(good, "other")
		}
		for _, body := range []string{good + "xyz", good + good, "\ufeff" + good, "{\"name\":\"a\xff\"}", "{", deep, `{"a":` + deep, `{"name":1,"name":2}`, "   ", "\xff\xfe{\x00}\x00"} {
			b.do(call.method, call.path, body, ofType(typeKafka)).problem(40001)
		}
		for _, body := range []string{"null", "[]", `"x"`, "7", `{"nmae":"x"}`, `{"offsets":7,"partitions":7,"topics":7,"name":[]}`} {
			b.do(call.method, call.path, body, ofType(typeKafka)).problem(42201)
		}
		for _, media := range []string{"text/plain", typeForm, "application/vnd.kafka.avro.v2+json", "application/json; charset=iso-8859-1"} {
			b.do(call.method, call.path, good, ofType(media)).problem(41501)
		}
		a := b.do(call.method, call.path, good+"\n\n\t", ofType("application/json; charset=UTF-8"))
		if a.status != 200 && a.status != 204 {
			t.Errorf("%s %s: %d %s", call.method, call.path, a.status, a.body)
		}
	}
	for _, call := range []string{path + "/subscription", path + "/positions"} { // these need a body
		b.post(call, nil).problem(40001)
		b.post(call, "{}").problem(42201)
	}
}

func TestH13_GroupErrorsKeepTheirStatus(t *testing.T) {
	b := startBroker(t)
	path := b.consumer("g", `{"name":"c1"}`)
	for _, accepts := range []string{"", "*/*", "text/html", "application/xml", "application/json;q=0, */*;q=0.1"} {
		b.get("/consumers/g/instances/nope/subscription", accept(accepts)).problem(40403)
		b.post("/consumers/g", `{"name":"c1"}`, accept(accepts)).problem(40902)
		b.post("/consumers/g", `{"format":"avro"}`, accept(accepts)).problem(42201)
	}
	if a := b.remove(path).want(204); len(a.body) != 0 || a.header.Get("Content-Type") != "" {
		t.Errorf("204 with %q %q", a.header.Get("Content-Type"), a.body)
	}
	if p := b.remove(path).problem(40403); !strings.Contains(p.Detail, "deleted") {
		t.Errorf("detail %q", p.Detail)
	}
	if p := b.remove("/consumers/g/instances/c7").problem(40403); !strings.Contains(p.Detail, "never existed") {
		t.Errorf("detail %q", p.Detail)
	}
}

// Clients that leave a waiting poll leave nothing behind, and take no record along.
func TestH18_ClientsThatLeaveAPoll(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	path := b.subscriber("g", `{"name":"c1","consumer.request.timeout.ms":60000}`, "t")
	const clients = 20
	for i := range clients {
		body := ""
		if i%2 == 1 {
			body = "Content-Length: 4\r\n\r\nbody"
		} else {
			body = "\r\n"
		}
		c := b.raw()
		_, err := fmt.Fprintf(c, "GET %s/records?timeout=60000 HTTP/1.1\r\nHost: x\r\n%s", path, body)
		must(t, err)
		b.eventually("it waits", func() bool { return b.waiting() == 1 })
		must(t, c.Close())
		b.eventually("it has gone", func() bool { return b.waiting() == 0 })
	}
	b.stock("t", 0, 1)
	if got := placesOf(b.poll(path, "")); got != "0:0" {
		t.Errorf("polled %q", got)
	}
}

// A lost answer is had again: by its request id on the same instance, or, uncommitted,
// by the one-call consumer's plain retry.
func TestH31_LostAnswer(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.stock("t", 0, 4)
	b.stock("t", 1, 2)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	// The answer is sent, and nobody reads it.
	c := b.raw()
	_, err := fmt.Fprintf(c, "GET %s/records?timeout=20000&request_id=a1 HTTP/1.1\r\nHost: x\r\n\r\n", path)
	must(t, err)
	lost, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	first, err := io.ReadAll(lost.Body)
	must(t, err)
	_ = c.Close()
	for range 3 {
		again := b.get(path + "/records?timeout=20000&request_id=a1").want(200)
		if string(again.body) != string(first) || strings.Count(string(first), `"offset"`) != 6 {
			t.Fatalf("first %s\nagain %s", first, again.body)
		}
	}
	b.stock("t", 0, 1)
	if got := placesOf(b.poll(path, "request_id=a2")); got != "0:4" {
		t.Errorf("the next id gives %q", got)
	}
	if got := b.committedOf("g", "t"); got != "" {
		t.Errorf("committed %q", got)
	}
	// A new incarnation begins at the commit: none of them is lost.
	b.do("PUT", "/consumers/g/instances/c1", nil).want(200)
	if got := b.pollUntil(path, 7); len(got) != 7 {
		t.Errorf("the new incarnation gets %s", placesOf(got))
	}

	const once = "/consumers/h/records?topics=t&member=w1&timeout=20000"
	one := b.get(once).want(200)
	if two := b.get(once).want(200); string(one.body) != string(two.body) || strings.Count(string(one.body), `"offset"`) != 7 {
		t.Errorf("a plain retry gives %s, before %s", two.body, one.body)
	}
	b.post("/consumers/h/offsets?member=w1", nil).want(204)
	if got := b.committedOf("h", "t"); got != "0:5 1:2" {
		t.Errorf("committed %q", got)
	}
	b.stock("t", 1, 1)
	var next []polled
	if b.get(once).want(200).into(&next); placesOf(next) != "1:2" {
		t.Errorf("after the commit %s", placesOf(next))
	}
}

func TestH32_SameNameInTwoGroups(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 3)
	a := b.subscriber("gA", `{"name":"c1"}`, "t")
	other := strings.Replace(a, "/gA/", "/gB/", 1)
	b.get(other + "/subscription").problem(40403)
	b.get(other + "/records?timeout=0").problem(40403)
	b.get(other + "/offsets").problem(40403)
	b.post(other+"/offsets", nil).problem(40403)
	b.post(other+"/subscription", `{"topics":["t"]}`).problem(40403)
	b.remove(other).problem(40403)
	b.pollUntil(a, 3)
	b.subscriber("gB", `{"name":"c1"}`, "t")
	if got := placesOf(b.pollUntil(other, 3)); got != "0:0 0:1 0:2" {
		t.Errorf("gB polls %q", got)
	}
	b.remove(other).want(204)
	b.stock("t", 0, 1)
	var s subscriptionView
	if b.get(a + "/subscription").want(200).into(&s); len(s.Topics) != 1 {
		t.Errorf("subscription %v", s)
	}
	if got := placesOf(b.poll(a, "")); got != "0:3" {
		t.Errorf("gA goes on with %q", got)
	}
}

func TestH33_SameInstanceTwice(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 1)
	var made, taken int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			a := b.post("/consumers/g", fmt.Sprintf(`{"name":"c1","fetch.min.bytes":%d}`, i%2+1))
			mu.Lock()
			defer mu.Unlock()
			switch a.status {
			case 200:
				made++
			case 409:
				taken++
			}
		})
	}
	all.Wait()
	if made != 1 || taken != 19 {
		t.Errorf("%d made it, %d were told that it is there", made, taken)
	}
	b.post("/consumers/g", `{"name":"c1","format":"binary"}`).problem(40902)
	const path = "/consumers/g/instances/c1"
	b.post(path+"/subscription", `{"topics":["t"]}`).want(204)
	b.pollUntil(path, 1)
	b.remove(path).want(204)
	b.consumer("g", `{"name":"c1"}`)
}

func TestH34_AutoCommitOffMeansOff(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 10)
	for i, option := range []string{`"auto.commit.enable":"false"`, `"auto.commit.enable":false`, `"enable.auto.commit":"false"`, `"enable.auto.commit":false`} {
		name := fmt.Sprintf("g%d", i)
		path := b.subscriber(name, `{"name":"c1",`+option+`}`, "t")
		b.pollUntil(path, 10)
		b.poll(path, "timeout=0")
		if got := string(b.get(path + "/offsets").want(200).body); got != `{"offsets":[]}`+"\n" {
			t.Errorf("committed %s", got)
		}
		b.remove(path).want(204)
		path = b.subscriber(name, `{"name":"c2",`+option+`}`, "t")
		if got := b.pollUntil(path, 10); got[0].Offset != 0 {
			t.Errorf("the new instance begins at %d", got[0].Offset)
		}
		b.post(path+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":3}]}`).want(204)
		b.remove(path).want(204)
		path = b.subscriber(name, `{"name":"c3",`+option+`}`, "t")
		if got := b.pollUntil(path, 7); got[0].Offset != 3 {
			t.Errorf("after the commit of 3 it begins at %d", got[0].Offset)
		}
	}
	for _, body := range []string{`{"auto.commit.enable":"maybe"}`, `{"auto.commit":true}`, `{"auto.commit.enable":true,"enable.auto.commit":false}`, `{"consumer.instance.timeout.ms":"1e3"}`,
		`{"consumer.instance.timeout.ms":0}`, `{"consumer.instance.timeout.ms":-1}`, `{"consumer.instance.timeout.ms":99999999999999999999}`, `{"auto.offset.reset":"smallest"}`} {
		if p := b.post("/consumers/g", body).problem(42201); len(p.Errors) == 0 {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// With automatic commits the next poll commits what the one before delivered.
func TestAutoCommitIsOneAnswerBehind(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 5)
	path := b.subscriber("g", `{"name":"c1","auto.commit.enable":"true"}`, "t")
	b.poll(path, "count=2")
	if got := b.committedOf("g", "t"); got != "" {
		t.Errorf("committed %q", got)
	}
	b.poll(path, "count=2")
	if got := b.committedOf("g", "t"); got != "0:2" {
		t.Errorf("committed %q", got)
	}
	b.do("PUT", "/consumers/g/instances/c1", `{"auto.commit.enable":true}`).want(200)
	if got := placesOf(b.poll(path, "")); got != "0:2 0:3 0:4" {
		t.Errorf("the next owner begins with %q", got)
	}
}

func TestH35_SeekOutsideTheAssignment(t *testing.T) {
	b := startBroker(t)
	b.topic("a", 2)
	b.topic("b", 1)
	b.stock("a", 0, 5)
	b.stock("b", 0, 5)
	path := b.subscriber("g", `{"name":"c1"}`, "a")
	seek := func(entries string) answer { return b.post(path+"/positions", `{"offsets":[`+entries+`]}`) }
	const good = `{"topic":"a","partition":0,"offset":3}`
	seek(good).want(204) // alone in the group it has its partitions at once
	if got := placesOf(b.poll(path, "")); got != "0:3 0:4" {
		t.Errorf("after a seek before the first poll %q", got)
	}
	seek(`{"topic":"b","partition":0,"offset":1}`).problem(40402)
	seek(`{"topic":"a","partition":99,"offset":1}`).problem(40402)
	seek(`{"topic":"nope","partition":0,"offset":1}`).problem(40401)
	seek(`{"topic":"a","partition":0,"offset":-1}`).problem(42201)
	seek(`{"topic":"a","partition":0,"offset":6}`).problem(41601)
	seek(`{"topic":"a","partition":0}`).problem(42201)
	seek(`{"topic":"a","partition":0,"offset":1,"timestamp":1}`).problem(42201)
	seek(good + "," + good).problem(42201)
	seek(good + `,{"topic":"b","partition":0,"offset":1}`).problem(40402) // all or nothing
	if got := b.poll(path, "timeout=0"); len(got) != 0 {
		t.Errorf("a refused seek moved to %s", placesOf(got))
	}
	seek(good).want(204)
	if got := placesOf(b.poll(path, "")); got != "0:3 0:4" {
		t.Errorf("after the seek %q", got)
	}
	b.post(path+"/positions/beginning", `{"partitions":[{"topic":"a","partition":0}]}`).want(204)
	if got := b.poll(path, "")[0].Offset; got != 0 {
		t.Errorf("from the beginning: %d", got)
	}
	b.post(path+"/positions/beginning", nil).want(204)
	b.post(path+"/positions/end", nil).want(204)
	b.stock("a", 0, 1)
	if got := placesOf(b.poll(path, "")); got != "0:5" {
		t.Errorf("from the end: %q", got)
	}
	seek(`{"topic":"a","partition":0,"timestamp":"-1h"}`).want(204)
	if got := b.poll(path, "")[0].Offset; got != 0 {
		t.Errorf("from an hour ago: %d", got)
	}
	b.post(path+"/positions/end", `{"partitions":[{"topic":"b","partition":0}]}`).problem(40402)
	b.do("DELETE", "/topics/a/partitions/0/records?before_offset=2", nil).want(200)
	seek(`{"topic":"a","partition":0,"offset":1}`).problem(41001)
}

// base_uri is where the client can go on, whatever is in between.
func TestH36_BaseURITellsTheTruth(t *testing.T) {
	b := startBroker(t)
	uri := func(b *testBroker, host string) string {
		var c consumerView
		b.post("/consumers/g", nil, func(r *http.Request) { r.Host = host }).want(200).into(&c)
		return c.BaseURI
	}
	for _, host := range []string{b.addr, "[::1]:8443", "broker.example.com", "broker.example.com:8081"} {
		if got := uri(b, host); !strings.HasPrefix(got, "http://"+host+"/consumers/g/instances/consumer-") {
			t.Errorf("Host %s: %s", host, got)
		}
	}
	behind := startBroker(t, withHandlers(func(c *Config) { c.PublicURL = "https://kafka.example.com/hw" }))
	if got := uri(behind, behind.addr); !strings.HasPrefix(got, "https://kafka.example.com/hw/consumers/g/instances/") {
		t.Errorf("behind a proxy: %s", got)
	}
	if p := behind.get("/consumers/nope").problem(40404); !strings.Contains(p.Fix, "https://kafka.example.com/hw/consumers") {
		t.Errorf("fix %q", p.Fix)
	}
}

func TestH37_MaxBytesBelowTheNextRecord(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=-1", batchOf(`"aaaaaaaa"`, `"`+strings.Repeat("b", 5000)+`"`, `"cccccccc"`)).want(200)
	for _, size := range []string{"1", "100"} {
		path := b.subscriber("g"+size, `{"name":"c1"}`, "t")
		for want := range 3 {
			if got := placesOf(b.poll(path, "max_bytes="+size)); got != fmt.Sprintf("0:%d", want) {
				t.Fatalf("max_bytes %s, poll %d: %q", size, want, got)
			}
		}
		for _, bad := range []string{"0", "-1", "", "1e3", " 10", "10&max_bytes=20"} {
			b.get(path + "/records?timeout=0&max_bytes=" + strings.ReplaceAll(bad, " ", "%20")).problem(40001)
		}
		for _, bad := range []string{"-1", "1e3", "5s", "1.5", "", "10&timeout=99999", "5;x=1"} {
			b.get(path + "/records?timeout=" + bad).problem(40001)
		}
	}
}

func TestH38_SubscriptionsAndAssignments(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.stock("t", 0, 2)
	b.stock("t", 1, 2)
	path := b.consumer("g", `{"name":"c1"}`)
	if p := b.get(path + "/records?timeout=0").problem(42201); !strings.Contains(p.Fix, "/subscription") {
		t.Errorf("fix %q", p.Fix)
	}
	b.post(path+"/subscription", `{"topics":["t","t"]}`).want(204)
	b.post(path+"/assignments", `{"partitions":[{"topic":"t","partition":0}]}`).problem(40903)
	if got := b.pollUntil(path, 4); len(got) != 4 {
		t.Errorf("subscribed to one topic twice: %s", placesOf(got))
	}
	b.post(path+"/subscription", `{"topics":[]}`).want(204)
	b.get(path + "/records?timeout=0").problem(42201)
	b.post(path+"/subscription", `{"topics":["later"]}`).want(204)
	b.get(path + "/records?timeout=0").want(200)
	b.topic("later", 1)
	b.stock("later", 0, 1)
	if got := b.poll(path, ""); len(got) != 1 || got[0].Topic != "later" {
		t.Errorf("a topic that came later: %v", got)
	}
	b.post(path+"/subscription", `{"topic_pattern":"la.*"}`).want(204)
	if got := string(b.get(path + "/subscription").want(200).body); got != `{"topics":["later"],"topic_pattern":"la.*"}`+"\n" {
		t.Errorf("subscription %s", got)
	}
	for _, body := range []string{`{"topics":["t"],"topic_pattern":"t"}`, `{"topic_pattern":"("}`, `{"topic_pattern":"a)(b"}`, `{"topic_pattern":""}`, `{"topics":"t"}`, `{"topics":[1]}`, `{"topics":["../x"]}`, `{"topics":["__consumer_offsets"]}`} {
		b.post(path+"/subscription", body).problem(42201)
	}
	b.do("DELETE", path+"/subscription", nil).want(204)
	b.post(path+"/assignments", `{"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":1}]}`).want(204)
	b.post(path+"/subscription", `{"topics":["t"]}`).problem(40903)
	if got := string(b.get(path + "/assignments").want(200).body); got != `{"partitions":[{"topic":"t","partition":1}]}`+"\n" {
		t.Errorf("assignments %s", got)
	}
	b.post(path+"/assignments", `{"partitions":[{"topic":"t","partition":7}]}`).problem(40402)
	b.post(path+"/assignments", `{"partitions":[{"topic":"nope","partition":0}]}`).problem(40401)
	b.post("/consumers/g/instances/nope/assignments", `{"partitions":[{"topic":"nope","partition":0}]}`).problem(40403)
	b.post(path+"/positions/beginning", nil).want(204)
	if got := placesOf(b.pollUntil(path, 2)); got != "1:0 1:1" {
		t.Errorf("assigned: %q", got)
	}
}

// A member that is silent for its session is out, and the others take over.
func TestH39_SilentInstanceIsRemoved(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 4)
	for p := range 4 {
		b.stock("t", p, 1)
	}
	dead := b.subscriber("g", `{"name":"dead","consumer.instance.timeout.ms":1500}`, "t")
	b.pollUntil(dead, 4) // committed nothing
	alive := b.subscriber("g", `{"name":"alive"}`, "t")
	got := b.pollUntil(alive, 4)
	if len(got) != 4 {
		t.Errorf("the survivor gets %s", placesOf(got))
	}
	if p := b.get(dead + "/records?timeout=0").problem(40403); !strings.Contains(p.Detail, "expired after") || !strings.Contains(p.Detail, " ms") {
		t.Errorf("detail %q", p.Detail)
	}
	b.post(dead+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":1}]}`).problem(40403)
	var list assignmentsView
	if b.get(alive + "/assignments").want(200).into(&list); len(list.Partitions) != 4 {
		t.Errorf("the survivor has %v", list)
	}
}
