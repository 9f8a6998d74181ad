package handlers

import (
	"net/http"
	"strings"
	"testing"
)

func TestUnknownPathIsAProblem(t *testing.T) {
	b := startBroker(t)
	b.get("/nope").problem(40404)
	b.get("/topics/nope/partitions/0/records").problem(40401)
	b.do(http.MethodDelete, "/healthz", nil).problem(40501)
}

// TestFixesFitTheRequest: what a fix proposes is what somebody who made that
// mistake wants to do.
func TestFixesFitTheRequest(t *testing.T) {
	b := startBroker(t)
	b.topic("known", 1)
	for _, c := range []struct {
		method, path, body string
		code               int
		says, not          string
	}{
		{"GET", "/topic", "", 40404, b.url + "/topics is meant", ""},
		{"GET", "/health", "", 40404, b.url + "/healthz is meant", ""},
		{"GET", "/topics/known/record", "", 40404, b.url + "/topics/known/records is meant", ""},
		{"POST", "/topics/a%20b/partition/0/Records", "", 40404, b.url + "/topics/a%20b/partitions/0/records is meant", ""},
		{"GET", "/swagger", "", 40404, b.url + "/docs/", "is meant"},
		{"POST", "/consumer/g", "", 40404, b.url + "/consumers/g is meant", ""},
		{"GET", "/consumers/g/instances/c1/record", "", 40404, b.url + "/consumers/g/instances/c1/records is meant", ""},
		{"GET", "/console/nothing", "", 40404, b.url + "/console/", "Correct"},
		{"GET", "/topics/unknown", "", 40401, "curl -X PUT " + b.url + "/topics/unknown", ""},
		{"DELETE", "/topics/unknown", "", 40401, "curl " + b.url + "/topics", "create it"},
		{"DELETE", "/topics/known/partitions/0/records?before_offset=9", "", 41601, "before_offset", "Go on at"},
		{"GET", "/topics/known/partitions/0/records?offset=9", "", 41601, "Go on at 0", "before_offset"},
		{"GET", "/topics/known/partitions/0/records?timeout=10s", "", 40001, "milliseconds", ""},
		{"GET", "/topics/known/partitions/7", "", 40402, "its only one is 0", ""},
		{"PUT", "/topics/a%20b", "", 42201, "only a-z", ": ."},
		{"PUT", "/topics/new", `{"configs":{"retention.mss":"1"}}`, 42201, "no such config; did you mean retention.ms?", "Allowed"},
		{"PUT", "/topics/new", `{"configs":{"colour":"1"}}`, 42201, "no such config. Known: ", "mean"},
	} {
		a := b.do(c.method, c.path, c.body)
		a.problem(c.code)
		if text := string(a.body); !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s %s: %q should be in, %q out of\n%s", c.method, c.path, c.says, c.not, text)
		}
	}
	joined := b.post("/topics/known", `{"value":1}{"value":2}`, header("Content-Type", "application/x-ndjson"))
	joined.problem(40001)
	if !strings.Contains(string(joined.body), "--data-binary") {
		t.Errorf("two records on one line: %s", joined.body)
	}
}
