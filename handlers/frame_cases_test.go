package handlers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"highwater/replication"
)

func TestF66_H17_SlowBodies(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	newAPIOf(b).patience = 30 * time.Millisecond
	for range 20 {
		c := b.raw()
		_, err := io.WriteString(c, "POST /topics/t HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil) // comes, although the body never ends
		must(t, err)
		data, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusRequestTimeout || !resp.Close || !strings.Contains(string(data), `"error_code":40801`) || !strings.Contains(string(data), `"not_written"`) {
			t.Fatalf("%d close=%v %s", resp.StatusCode, resp.Close, data)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("the connection is still open: %v", err)
		}
	}
	// A refusal doesn't wait for a body that never comes.
	for _, length := range []string{"Content-Length: 100", "Content-Length: 10000000", "Transfer-Encoding: chunked"} {
		c := b.raw()
		_, err := io.WriteString(c, "POST /topics/nope HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n")
		must(t, err)
		in := bufio.NewReader(c)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		_, err = io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", length, resp.StatusCode)
		}
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection is still open: %v", length, err)
		}
	}
	b.post("/topics/t", batchOf("1")).want(200)
	if used := newAPIOf(b).bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes of the body budget are still taken", used)
	}
}

func TestABodyIsReadAwayWhereNoneIsWanted(t *testing.T) {
	b := startBroker(t)
	b.do(http.MethodGet, "/problems/not-found", strings.Repeat("x", 1000)).want(200)
	b.do(http.MethodGet, "/problems/not-found", strings.Repeat("x", maxIgnoredBody+1)).problem(40001)
}

func TestTooManyBodiesAtOnceAreRefused(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	a := newAPIOf(b)
	a.bodies.take(a.bodies.most - 1000)
	b.post("/topics/t", batchOf("1")).want(200)
	refused := b.post("/topics/t", batchOf(`"`+strings.Repeat("x", 1000)+`"`))
	if p := refused.problem(50306); p.Outcome != "not_written" || !p.Retriable || refused.header.Get("Retry-After") == "" {
		t.Errorf("problem %+v", p)
	}
	a.bodies.give(a.bodies.most - 1000)
	b.post("/topics/t", batchOf(`"`+strings.Repeat("x", 1000)+`"`)).want(200)
}

func TestWaitersAreBounded(t *testing.T) {
	a := newAPIOf(startBroker(t))
	a.waiters.most = 2
	one, err := a.enterWait()
	must(t, err)
	_, err = a.enterWait()
	must(t, err)
	var overloaded *overloadedError
	if _, err := a.enterWait(); !errors.As(err, &overloaded) {
		t.Fatalf("a third waiter: %v", err)
	}
	one()
	if _, err := a.enterWait(); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

func TestADrainingBrokerRefusesProduces(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.drain()
	b.broker.Drain() // nobody else could lead
	for _, path := range []string{"/topics/t", "/topics/t/records", "/topics/t/partitions/0", "/topics/t/partitions/0/records"} {
		a := b.post(path, batchOf("1"))
		if p := a.problem(50305); p.Outcome != "not_written" || !p.Retriable || a.header.Get("Retry-After") == "" {
			t.Errorf("problem %+v", p)
		}
	}
	if a := b.get("/problems/not-found").want(200); !a.closes {
		t.Errorf("header %v", a.header)
	}
	if end := b.end("t", 0); end != 0 {
		t.Errorf("log end %d", end)
	}
}

func TestRequestIDs(t *testing.T) {
	b := startBroker(t)
	if got := b.get("/healthz", header("X-Request-Id", "my-id:1/2")).header.Get("X-Request-Id"); got != "my-id:1/2" {
		t.Errorf("id %q", got)
	}
	seen := map[string]bool{}
	for _, bad := range []string{"", "a b", "a\tb", `a"b`, strings.Repeat("x", 129), "é"} {
		got := b.get("/healthz", header("X-Request-Id", bad)).header.Get("X-Request-Id")
		if got == bad || got == "" || seen[got] {
			t.Errorf("for %q: %q", bad, got)
		}
		seen[got] = true
	}
	b.get("/nope", header("X-Request-Id", "find-me")).problem(40404)
	if log := b.log.String(); !strings.Contains(log, `"request_id":"find-me"`) {
		t.Errorf("log %s", log)
	}
}

// panicky is the frame around one route that panics.
func TestPanicsNeverReachAClient(t *testing.T) {
	b := startBroker(t)
	a := newAPIOf(b)
	old := a.mux
	a.mux = newMux(a, append(a.routes(), route{method: http.MethodGet, pattern: "/panics/{how}", handle: func(w http.ResponseWriter, r *http.Request) error {
		if pathSegment(r, "how") == "late" {
			_, _ = w.Write(make([]byte, 100_000))
		}
		panic("secret in a panic")
	}}))
	defer func() { a.mux = old }()
	p := b.get("/panics/early").problem(50002)
	if strings.Contains(fmt.Sprint(p), "secret") {
		t.Errorf("problem %+v", p)
	}
	log := b.log.String()
	if !strings.Contains(log, `"level":"error"`) || !strings.Contains(log, "stack") || strings.Contains(log, "secret in a panic") {
		t.Errorf("log %s", log)
	}
	resp, err := b.client.Get(b.url + "/panics/late")
	must(t, err)
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a cut answer looks whole")
	}
	b.get("/healthz").want(200)
}

func TestH51_TopicNamesNeverReachTheFileSystem(t *testing.T) {
	b := startBroker(t, withDefaults(func(d *replication.Defaults) { d.AutoCreateTopics = true }))
	b.topic("t", 1)
	listing := func() string {
		var names []string
		must(t, filepath.WalkDir(filepath.Dir(b.dir), func(path string, _ fs.DirEntry, err error) error {
			names = append(names, path)
			return err
		}))
		return strings.Join(names, "\n")
	}
	before := listing()
	for _, name := range []string{"..", ".", "../x", "..%2Fx", "%2e%2e%2fx", "..%5cx", "a/../../x", "/etc/x", "a%00b", strings.Repeat("x", 250), "", "%2e", "%2E%2E", "a%2f..%2fb", "~", "a:b", "con%20"} {
		for _, path := range []string{"/topics/" + name + "/records", "/topics/" + name + "/partitions/0/records", "/topics/" + name} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
				c := b.raw() // Go's client would clean the path
				_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", method, path)
				must(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				must(t, err)
				if s := resp.StatusCode; s < 400 || s >= 500 {
					t.Errorf("%s %s: %d", method, path, s)
				}
				if method == http.MethodPost && name != "" && resp.StatusCode != 400 && resp.StatusCode != 422 && !strings.Contains(name, "/") {
					t.Errorf("%s %s: %d, want 400 or 422", method, path, resp.StatusCode)
				}
			}
		}
	}
	if after := listing(); after != before {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}
	if n := strings.Count(b.log.String(), "panicked"); n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestH52_NoCORS(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
		for _, path := range []string{"/healthz", "/topics/t", "/nope"} {
			a := b.do(method, path, nil, header("Origin", "https://evil.example"), header("Access-Control-Request-Method", "POST"), header("Authorization", "Bearer x"), header("Cookie", "a=b"))
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s answers %s", method, path, name)
				}
			}
		}
	}
}

func TestH53_OnlyTheSocketsAddressCounts(t *testing.T) {
	b := startBroker(t)
	spoofed := []request{header("X-Forwarded-For", "203.0.113.7"), header("X-Real-IP", "203.0.113.8"), header("True-Client-IP", "203.0.113.9"), header("Forwarded", "for=203.0.113.10"), header("X-Forwarded-Host", "evil.example")}
	p := b.get("/topics/%00", spoofed...).problem(40001)
	b.post("/topics/nope", "{}", spoofed...).problem(40401)
	if log := b.log.String(); strings.Contains(log, "203.0.113.") || !strings.Contains(log, `"remote":"127.0.0.1:`) {
		t.Errorf("log %s", log)
	}
	if strings.Contains(p.Fix, "evil") {
		t.Errorf("fix %q", p.Fix)
	}
	// A host that is no host is not pasted into a command.
	if p := b.post("/topics/nope", "{}", func(r *http.Request) { r.Host = "x;rm" }).problem(40401); strings.Contains(p.Fix, "rm") {
		t.Errorf("fix %q", p.Fix)
	}
}

func TestH54_NothingInternalIsOpen(t *testing.T) {
	b := startBroker(t)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars"} {
		b.get(path).problem(40404)
	}
	for _, path := range []string{"/internal", "/internal/", "/internal/v1/fetch", "/internal/raft", "/internal%2Fx", "/%69nternal/v1/fetch"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			a := b.do(method, path, nil)
			if path == "/internal%2Fx" { // one segment of another name
				a.problem(40404)
				continue
			}
			a.problem(40301)
		}
	}
}

// series counts the time series that the registry gives out.
func (b *testBroker) series() int {
	b.t.Helper()
	families, err := b.metrics.Gather()
	must(b.t, err)
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

func TestH58_MetricsHaveBoundedLabels(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.Logger = c.Logger.Level(5) }))
	b.topic("t", 1)
	hit := func(i int) {
		b.get(fmt.Sprintf("/random/%d", i))
		b.post(fmt.Sprintf("/topics/absent-%d", i), "{}")
		b.get(fmt.Sprintf("/problems/x%d", i))
		b.do(fmt.Sprintf("ODD%d", i), "/topics/t", nil)
		b.do(fmt.Sprintf("ODD%d", i), fmt.Sprintf("/nope%d", i), nil)
		b.post(fmt.Sprintf("/topics/t?x%d=1", i), "{}")
	}
	hit(0)
	before := b.series()
	for i := range 300 {
		hit(i + 1)
	}
	if after := b.series(); after != before {
		t.Errorf("%d series, then %d", before, after)
	}
	text := string(b.get("/metrics").want(200).body)
	for _, want := range []string{`highwater_http_requests_total{code="404",method="GET",route="unmatched"} 301`, `route="/topics/{topic}"`, `method="other"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(text, "absent-1") || strings.Contains(text, "ODD1") {
		t.Error("a label comes from the URL")
	}
}

func TestLogsHoldNoRecordContent(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", `{"records":[{"key":"s3cret","value":"s3cret","headers":[{"key":"s3cret","value":""}]}]}`).want(200)
	b.post("/topics/t/records?key=s3cret", "s3cret", header("Record-Header-X", "s3cret")).want(200)
	b.post("/topics/t", `{"records":[{"value":"s3cret}]}`).problem(40001)
	b.post("/topics/t", "{\"records\":[{\"value\":\"s3cret\xff\"}]}").problem(40001)
	if log := b.log.String(); strings.Contains(log, "s3cret") || strings.Count(log, `"message":"request"`) != 4 {
		t.Errorf("log %s", log)
	}
}

func TestDefaultAcksIsTheBrokersChoice(t *testing.T) {
	for _, acks := range []replication.Acks{replication.AcksNone, replication.AcksLeader, replication.AcksAll} {
		q := parseQuery("", "acks")
		if got := q.acks(acks); got != acks {
			t.Errorf("%d became %d", acks, got)
		}
	}
}
