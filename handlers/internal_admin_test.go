package handlers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// What an operator asks of the cluster as a whole (R79, R81, R82), on a single
// broker: most of it needs others, and is refused with the reason.
func TestOperatorsCalls(t *testing.T) {
	b := startBroker(t)
	if _, err := b.ctl.CreateTopic(context.Background(), controller.CreateTopicRequest{Name: "a", Partitions: 2, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	in := NewInternal(InternalConfig{Logger: zerolog.Nop(), Secret: "s3cret"})
	const elect, again, replace, remove = wire.PathElectLeader, wire.PathReassign, wire.PathReplaceBroker, wire.PathRemoveBroker
	ask := func(path, body string, change ...func(*http.Request)) (int, string) {
		r := httptest.NewRequest(http.MethodPost, wire.PathPrefix+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(wire.HeaderSecret, "s3cret")
		for _, f := range change {
			f(r)
		}
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, body := ask(elect, `{"topic":"a","broker":1}`); status != 503 {
		t.Errorf("before the controller is up: %d %s", status, body)
	}
	in.SetController(b.ctl)
	for _, c := range []struct {
		path, body string
		change     func(*http.Request)
		status     int
		says       string
	}{
		{elect, `{"topic":"a","partition":1,"broker":1}`, nil, 200, `{"done":true}`},
		{elect, `{"topic":"a","partition":1,"broker":1,"unclean":true}`, nil, 422, "broker 1 leads it"},
		{elect, `{"topic":"a","broker":2}`, nil, 422, "broker 2 has no replica"},
		{elect, `{"topic":"x","broker":1}`, nil, 404, "x"},
		{elect, `{"topic":"a","partition":7,"broker":1}`, nil, 404, ""},
		{again, `{"topic":"a","replicas":[1]}`, nil, 200, `{"done":true}`},
		{again, `{"topic":"a","replicas":[2]}`, nil, 422, "no broker 2"},
		{again, `{"topic":"a"}`, nil, 422, "under way"},
		{replace, `{"from":1,"to":2}`, nil, 422, "broker 2 is not up"},
		{replace, `{"from":9,"to":1}`, nil, 200, `{"done":true,"partitions":0}`},
		{remove, `{"broker":1}`, nil, 422, "alive"},
		{remove, `{"broker":9,"force":true}`, nil, 404, "no such broker"},
		{remove, `{"broker":9,"forced":true}`, nil, 400, "forced"},
		{remove, `{"broker":9}{}`, nil, 400, "behind"},
		{remove, ``, nil, 400, ""},
		{remove, `{"broker":9,` + strings.Repeat(" ", maxAdminBody) + `"force":true}`, nil, 400, "too large"},
		{remove, `{"broker":1}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, ""},
		{remove, `{"broker":1}`, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, ""},
		{remove, `{"broker":1}`, func(r *http.Request) { r.Method = http.MethodGet }, 405, "POST"},
		{remove, `{"broker":1}`, func(r *http.Request) { r.Header.Del(wire.HeaderSecret) }, 403, ""},
	} {
		change := c.change
		if change == nil {
			change = func(*http.Request) {}
		}
		status, body := ask(c.path, c.body, change)
		if len(c.body) > 100 {
			c.body = c.body[:100] + "…"
		}
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s, want %d with %q", c.path, c.body, status, body, c.status, c.says)
		}
	}
	if b := b.ctl.State().Brokers[1]; b == nil || b.Fenced {
		t.Errorf("the broker is %+v", b)
	}
}
