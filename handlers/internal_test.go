package handlers

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"highwater/replication/wire"
)

// internalRequest is a heartbeat as a peer would send it from an address.
func internalRequest(remote string, headers ...string) *http.Request {
	body := wire.AppendFrame(nil, &wire.JSON[wire.Heartbeat]{V: &wire.Heartbeat{Version: wire.Version}})
	r := httptest.NewRequest(http.MethodPost, wire.PathPrefix+wire.PathHeartbeat, bytes.NewReader(body))
	r.RemoteAddr = remote
	r.Header.Set("Content-Type", wire.ContentType)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// H53, H54: whom the internal paths let in. A controller that isn't up yet answers
// 503, which nobody but a broker may see.
func TestH54_StrangersAreKeptOut(t *testing.T) {
	const local, far = "127.0.0.1:4711", "192.0.2.7:4711"
	for name, tc := range map[string]struct {
		secret  string
		request *http.Request
		status  int
	}{
		"loopback":                           {"", internalRequest(local), 503},
		"loopback, IPv6":                     {"", internalRequest("[::1]:4711"), 503},
		"loopback, mapped":                   {"", internalRequest("[::ffff:127.0.0.1]:4711"), 503},
		"another machine":                    {"", internalRequest(far), 403},
		"no address":                         {"", internalRequest("@"), 403},
		"spoofed X-Forwarded-For":            {"", internalRequest(far, "X-Forwarded-For", "127.0.0.1", "X-Real-IP", "127.0.0.1", "True-Client-IP", "::1"), 403},
		"through a proxy on this machine":    {"", internalRequest(local, "X-Forwarded-For", "192.0.2.7"), 403},
		"by way of Via":                      {"", internalRequest(local, "Via", "1.1 proxy"), 403},
		"a page in a browser":                {"", internalRequest(local, "Origin", "http://evil.example"), 403},
		"no secret, a secret sent":           {"", internalRequest(far, wire.HeaderSecret, ""), 403},
		"the secret":                         {"s3cret", internalRequest(far, wire.HeaderSecret, "s3cret"), 503},
		"the secret, from this machine":      {"s3cret", internalRequest(local, wire.HeaderSecret, "s3cret"), 503},
		"a secret is set, loopback has none": {"s3cret", internalRequest(local), 403},
		"a wrong secret":                     {"s3cret", internalRequest(local, wire.HeaderSecret, "s3creT"), 403},
		"a part of the secret":               {"s3cret", internalRequest(local, wire.HeaderSecret, "s3cre"), 403},
		"an empty secret":                    {"s3cret", internalRequest(local, wire.HeaderSecret, ""), 403},
		"two secrets":                        {"s3cret", internalRequest(local, wire.HeaderSecret, "x", wire.HeaderSecret, "s3cret"), 403},
	} {
		in := NewInternal(InternalConfig{Logger: zerolog.Nop(), Secret: tc.secret})
		w := httptest.NewRecorder()
		in.Before(http.NotFoundHandler()).ServeHTTP(w, tc.request)
		if w.Code != tc.status {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, tc.status, w.Body)
		}
		if strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("%s: the secret is in the answer", name)
		}
	}
}

func TestInternalRefusals(t *testing.T) {
	const local = "127.0.0.1:4711"
	with := func(r *http.Request, change func(*http.Request)) *http.Request { change(r); return r }
	for name, tc := range map[string]struct {
		request *http.Request
		status  int
		code    wire.Code
	}{
		"unknown path":                 {with(internalRequest(local), func(r *http.Request) { r.URL.Path = "/internal/v1/no" }), 404, wire.CodeInvalidRequest},
		"another version of the paths": {with(internalRequest(local), func(r *http.Request) { r.URL.Path = "/internal/v2/fetch" }), 404, wire.CodeInvalidRequest},
		"dots":                         {with(internalRequest(local), func(r *http.Request) { r.URL.Path = "/internal/v1/../v1/fetch" }), 404, wire.CodeInvalidRequest},
		"wrong method":                 {with(internalRequest(local), func(r *http.Request) { r.Method = http.MethodGet }), 405, wire.CodeInvalidRequest},
	} {
		in := NewInternal(InternalConfig{Logger: zerolog.Nop()})
		w := httptest.NewRecorder()
		in.ServeHTTP(w, tc.request)
		if w.Code != tc.status || wire.Code(w.Header().Get(wire.HeaderCode)) != tc.code {
			t.Errorf("%s: %d %s, want %d %s: %s", name, w.Code, w.Header().Get(wire.HeaderCode), tc.status, tc.code, w.Body)
		}
	}
}
