package handlers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestH11_Charset(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, media := range []string{"application/json; charset=utf-8", "application/json;charset=UTF-8", `application/json; charset="utf-8"`, "APPLICATION/JSON",
		"application/vnd.kafka.json.v2+json; charset=utf-8", "application/json; odata=verbose", " application/json "} {
		b.post("/topics/t", batchOf(`"x"`), ofType(media)).want(200)
	}
	for _, media := range []string{"application/json; charset=iso-8859-1", "application/json; charset=utf-16", "application/x-ndjson; charset=latin1"} {
		b.post("/topics/t", "{\"records\":[{\"value\":\"\xe9\"}]}", ofType(media)).problem(41501)
	}
	if end := b.end("t", 0); end != 7 {
		t.Errorf("log end %d", end)
	}
}

func TestH12_ContentTypes(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", batchOf("1"), ofType("application/json")).want(200)
	b.post("/topics/t", batchOf("1")).want(200)
	b.post("/topics/t", batchOf("1"), ofType(typeKafkaJSON)).want(200)
	for _, media := range []string{"text/plain", "application/vnd.kafka.avro.v2+json", "application/vnd.kafka.v2+json", "garbage", "application/cloudevents+avro", "a/b/c", ";", "application/*"} {
		if p := b.post("/topics/t", batchOf("1"), ofType(media)).problem(41501); media == "text/plain" && !strings.Contains(p.Detail, typeNDJSON) {
			t.Errorf("the refusal lists no types: %s", p.Detail)
		}
	}
	if p := b.post("/topics/t", batchOf("1"), ofType(typeForm)).problem(41501); !strings.Contains(p.Fix, "--json") || !strings.Contains(p.Fix, "/topics/t/records") {
		t.Errorf("fix %q", p.Fix)
	}
	b.post("/topics/t", batchOf("1"), func(r *http.Request) { r.Header["Content-Type"] = []string{typeJSON, typeJSON} }).problem(41501)
	if end := b.end("t", 0); end != 3 {
		t.Errorf("log end %d", end)
	}
}

func TestH13_ErrorsKeepTheirStatusWhateverAccept(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, accepts := range []string{"", "*/*", "text/html", "application/xml", "application/json;q=0, */*;q=0.1", "garbage", typeKafka, "text/html, " + typeKafkaJSON + ";q=0.5"} {
		change := func(r *http.Request) {
			if accepts != "" {
				r.Header.Set("Accept", accepts)
			}
		}
		want := "application/problem+json"
		switch {
		case strings.HasSuffix(accepts, ";q=0.5"):
			want = typeKafkaJSON
		case accepts == typeKafka:
			want = typeKafka
		}
		for path, code := range map[string]int{"/topics/nope": 40401, "/topics/t": 42201, "/topics/t?x=1": 40001} {
			a := b.post(path, `{}`, change)
			a.problem(code)
			if got := a.header.Get("Content-Type"); got != want {
				t.Errorf("Accept %q: labelled %q", accepts, got)
			}
		}
	}
	// An append that was done is never hidden behind a 406.
	for accepts, want := range map[string]string{"application/xml": typeJSON, typeKafka: typeKafka, typeKafkaBinary: typeKafkaBinary, "*/*": typeJSON, "application/*": typeJSON,
		"application/vnd.kafka.v2+json, application/vnd.kafka+json, application/json": typeKafka, typeKafkaText + ";q=0, */*": typeJSON} {
		if got := b.post("/topics/t", batchOf("1"), accept(accepts)).want(200).header.Get("Content-Type"); got != want {
			t.Errorf("Accept %q: answered as %q", accepts, got)
		}
	}
}

func TestH14_PercentEncodedSegments(t *testing.T) {
	b := startBroker(t)
	b.topic("a.b-c_d", 1)
	for i, path := range []string{"/topics/a%2Eb-c_d", "/topics/a.b%2dc_d", "/topics/a.b-c_d/", "/topics/%61.b-c_d/partitions/%30", "/topics/a.b-c_d/partitions/0/"} {
		b.post(path, batchOf("1")).want(200)
		if end := b.end("a.b-c_d", 0); end != int64(i+1) {
			t.Fatalf("%s: log end %d", path, end)
		}
	}
	for path, code := range map[string]int{"/topics/It%20is": 42201, "/topics/It's%20x": 42201, "/topics/caf%C3%A9": 42201, "/topics/%FF": 40001, "/topics/a%00b": 40001,
		"/topics/a%2Fb": 42201, "/topics/a%252Fb": 42201, "/topics/a%0Ab": 40001, "/topics//records": 40001, "//topics/t": 40001, "/topics/t/partitions/%2E": 40001} {
		first := b.post(path, batchOf("1")).problem(code)
		if again := b.post(path, batchOf("1")).problem(code); again.Detail != first.Detail {
			t.Errorf("%s: %q, then %q", path, first.Detail, again.Detail)
		}
	}
	// Decoded once: what is told is the name that was meant.
	if p := b.post("/topics/It's%20x", batchOf("1")).problem(42201); !strings.Contains(p.Detail, `"It's x"`) {
		t.Errorf("detail %q", p.Detail)
	}
	if p := b.post("/topics/a%252Fb", batchOf("1")).problem(42201); !strings.Contains(p.Detail, `"a%2Fb"`) {
		t.Errorf("detail %q", p.Detail)
	}
	c := b.raw() // a client library would mend it
	_, err := io.WriteString(c, "POST /topics/% HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	if resp.StatusCode != 400 {
		t.Errorf("malformed escape: %d", resp.StatusCode)
	}
}

// fill puts something into a pattern's parameters.
func fill(pattern string) string {
	return strings.NewReplacer("{topic}", "t", "{partition}", "0", "{slug}", "not-found", "*", "x").Replace(pattern)
}

func TestH15_MethodsOnEveryRoute(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	methods := map[string][]string{} // by pattern
	for _, rt := range Routes(b.handler) {
		methods[rt.Pattern] = append(methods[rt.Pattern], rt.Method)
	}
	for pattern, have := range methods {
		path := fill(pattern)
		want := append(slices.Clone(have), "OPTIONS")
		if slices.Contains(have, "GET") {
			want = append(want, "HEAD")
		}
		slices.Sort(want)
		allow := strings.Join(want, ", ")
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "BREW", "TRACE"} {
			if slices.Contains(have, m) {
				continue
			}
			a := b.do(m, path, nil)
			a.problem(40501)
			if got := a.header.Values("Allow"); len(got) != 1 || got[0] != allow {
				t.Errorf("%s %s: Allow %q, want %q", m, path, got, allow)
			}
		}
		a := b.do("OPTIONS", path, nil, header("Origin", "https://evil.example"), header("Access-Control-Request-Method", "POST")).want(204)
		if got := a.header.Get("Allow"); got != allow {
			t.Errorf("OPTIONS %s: Allow %q, want %q", path, got, allow)
		}
		if slices.Contains(have, "GET") && !strings.HasSuffix(pattern, "/*") {
			get, head := b.get(path), b.do("HEAD", path, nil)
			if head.status != get.status || len(head.body) != 0 || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
				t.Errorf("HEAD %s: %d %q, GET: %d %q", path, head.status, head.header.Get("Content-Type"), get.status, get.header.Get("Content-Type"))
			}
		}
	}
	b.do("BREW", "/nope", nil).problem(40404)
}

func TestH15_HTTP10AndPipelining(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, host := range []string{"", "Host: x\r\n"} {
		c := b.raw()
		_, err := io.WriteString(c, "GET /problems/not-found HTTP/1.0\r\n"+host+"\r\n")
		must(t, err)
		whole, err := io.ReadAll(c) // ends: the connection is closed
		must(t, err)
		head, body, _ := strings.Cut(string(whole), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.0 200") || strings.Contains(head, "chunked") || !strings.Contains(body, "/problems/not-found") {
			t.Errorf("HTTP/1.0 answer: %q", whole)
		}
	}
	c := b.raw()
	var all bytes.Buffer
	for i := range 20 {
		body := batchOf(fmt.Sprint(i))
		fmt.Fprintf(&all, "POST /topics/t HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		all.WriteString("GET /problems/not-found HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	_, err := c.Write(all.Bytes())
	must(t, err)
	in := bufio.NewReader(c)
	for i := range 20 {
		for _, method := range []string{"POST", "GET"} {
			resp, err := http.ReadResponse(in, &http.Request{Method: method})
			must(t, err)
			data, err := io.ReadAll(resp.Body)
			must(t, err)
			if method == "POST" && !strings.Contains(string(data), fmt.Sprintf(`"offset":%d,`, i)) || resp.StatusCode != 200 {
				t.Fatalf("answer %d: %d %s", i, resp.StatusCode, data)
			}
		}
	}
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint(i))
	}
	wantValues(t, b.values("t", 20), want...)
}

func TestH16_EncodedBodies(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = 1 << 20 }))
	b.topic("t", 1)
	zstandard := func(data []byte, opts ...zstd.EOption) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, opts...)
		must(t, err)
		_, err = w.Write(data)
		must(t, err)
		must(t, w.Close())
		return out.Bytes()
	}
	encoded := func(name string) request { return header("Content-Encoding", name) }
	small := []byte(batchOf("1"))
	spaces := append(bytes.Repeat([]byte(" "), 64<<20), small...)
	gz, zs := gzipped(t, small), zstandard(small)
	b.post("/topics/t", gz, encoded("gzip")).want(200)
	for name, want := range map[string]string{"GZIP": "gzip", "x-gzip": "gzip", "Zstd": "zstd", "Identity": "", "": ""} {
		got, err := contentEncoding(&http.Request{Header: http.Header{"Content-Encoding": {name}}})
		if err != nil || got != want {
			t.Errorf("%q is read as %q, %v", name, got, err)
		}
	}
	b.post("/topics/t", zs, encoded("zstd")).want(200)
	b.post("/topics/t", small, encoded("identity")).want(200)
	b.post("/topics/t/records", gzipped(t, []byte("raw")), encoded("gzip")).want(200)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		code     int
	}{
		"gzip bomb":            {"gzip", gzipped(t, spaces), 41301},
		"zstd bomb":            {"zstd", zstandard(spaces), 41301},
		"zstd huge window":     {"zstd", zstandard(spaces, zstd.WithWindowSize(64<<20), zstd.WithEncoderLevel(zstd.SpeedFastest)), 41301},
		"plain as gzip":        {"gzip", small, 40001},
		"plain as zstd":        {"zstd", small, 40001},
		"gzip twice":           {"gzip, gzip", gz, 41501},
		"br":                   {"br", small, 41501},
		"truncated gzip":       {"gzip", gz[:len(gz)-4], 40001},
		"truncated zstd":       {"zstd", zs[:len(zs)-4], 40001},
		"gzip with a tail":     {"gzip", append(slices.Clone(gz), "tail"...), 40001},
		"empty gzip":           {"gzip", nil, 40001},
		"empty gzip members":   {"gzip", bytes.Repeat(gzipped(t, nil), 100_000), 41301},
		"two Content-Encoding": {"gzip,", gz, 41501},
	} {
		a := b.post("/topics/t", c.body, encoded(c.encoding))
		if name == "zstd huge window" && a.status == 400 { // refused for its window already
			continue
		}
		if a.status != c.code/100 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		a.problem(c.code)
	}
	wantValues(t, b.values("t", 4), "1", "1", "1", "raw")
	if used := newAPIOf(b).bodies.used.Load(); used != 0 {
		t.Errorf("%d bytes of the body budget are still taken", used)
	}
}

func newAPIOf(b *testBroker) *api { return b.handler.(*api) }

func TestH22_BodyOverTheLimit(t *testing.T) {
	const limit = 64 << 10
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = limit }))
	b.topic("t", 1)
	sized := func(n int) []byte {
		frame := len(batchOf(`""`))
		return []byte(batchOf(`"` + strings.Repeat("x", n-frame) + `"`))
	}
	stored := int64(0)
	for _, n := range []int{limit - 1, limit, limit + 1, 20 * limit} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = bytes.NewReader(sized(n))
			if chunked {
				body = io.MultiReader(body)
			}
			a := b.post("/topics/t", body)
			if n <= limit {
				a.want(200)
				stored++
			} else if p := a.problem(41301); p.Outcome != "not_written" {
				t.Errorf("outcome %q", p.Outcome)
			}
			b.post("/topics/t", batchOf("1")).want(200) // on the same connection, if it is left open
			stored++
		}
	}
	if end := b.end("t", 0); end != stored {
		t.Errorf("log end %d, want %d", end, stored)
	}
}

// A client that writes all before it reads anything must still get the refusal.
func TestH22_RefusalCanBeReadAfterWritingAll(t *testing.T) {
	const limit = 64 << 10
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = limit }))
	b.topic("t", 1)
	for _, path := range []string{"/topics/t", "/topics/nope", "/topics/t?x=1"} {
		c := b.raw()
		body := bytes.Repeat([]byte("x"), 64*limit)
		_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, len(body))
		must(t, err)
		_, err = c.Write(body)
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		data, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode < 400 || !resp.Close || !strings.Contains(string(data), "error_code") {
			t.Errorf("%s: %d close=%v %s", path, resp.StatusCode, resp.Close, data)
		}
	}
}

func TestExpectContinueIsRefusedBeforeTheBody(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = 1000 }))
	b.topic("t", 1)
	for _, c := range []struct {
		path, headers string
		status        int
	}{
		{"/topics/nope", "Content-Length: 100\r\n", 404},
		{"/topics/t", "Content-Length: 100\r\nContent-Type: text/plain\r\n", 415},
		{"/topics/t", "Content-Length: 1001\r\n", 413},
		{"/topics/t?acks=7", "Content-Length: 100\r\n", 400},
		{"/topics/t", "Content-Length: 100\r\nContent-Encoding: br\r\n", 415},
		{"/topics/t/partitions/9", "Content-Length: 100\r\n", 404},
	} {
		conn := b.raw()
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n%s\r\n", c.path, c.headers)
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if resp.StatusCode != c.status {
			t.Errorf("%s %q: %d, want %d at once", c.path, c.headers, resp.StatusCode, c.status)
		}
	}
	conn := b.raw()
	in := bufio.NewReader(conn)
	body := batchOf("1")
	_, err := fmt.Fprintf(conn, "POST /topics/t HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	must(t, err)
	line, err := in.ReadString('\n')
	must(t, err)
	if !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("first line %q", line)
	}
	_, err = in.ReadString('\n')
	must(t, err)
	_, err = io.WriteString(conn, body)
	must(t, err)
	resp, err := http.ReadResponse(in, nil)
	must(t, err)
	if resp.StatusCode != 200 {
		t.Errorf("after 100 Continue: %d", resp.StatusCode)
	}
}

// Over HTTP/2 the refusal must come as a whole answer, not as a stream reset.
func TestH22_OverHTTP2(t *testing.T) {
	const limit = 64 << 10
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = limit }))
	b.topic("t", 1)
	onlyHTTP2 := new(http.Protocols)
	onlyHTTP2.SetUnencryptedHTTP2(true)
	b.client.Transport = &http.Transport{Protocols: onlyHTTP2, DisableCompression: true}
	b.post("/topics/t", batchOf("1")).want(200)
	for _, n := range []int{limit + 1, 20 * limit} {
		for _, path := range []string{"/topics/t", "/topics/nope"} {
			for _, known := range []bool{true, false} {
				r, err := http.NewRequest(http.MethodPost, b.url+path, bytes.NewReader(make([]byte, n)))
				must(t, err)
				if !known {
					r.ContentLength, r.GetBody = -1, nil
				}
				a := b.send(r)
				if want := map[string]int{"/topics/t": 413, "/topics/nope": 404}[path]; a.status != want || !strings.Contains(string(a.body), "error_code") {
					t.Errorf("%s, %d bytes: %d %s", path, n, a.status, a.body)
				}
			}
		}
	}
	b.post("/topics/t", batchOf("2")).want(200)
	wantValues(t, b.values("t", 2), "1", "2")
}
