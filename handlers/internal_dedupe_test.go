package handlers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/wire"
)

// V29, for checkers: what a replica remembers is what its log tells, and changes with
// each id that the log gets.
func TestV29_DebugDedupe(t *testing.T) {
	b := startBroker(t)
	b.topic("a", 2)
	in := NewInternal(InternalConfig{Logger: zerolog.Nop(), Secret: "s3cret"})
	in.SetBroker(b.broker)
	ask := func(topic string) (int, []replication.DebugDedupe) {
		r := httptest.NewRequest(http.MethodGet, wire.PathPrefix+wire.PathDebugDedupe+"?topic="+topic, nil)
		r.Header.Set(wire.HeaderSecret, "s3cret")
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		var got []replication.DebugDedupe
		_ = json.Unmarshal(w.Body.Bytes(), &got)
		return w.Code, got
	}
	status, before := ask("a")
	if status != 200 || len(before) != 2 || before[0].Partition != 0 || before[1].Digest != before[1].Recomputed {
		t.Fatalf("%d %+v", status, before)
	}
	for range 2 { // the second time they are duplicates
		b.append("a", 1, `{"records":[{"value":1,"id":"x"},{"value":2,"id":"y"}]}`)
		_, after := ask("a")
		switch a := after[1]; {
		case a.Digest != a.Recomputed, a.Digest == before[1].Digest, a.Ids != 2, a.LogEnd != 2:
			t.Errorf("%+v", a)
		case after[0].Digest != before[0].Digest:
			t.Errorf("partition 0 has nothing new: %+v", after[0])
		}
	}
	if status, _ := ask("nothing"); status != 404 {
		t.Errorf("an unknown topic: %d", status)
	}
}
