package handlers

import (
	"net/http"
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	offers := []string{typeJSON, typeNDJSON, typeKafkaJSON, "text/html"}
	for accepts, want := range map[string]string{
		"":                                   typeJSON,
		"*/*":                                typeJSON,
		"*/*;q=0.1":                          typeJSON,
		"application/*":                      typeJSON,
		"text/*":                             "text/html",
		"text/html, */*;q=0.8":               "text/html",
		"TEXT/HTML":                          "text/html",
		"application/x-ndjson":               typeNDJSON,
		"application/x-ndjson;charset=utf-8": typeNDJSON,
		typeKafkaJSON + ", application/json": typeJSON,
		typeKafkaJSON + ", application/json;q=0.9":                 typeKafkaJSON,
		"application/json;q=0, */*;q=0.1":                          typeNDJSON,
		"application/json;q=0.2,application/x-ndjson;q=0.3":        typeNDJSON,
		"application/json ; Q=0.2 , application/x-ndjson ; q=0.30": typeNDJSON,
		"image/png":                    "",
		"application/json;q=0":         "",
		"*/*;q=0":                      "",
		"image/png, */*;q=0":           "",
		"garbage":                      typeJSON,
		"garbage, text/html":           "text/html",
		"text/html;q=banana":           "text/html",
		"application/*;q=0, text/html": "text/html",
		strings.Repeat("a/b,", 1000):   "",
	} {
		r := &http.Request{Header: http.Header{}}
		if accepts != "" {
			r.Header.Set("Accept", accepts)
		}
		got, err := negotiate(r, offers...)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", accepts, got, err, want)
		}
	}
	// Several lines are one list.
	r := &http.Request{Header: http.Header{"Accept": {"image/png", "text/html"}}}
	if got, _ := negotiate(r, offers...); got != "text/html" {
		t.Errorf("two lines: %q", got)
	}
}

func TestContentType(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "*/*": "", "application/json": typeJSON, "Application/JSON": typeJSON, "application/json;charset=utf-8": typeJSON,
		"application/json; charset=US-ASCII": typeJSON, "application/x-ndjson": typeNDJSON, "text/plain; a=b": "text/plain",
		"application/json; charset=latin1": "415", "application/json, application/json": "415", "json": "415", "application/": "415", "/json": "415", "application/json; charset": "415",
	} {
		got, err := contentType(&http.Request{Header: http.Header{"Content-Type": {line}}})
		if want == "415" {
			if err == nil {
				t.Errorf("%q is read as %q", line, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	if got, err := contentType(&http.Request{Header: http.Header{}}); got != "" || err != nil {
		t.Errorf("none: %q, %v", got, err)
	}
}

func TestQueryTells(t *testing.T) {
	for raw, want := range map[string]string{
		"ack=-1":            "did you mean acks? Known here: acks, count, timeout.",
		"zebra=1":           "Unknown parameter. Known here: acks, count, timeout.",
		"count=0":           "is not a whole number from 1 to 10",
		"count=11":          "is not a whole number from 1 to 10",
		"count=5&count=5":   "more than once",
		"acks=1;count=2":    "semicolon",
		"acks=%":            "malformed percent escape",
		"%=1":               "malformed percent escape",
		"count=1&ack=2&b=3": "and 1 more",
		"timeout=-1":        "at least 0",
	} {
		q := parseQuery(raw, "acks", "count", "timeout")
		q.acks(1)
		q.integer("count", 1, 1, 10)
		q.atMost("timeout", 0, 0, 60)
		err := q.err()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", raw, err, want)
		}
	}
	for _, fine := range []string{"", "&", "acks=all&&count=5", "timeout=60&acks=1", "count=1&"} {
		q := parseQuery(fine, "acks", "count", "timeout")
		if err := q.err(); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	if p := parseQuery("x=1"); p.err() == nil || !strings.Contains(p.err().Error(), "takes none") {
		t.Errorf("no parameters: %v", p.err())
	}
}
