package check

import (
	"fmt"
	"slices"
	"testing"

	"chaos/history"
)

var work = history.Partition{Topic: "t2", Index: 0}

// story tells a history of groups, one operation after the other.
type story struct {
	h   *history.History
	ops map[string]*history.GroupOp // by a name, for the tests to break
}

func sec(s float64) int64 { return int64(s * float64(second)) }

// op adds an operation that takes 0.1 s.
func (s *story) op(name, group, life, member string, kind history.Kind, at float64) *history.GroupOp {
	op := &history.GroupOp{ID: int64(100 + len(s.h.Groups)), Client: "c", Kind: kind, Group: group, Life: life, Member: member, Broker: 2, Call: sec(at), Return: sec(at + 0.1),
		Outcome: history.OK, Session: 4 * second, Timeout: second}
	s.h.Groups = append(s.h.Groups, op)
	s.ops[name] = op
	return op
}

func (s *story) poll(name, group, life, member string, at float64, from, to int64) *history.GroupOp {
	op := s.op(name, group, life, member, history.Poll, at)
	op.Records = given(from, to)
	return op
}

func given(from, to int64) (records []history.GroupRecord) {
	for o := from; o < to; o++ {
		records = append(records, history.GroupRecord{Partition: work, Record: history.Record{Offset: o, Value: fmt.Sprintf("w%d", o)}})
	}
	return records
}

func (s *story) offset(name, group, life, member string, kind history.Kind, at float64, offset int64, body bool) *history.GroupOp {
	op := s.op(name, group, life, member, kind, at)
	op.Body = body
	op.Offsets = []history.GroupOffset{{Partition: work, Offset: offset, Certain: kind == history.Commit && !body}}
	return op
}

func refuse(op *history.GroupOp, code int) *history.GroupOp {
	op.Outcome, op.Status, op.Code = history.NotWritten, code/100, code
	return op
}

// story is a history in which two groups read ten records. In "g", a reads and goes
// silent, b goes on from a's commit and is taken over by b2, and w drains; the zombies
// are refused. In "calm" nothing happens but one member.
func newStory() *story {
	s := &story{h: good(), ops: map[string]*history.GroupOp{}}
	var values []string
	var offsets []int64
	var records []history.Record
	for o := range int64(10) {
		values, offsets = append(values, fmt.Sprintf("w%d", o)), append(offsets, o)
		records = append(records, history.Record{Offset: o, Value: values[o]})
	}
	s.h.Ops = append(s.h.Ops, &history.Op{ID: 90, Client: "p9", Kind: history.Produce, Partition: work, Broker: 1, Acks: -1, Values: values, Offsets: offsets,
		Outcome: history.OK, Call: 1, Return: 2, High: -1})
	s.h.Views = append(s.h.Views, &history.View{Partition: work, Source: "broker 1", End: 10, Records: records})
	s.h.Events = append(s.h.Events, history.Event{At: 10 * second, What: history.EventDrain})

	s.op("join a", "g", "a", "m1", history.Join, 1)
	s.op("subscribe a", "g", "a", "m1", history.Subscribe, 1.2)
	s.poll("a1", "g", "a", "m1", 2, 0, 3)
	s.offset("a commits", "g", "a", "m1", history.Commit, 2.3, 3, true)
	s.poll("a2", "g", "a", "m1", 2.5, 3, 5)
	s.op("join b", "g", "b", "m2", history.Join, 3)
	s.poll("b1", "g", "b", "m2", 7, 3, 6)
	s.offset("b commits", "g", "b", "m2", history.Commit, 7.3, 6, false)
	s.offset("read back", "g", "", "", history.Committed, 7.5, 6, false)
	refuse(s.offset("zombie a", "g", "a", "m1", history.Commit, 8, 5, true), 40906)
	s.op("take-over", "g", "b2", "m2", history.TakeOver, 8.5)
	s.poll("b2", "g", "b2", "m2", 8.7, 6, 8)
	refuse(s.offset("zombie b", "g", "b", "m2", history.Commit, 9, 6, true), 40906)
	s.offset("b2 commits", "g", "b2", "m2", history.Commit, 9.2, 8, true)
	s.op("b2 leaves", "g", "b2", "m2", history.Leave, 9.4)
	s.poll("w1", "g", "w", "w", 10.1, 8, 10).OneCall = true
	s.offset("w commits", "g", "w", "w", history.Commit, 10.3, 10, false).OneCall = true
	s.offset("read back at last", "g", "", "", history.Committed, 10.5, 10, false)

	s.op("join c", "calm", "c", "m1", history.Join, 1)
	s.poll("c1", "calm", "c", "m1", 20, 0, 2).RequestID = "x"
	s.poll("c1 again", "calm", "c", "m1", 20.2, 0, 2).RequestID = "x"
	s.offset("c commits", "calm", "c", "m1", history.Commit, 20.4, 2, true)
	s.poll("c2", "calm", "c", "m1", 21, 2, 4)
	s.poll("c3", "calm", "c", "m1", 22, 4, 10)
	s.offset("c seeks", "calm", "c", "m1", history.Seek, 22.2, 7, true)
	s.poll("c4", "calm", "c", "m1", 22.4, 7, 10)
	s.offset("c commits at last", "calm", "c", "m1", history.Commit, 23, 10, true)
	return s
}

func TestGoodGroups(t *testing.T) {
	s := newStory()
	o := all
	o.Deleted = map[string]bool{work.Topic: true} // its last produces aren't in the story
	for _, v := range Check(s.h, o) {
		t.Error(v)
	}
	want := GroupFacts{Moved: 3, TakeOvers: 1, Fenced: 2, Repeats: 5, Repeated: 1}
	if got := Groups(s.h); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// checkStory checks what the story's groups break.
func checkStory(s *story) []Violation {
	o := all
	o.Deleted = map[string]bool{work.Topic: true}
	return Check(s.h, o)
}

// move has an operation happen at another time.
func move(op *history.GroupOp, at float64) { op.Call, op.Return = sec(at), sec(at+0.1) }

func (s *story) drop(names ...string) {
	for _, n := range names {
		s.h.Groups = slices.DeleteFunc(s.h.Groups, func(op *history.GroupOp) bool { return op == s.ops[n] })
	}
}

func TestBadGroups(t *testing.T) {
	for _, d := range []struct {
		name, invariant string
		do              func(s *story)
	}{
		{"a member begins behind the commit", "V8", func(s *story) { s.ops["b1"].Records = given(4, 6) }},
		{"a member begins where a silent one had come to, uncommitted", "V8", func(s *story) { s.ops["b1"].Records = given(5, 6) }},
		{"a member begins before an acknowledged commit", "V8", func(s *story) { s.ops["b2"].Records = given(5, 8) }},
		{"a one-call member goes on from its own position", "V8", func(s *story) {
			s.poll("w1 early", "g", "w", "w", 10, 8, 9).OneCall = true
			s.ops["w1"].Records = given(9, 10)
			move(s.ops["w1"], 10.2)
			move(s.ops["w commits"], 10.4)
		}},
		{"an answer has a gap", "V8", func(s *story) { s.ops["a1"].Records = slices.Delete(s.ops["a1"].Records, 1, 2) }},
		{"an answer has a repeat", "V8", func(s *story) {
			s.ops["a1"].Records = slices.Insert(s.ops["a1"].Records, 1, s.ops["a1"].Records[0])
		}},
		{"a poll skips", "V8", func(s *story) { s.ops["c2"].Records = given(3, 4) }},
		{"a poll falls back in peace", "V8", func(s *story) { s.ops["c3"].Records = given(2, 10) }},
		{"a poll begins elsewhere than was sought", "V8", func(s *story) { s.ops["c4"].Records = given(8, 10) }},
		{"a repeated request id gives other records", "V8", func(s *story) { s.ops["c1 again"].Records = given(0, 1) }},
		{"a position of before another had the partition is kept", "V8", func(s *story) {
			s.poll("a3", "g", "a", "m1", 9.5, 5, 8)
			move(s.ops["b2 leaves"], 9.35)
		}},
		{"an acknowledged commit is lost", "V12", func(s *story) { s.ops["read back"].Offsets[0].Offset = 3 }},
		{"all commits are lost", "V12", func(s *story) { s.ops["read back at last"].Offsets[0].Offset = nothing }},
		{"a refused commit came into force", "V12", func(s *story) { s.ops["read back"].Offsets[0].Offset = 5; move(s.ops["read back"], 8.2) }},
		{"a silent member commits what another owns", "V12", func(s *story) { s.ops["zombie a"].Outcome = history.OK }},
		{"one that was taken over commits", "V12", func(s *story) { s.ops["zombie b"].Outcome = history.OK }},
		{"one that was taken over polls", "V12", func(s *story) { s.poll("b late", "g", "b", "m2", 9.1, 6, 7) }},
		{"a partition moves while its owner lives", "G6", func(s *story) { move(s.ops["b1"], 4) }},
		{"a living member is expelled", "G6", func(s *story) { refuse(s.ops["c2"], 40403) }},
		{"a living member is fenced", "G6", func(s *story) { refuse(s.ops["c seeks"], 40906) }},
		{"an owner's commit is refused", "G4", func(s *story) { refuse(s.ops["b2 commits"], 40906) }},
		{"a commit passes what nobody was given", "V13", func(s *story) { s.ops["a commits"].Offsets[0].Offset = 4 }},
		{"a record that nobody was given", "V13", func(s *story) { s.drop("w1", "w commits", "read back at last") }},
		{"a poll reads what the log doesn't have", "V9", func(s *story) { s.ops["a1"].Records[1].Value = "maybe" }},
		{"a poll reads what was refused", "V2", func(s *story) { s.ops["a1"].Records[1].Value = "refused" }},
		{"a poll takes too long", "V15", func(s *story) { s.ops["c3"].Status, s.ops["c3"].Return = 200, sec(24.1) }},
		{"an error takes too long", "V15", func(s *story) {
			s.ops["c3"].Status, s.ops["c3"].Return, s.ops["c3"].Outcome = 503, sec(24.1), history.NotWritten
		}},
		{"no answer from a broker that ran", "V15", func(s *story) { s.ops["c3"].NoAnswer = true }},
		{"the rest is never read", "V15", func(s *story) { s.h.Events = s.h.Events[:len(s.h.Events)-1] }},
	} {
		t.Run(d.invariant+" "+d.name, func(t *testing.T) {
			s := newStory()
			d.do(s)
			found := checkStory(s)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Invariant == d.invariant }) {
				t.Errorf("not found; only: %v", found)
			}
		})
	}
}

// What looks like a fault of a group and is none.
func TestAllowedGroups(t *testing.T) {
	unanswered := func(op *history.GroupOp) { op.Outcome = history.Unknown }
	for name, do := range map[string]func(*story){
		"a commit without an answer that did nothing": func(s *story) {
			unanswered(s.ops["b commits"])
			s.ops["read back"].Offsets[0].Offset = 3
			s.ops["b2"].Records = given(3, 8)
		},
		"one that came into force": func(s *story) { unanswered(s.ops["b commits"]) },
		"one that comes late": func(s *story) {
			unanswered(s.ops["a commits"])
			s.ops["b1"].Records = given(0, 6)
			s.ops["read back at last"].Offsets[0].Offset = 3
		},
		"a position that falls back when a fault is on": func(s *story) {
			s.h.Events = append(s.h.Events, history.Event{At: sec(21.2), What: history.EventFault})
			s.ops["c3"].Records = given(2, 10)
		},
		"a repeat that the coordinator's death made a new poll": func(s *story) {
			s.h.Events = append(s.h.Events, history.Event{At: sec(19), What: history.EventFault})
			s.ops["c1 again"].Records = given(0, 1)
			s.ops["c commits"].Offsets[0].Offset = 1
			s.ops["c2"].Records = given(1, 4)
		},
		"a zombie whose partition nobody has taken": func(s *story) {
			s.drop("zombie a")
			s.offset("zombie a", "g", "a", "m1", history.Commit, 2.8, 5, true)
			s.ops["b1"].Records = given(5, 6)
		},
		"a partition that moved because its owner polled": func(s *story) {
			s.poll("a3", "g", "a", "m1", 3.5, 0, 0)
			move(s.ops["b1"], 4)
			move(s.ops["b commits"], 4.3)
		},
		"one that moved because a poll came late": func(s *story) {
			late := s.poll("a3", "g", "a", "m1", 2.45, 0, 0)
			late.Outcome, late.GaveUp = history.Unknown, true
			move(s.ops["b1"], 4)
			move(s.ops["b commits"], 4.3)
		},
		"a seek without an answer that did nothing": func(s *story) {
			unanswered(s.ops["c seeks"])
			s.ops["c4"].Records = nil
		},
		"one that did": func(s *story) { unanswered(s.ops["c seeks"]) },
		"the machine stood still": func(s *story) {
			s.ops["c3"].Status, s.ops["c3"].Return = 200, sec(24.1)
			s.h.Events = append(s.h.Events, history.Event{At: sec(23), What: history.EventStall, Detail: "200"})
			s.drop("c seeks", "c4")
			move(s.ops["c commits at last"], 25)
		},
		"a client that went away": func(s *story) { s.ops["c2"].GaveUp, s.ops["c2"].NoAnswer = true, true },
		"a broker that was down": func(s *story) {
			s.ops["c2"].NoAnswer = true
			s.h.Events = append(s.h.Events, history.Event{At: sec(20.9), What: history.EventDown, Broker: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			do(s)
			for _, v := range checkStory(s) {
				t.Error(v)
			}
		})
	}
}
