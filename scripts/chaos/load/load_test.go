package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chaos/history"
)

func TestValue(t *testing.T) {
	for i := range 500 {
		name := fmt.Sprintf("p%d.%d", i%7, i)
		v := Value(name)
		if got := Name(v); got != name {
			t.Fatalf("%s is read as %s", name, got)
		}
		v[len(v)/2] ^= 1
		if got := Name(v); got == name {
			t.Fatalf("a changed byte of %s isn't noticed", name)
		}
	}
}

// broker is a stand-in that gives one answer to everything.
func broker(t *testing.T, answer http.HandlerFunc) (*Fleet, *client, func() *history.History) {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return fleetOf(t, s.URL)
}

func fleetOf(t *testing.T, urls ...string) (*Fleet, *client, func() *history.History) {
	rec, err := history.NewRecorder(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{URLs: urls, Record: rec, Seed: 1, Think: time.Millisecond, Topics: []*Topic{{Name: "t", ID: "id", Partitions: 2}}})
	return f, f.newClient("p0"), func() *history.History {
		h, err := rec.Close()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

// What each answer to a produce of one record proves.
func TestOutcomes(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, `{"offsets"`)
		panic(http.ErrAbortHandler)
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		outcome history.Outcome
		offsets []int64
		code    int
	}{
		"acknowledged":       {say(200, `{"offsets":[{"partition":1,"offset":7,"error_code":null}]}`), history.OK, []int64{7}, 0},
		"queued":             {say(202, `{"offsets":[{"partition":1,"offset":-1}]}`), history.OK, nil, 0},
		"refused":            {say(503, `{"error_code":50303,"outcome":"not_written"}`), history.NotWritten, nil, 50303},
		"in doubt":           {say(503, `{"error_code":50304,"outcome":"unknown"}`), history.Unknown, nil, 50304},
		"timed out":          {say(504, `{"error_code":50401,"outcome":"unknown"}`), history.Unknown, nil, 50401},
		"broken":             {say(500, `oops`), history.Unknown, nil, 0},
		"unknown topic":      {say(404, `{"error_code":40401}`), history.NotWritten, nil, 40401},
		"failed in part":     {say(207, `{"offsets":[{"partition":1,"offset":-1,"error_code":50303,"outcome":"not_written"}]}`), history.NotWritten, nil, 50303},
		"in doubt in part":   {say(207, `{"offsets":[{"partition":1,"offset":-1,"error_code":50401,"outcome":"unknown"}]}`), history.Unknown, nil, 50401},
		"another partition":  {say(200, `{"offsets":[{"partition":0,"offset":7}]}`), history.Unknown, nil, 0},
		"too few results":    {say(200, `{"offsets":[]}`), history.Unknown, nil, 0},
		"no JSON":            {say(200, `<html>`), history.Unknown, nil, 0},
		"an answer cut off":  {cut, history.Unknown, nil, 0},
		"no answer, a reset": {hang, history.Unknown, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, client, done := broker(t, c.answer)
			client.finalProduce(1, &Topic{Name: "t", ID: "id", Partitions: 2}, 1)
			h := done()
			if len(h.Ops) != 1 {
				t.Fatalf("%d operations", len(h.Ops))
			}
			op := h.Ops[0]
			if op.Outcome != c.outcome || !slices.Equal(op.Offsets, c.offsets) || op.Code != c.code || op.Return < op.Call {
				t.Errorf("%+v", op)
			}
		})
	}
}

// Nobody listens: nothing can have been written. Somebody listens and says
// nothing: it may have been, and that is noted.
func TestNobodyAndNothing(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := "http://" + l.Addr().String()
	_, client, done := fleetOf(t, silent)
	a := client.do(1, "POST", "/", "", nil, -slack+50*time.Millisecond)
	if a.err == nil || neverSent(a.err) || !a.noAnswer() {
		t.Errorf("silence: %v", a.err)
	}
	_ = l.Close()
	client.http.CloseIdleConnections()
	client.finalProduce(1, &Topic{Name: "t", ID: "id", Partitions: 1}, 0)
	if op := done().Ops[0]; op.Outcome != history.NotWritten || op.NoAnswer {
		t.Errorf("%+v", op)
	}
}

// A request to several partitions is one operation for each, each with its own outcome.
func TestSpreadRequest(t *testing.T) {
	_, client, done := broker(t, say(503, `{"error_code":50302,"outcome":"not_written"}`))
	topic := &Topic{Name: "t", ID: "id", Partitions: 2}
	for range 40 {
		for _, op := range client.produce(1, topic, -1) {
			if op.Outcome != history.NotWritten || len(op.Values) == 0 {
				t.Fatalf("%+v", op)
			}
		}
	}
	seen := map[string]bool{}
	for _, op := range done().Ops {
		for _, v := range op.Values {
			if seen[v] {
				t.Fatalf("%s is sent twice", v)
			}
			seen[v] = true
		}
	}
}

// Records of all forms are read, and what ends a stream is no record.
func TestReads(t *testing.T) {
	line := func(offset int, name string) string {
		return fmt.Sprintf(`{"offset":%d,"value":%s}`, offset, Value(name))
	}
	f, c, done := broker(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Accept") == "text/event-stream":
			_, _ = fmt.Fprintf(w, ": hello\n\nid: 0:4\ndata: %s\n\nevent: error\ndata: {\"error_code\":50305}\n\n", line(3, "a"))
		case r.URL.Query().Has("follow"):
			_, _ = fmt.Fprintf(w, "%s\n{\"error_code\":50305}\n", line(3, "a"))
		case r.URL.Query().Get("offset") == "9":
			w.WriteHeader(416)
			_, _ = fmt.Fprint(w, `{"error_code":41601,"high_watermark":4}`)
		default:
			w.Header().Set("Highwater-High-Watermark", "4")
			_, _ = fmt.Fprintf(w, "%s\n", line(3, "a"))
		}
	})
	p := history.Partition{Topic: "id", Index: 0}
	if op := c.fetch(1, p, "t", 3, 0, 1); op.Outcome != history.OK || op.High != 4 || len(op.Records) != 1 || op.Records[0] != (history.Record{Offset: 3, Value: "a"}) {
		t.Errorf("%+v", op)
	}
	if op := c.fetch(1, p, "t", 9, 0, 1); op.Outcome != history.OK || op.High != 4 || len(op.Records) != 0 {
		t.Errorf("%+v", op)
	}
	for range 8 { // both forms of a stream
		if next := c.tail(context.Background(), 1, p, "t", 3, time.Minute); next != 4 {
			t.Errorf("a tail stands at %d", next)
		}
	}
	f.Wait()
	for _, op := range done().Ops[2:] {
		if len(op.Records) != 1 || op.Outcome != history.OK {
			t.Errorf("%+v", op)
		}
	}
}
