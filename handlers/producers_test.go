package handlers

import (
	"fmt"
	"strings"
	"testing"
)

type producerAnswer struct {
	ProducerID      int64   `json:"producer_id"`
	ProducerEpoch   int16   `json:"producer_epoch"`
	TransactionalID *string `json:"transactional_id"`
}

// I1, I8: ids are given once, over restarts too; a transactional id keeps its own.
func TestI1_I8_ProducersOverHTTP(t *testing.T) {
	b := startBroker(t)
	seen := map[int64]bool{}
	begin := func(body any) (p producerAnswer) {
		t.Helper()
		b.post("/producers", body).want(200).into(&p)
		return p
	}
	for i := range 5 {
		p := begin([]any{nil, "{}", `{"transactional_id":null}`, "{}", nil}[i])
		if seen[p.ProducerID] || p.ProducerID < 1 || p.ProducerEpoch != 0 || p.TransactionalID != nil {
			t.Fatalf("got %+v, after %v", p, seen)
		}
		seen[p.ProducerID] = true
	}
	names := []string{"a", "A", "a b", `q"\`, "é", strings.Repeat("x", 255)}
	pids := map[string]int64{}
	for epoch := range int16(3) {
		for _, name := range names {
			p := begin(fmt.Sprintf(`{"transactional_id":%q}`, name))
			if p.TransactionalID == nil || *p.TransactionalID != name || p.ProducerEpoch != epoch || epoch > 0 && p.ProducerID != pids[name] || epoch == 0 && seen[p.ProducerID] {
				t.Fatalf("%q in round %d: %+v, was %d", name, epoch, p, pids[name])
			}
			pids[name], seen[p.ProducerID] = p.ProducerID, true
		}
	}
	b.restart()
	if p := begin(nil); seen[p.ProducerID] {
		t.Errorf("after a restart producer %d is given out again", p.ProducerID)
	}
	if p := begin(`{"transactional_id":"a"}`); p.ProducerID != pids["a"] || p.ProducerEpoch != 3 {
		t.Errorf("after a restart a is %+v", p)
	}
}

func TestProducersRefused(t *testing.T) {
	b := startBroker(t)
	for body, code := range map[string]int{
		`{"transactional_id":""}`:                                 42201,
		`{"transactional_id":7}`:                                  42201,
		`{"transactional_id":["a"]}`:                              42201,
		`{"transactional_id":"a\u0000b"}`:                         42201,
		`{"transactional_id":"a\nb"}`:                             42201,
		`{"transactional_id":"` + strings.Repeat("x", 256) + `"}`: 42201,
		`{"transactional_id":"` + strings.Repeat("é", 128) + `"}`: 42201,
		`{"transactional_id":"\ud800"}`:                           40001,
		`{"transactional_id":"a","transactional_id":"a"}`:         40001,
		`{"transactionalId":"a"}`:                                 42201,
		`{"transactional_id":"a","producer_id":5}`:                42201,
		`{"transactional_id":"a"} x`:                              40001,
		`[]`:                                                      42201,
		`null`:                                                    42201,
	} {
		if p := b.post("/producers", body).problem(code); p.Outcome != "not_written" {
			t.Errorf("%s: outcome %q", body, p.Outcome)
		}
	}
	b.post("/producers?x=1", "{}").problem(40001)
	b.post("/producers", `{"transactional_id":"`+strings.Repeat("x", 2<<20)+`"}`).problem(41301)
	b.do("POST", "/producers", "a=b", header("Content-Type", "text/plain")).problem(41501)
	if a := b.do("GET", "/producers", nil); a.status != 405 || a.header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("GET: %d, %q", a.status, a.header.Get("Allow"))
	}
}
