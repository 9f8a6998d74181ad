package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate: a starting broker is alive, not ready, and says to come back.
func TestGate(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.patience = 0
	g.phase("recovering the logs")
	call := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	if w := call("/healthz"); w.Code != 200 {
		t.Errorf("healthz while starting: %d", w.Code)
	}
	for _, path := range []string{"/readyz", "/topics/a", "/metrics"} {
		w := call(path)
		var problem struct {
			Status    int    `json:"status"`
			Code      int    `json:"error_code"`
			Retriable bool   `json:"retriable"`
			Fix       string `json:"fix"`
			Detail    string `json:"detail"`
			Outcome   string `json:"outcome"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		if w.Code != 503 || problem.Status != 503 || problem.Code/100 != 503 || !problem.Retriable || problem.Fix == "" ||
			problem.Outcome != "not_written" || problem.Detail != "This broker is starting: recovering the logs." || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s while starting: %d %s", path, w.Code, w.Body)
		}
	}
	g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	if w := call("/topics/a"); w.Code != http.StatusTeapot || g.ready() != nil {
		t.Errorf("open: %d %v", w.Code, g.ready())
	}
	g.drain()
	if w := call("/topics/a"); w.Code != http.StatusTeapot || g.ready() == nil {
		t.Errorf("draining: %d %v", w.Code, g.ready())
	}
}

// TestGateStaysDraining: a signal during the start must not be undone by the
// start's own end.
func TestGateStaysDraining(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.drain()
	g.open(http.NotFoundHandler())
	if g.ready() == nil {
		t.Error("a draining broker says that it is ready")
	}
}

// TestGateHoldsRequests: a request that comes during a start is served at its end;
// so a restart behind a client's back costs it a moment, not an error.
func TestGateHoldsRequests(t *testing.T) {
	t.Parallel()
	for _, drained := range []bool{false, true} {
		g := newGate()
		g.patience = patience
		code := make(chan int, 1)
		go func() {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest("POST", "/topics/a", nil))
			code <- w.Code
		}()
		want := http.StatusTeapot
		if drained {
			g.drain()
			want = http.StatusServiceUnavailable
		} else {
			g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
		}
		if got := <-code; got != want {
			t.Errorf("drained %v: %d, want %d", drained, got, want)
		}
	}
}

// TestGateHoldsNobodyLongerThanAsked: a start that doesn't end, for want of a quorum,
// is told within the request's own time (V15).
func TestGateHoldsNobodyLongerThanAsked(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"":                             startPatience,
		"?acks=-1":                     startPatience,
		"?acks=-1&timeout_ms=1531":     1531 * time.Millisecond,
		"?timeout=3000":                3 * time.Second,
		"?timeout=0":                   leastPatience,
		"?timeout=soon":                startPatience,
		"?timeout_ms=4000000000000000": startPatience,
	} {
		synctest.Test(t, func(t *testing.T) {
			began, w := time.Now(), httptest.NewRecorder()
			newGate().ServeHTTP(w, httptest.NewRequest("POST", "/topics/a"+query, nil))
			if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != want {
				t.Errorf("%q: %d after %v, want 503 after %v", query, w.Code, took, want)
			}
		})
	}
}

// TestH21_AnEventStreamOutlivesARestart: an EventSource takes any answer but 200
// for the end, so one that comes back while the broker starts waits for it.
func TestH21_AnEventStreamOutlivesARestart(t *testing.T) {
	t.Parallel()
	call := func(g *gate) <-chan int {
		code := make(chan int, 1)
		r := httptest.NewRequest("GET", "/topics/a/records", nil)
		r.Header.Set("Accept", "text/event-stream")
		go func() {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			code <- w.Code
		}()
		return code
	}
	g := newGate()
	code := call(g)
	g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if got := <-code; got != 200 {
		t.Errorf("an event stream asked for while starting: %d", got)
	}
	g = newGate()
	code = call(g)
	g.drain()
	if got := <-code; got != 503 {
		t.Errorf("an event stream asked for while starting, then stopping: %d", got)
	}
}

// TestGateHoldsNoPollBeyondItsTime: a poll of a consumer group is answered within its
// timeout and a second, also by a broker that starts.
func TestGateHoldsNoPollBeyondItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for path, most := range map[string]time.Duration{
			"/consumers/g/records?member=m&timeout=300": 1300 * time.Millisecond,
			"/consumers/g/instances/i/records":          2 * time.Second, // the dialect's default is one second
			"/consumers/g/instances/i/offsets":          startPatience,
		} {
			g, began := newGate(), time.Now()
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if took := time.Since(began); w.Code != 503 || took > most || took < most-time.Second {
				t.Errorf("%s: %d after %v", path, w.Code, took)
			}
		}
	})
}
