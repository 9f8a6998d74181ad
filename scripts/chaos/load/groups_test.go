package load

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chaos/check"
	"chaos/history"
)

// runGroups runs the groups' clients against a stand-in, in time of its own.
func runGroups(t *testing.T, seed uint64, flaw string) (found []check.Violation, facts check.GroupFacts, h *history.History) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandIn(seed, flaw)
		f, _, done := fleetOf(t, "http://one", "http://two", "http://three")
		f.cfg.Topics, f.cfg.Transport, f.cfg.Seed = nil, s, seed
		f.cfg.GroupTopic, f.cfg.GroupSession, f.cfg.Think = s.topic, 4*time.Second, 60*time.Millisecond
		f.cfg.Record.Event(history.EventFault, 0, "all the while")
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		f.Start(ctx)
		f.Wait()
		ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if lacking := f.Drain(ctx); len(lacking) > 0 {
			found = append(found, check.Violation{Invariant: "drain", Detail: lacking[0]})
		}
		h = done()
		h.Views = s.views()
		found = append(found, check.Check(h, check.Options{})...)
		facts = check.Groups(h)
	})
	return found, facts, h
}

// Members of a broker that keeps the contract find nothing wrong, and all that they
// are there for happens.
func TestGroupsOfStandIn(t *testing.T) {
	sum := map[string]int{}
	for seed := range uint64(3) {
		found, f, h := runGroups(t, seed, "")
		for _, v := range found {
			t.Errorf("seed %d: %s", seed, v)
		}
		t.Logf("%d operations: %+v", len(h.Groups), f)
		for what, n := range map[string]int{"moved": f.Moved, "taken over": f.TakeOvers, "fenced": f.Fenced, "forgotten": f.Forgotten, "expired": f.Expired, "given again": f.Repeats,
			"repeated": f.Repeated, "unknown": f.Unknown, "fell back": f.FellBack} {
			sum[what] += n
		}
	}
	for what, n := range sum {
		if n == 0 {
			t.Errorf("nothing was %s", what)
		}
	}
}

// Each flaw of a broker is found by the same clients.
func TestFlawsOfStandIn(t *testing.T) {
	for flaw, invariant := range map[string]string{
		"zombies commit":              "V12",
		"commits are lost":            "V12",
		"partitions move at once":     "G6",
		"positions outlive ownership": "V8",
		"records are skipped":         "V13",
		"one-call goes on":            "V8",
		"the living are expelled":     "G6",
		"polls are slow":              "V15",
		"request ids are ignored":     "V8",
	} {
		t.Run(flaw, func(t *testing.T) {
			for seed := range uint64(8) { // what a flaw shows at is rare for some
				found, _, _ := runGroups(t, seed, flaw)
				if slices.ContainsFunc(found, func(v check.Violation) bool { return v.Invariant == invariant }) {
					t.Logf("seed %d: %d findings, first: %v", seed, len(found), found[0])
					return
				}
			}
			t.Errorf("no %s", invariant)
		})
	}
}

// What each answer to a group's request proves.
func TestGroupOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		outcome history.Outcome
		code    int
	}{
		"done":       {say(204, ""), history.OK, 0},
		"refused":    {say(409, `{"error_code":40906}`), history.NotWritten, 40906},
		"not now":    {say(503, `{"error_code":50302,"outcome":"not_written"}`), history.NotWritten, 50302},
		"in doubt":   {say(503, `{"error_code":50304,"outcome":"unknown"}`), history.Unknown, 50304},
		"no outcome": {say(500, "oops"), history.Unknown, 0},
		"no answer":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, history.Unknown, 0},
		"an end early": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			w.WriteHeader(200)
		}, history.Unknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, done := broker(t, c.answer)
			f.cfg.GroupTopic = f.cfg.Topics[0]
			s := &slot{fleet: f, group: "g", client: f.newClient("c")}
			p := history.Partition{Topic: "id", Index: 1}
			m := s.member("m")
			m.instance, m.ends[p] = "m~1", 7
			m.commit(1, []history.GroupOffset{{Partition: p, Offset: 7}})
			if op := done().Groups[0]; op.Outcome != c.outcome || op.Code != c.code || op.Life == "" || !op.Body {
				t.Errorf("%+v", op)
			}
			if _, kept := m.ends[p]; kept != (c.outcome == history.Unknown || c.code == 50302) {
				t.Errorf("what is to be committed: %v", m.ends)
			}
		})
	}
}

// Records of both formats are read; what is no list of records is a lost answer.
func TestGroupPolls(t *testing.T) {
	body := ""
	f, _, done := broker(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
	f.cfg.GroupTopic = f.cfg.Topics[0]
	s := &slot{fleet: f, group: "g", client: f.newClient("c")}
	m := s.member("m")
	stand := &standIn{topic: &Topic{Partitions: 2}, log: [][][]byte{nil, {Value("a"), Value("b")}}}
	for _, binary := range []bool{false, true} {
		w := &answerText{}
		stand.answer(w, &standInMember{binary: binary}, map[int]int64{1: 0}, map[int]int64{1: 2})
		body, m.binary, m.topic = string(w.text), binary, &Topic{Name: "work", ID: "id", Partitions: 2}
		m.poll(1, 0, 10, "", 0)
	}
	body = `{"records":[]}`
	m.poll(1, 0, 10, "", 0)
	ops := done().Groups
	for _, op := range ops[:2] {
		if len(op.Records) != 2 || op.Records[1].Value != "b" || op.Records[1].Offset != 1 || op.Records[1].Partition.Index != 1 || !op.OneCall {
			t.Errorf("%+v", op)
		}
	}
	if ops[2].Outcome != history.Unknown || ops[2].Error == "" {
		t.Errorf("%+v", ops[2])
	}
}

type answerText struct {
	http.ResponseWriter
	text []byte
}

func (a *answerText) Write(p []byte) (int, error) { a.text = append(a.text, p...); return len(p), nil }
