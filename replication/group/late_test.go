package group

import (
	"errors"
	"testing"

	"github.com/google/uuid"
)

// A request that was cut off on its way, and whose client has gone on elsewhere, takes
// nothing away when it arrives at last (H31).
func TestLateBegin(t *testing.T) {
	topic := func(l *lab) TopicPartition {
		info, _ := l.topics.Topic("t")
		return TopicPartition{Topic: "t", TopicID: info.ID}
	}
	// poll is a whole poll that delivers up to an offset; no id is given twice.
	begin := func(l *lab, id byte, request string, join *Join) *PollState {
		return l.must(&Call{ID: uuid.UUID{1, 15: id}, Begin: &Begin{Instance: "m", RequestID: request, Join: join}}).Poll
	}
	end := func(l *lab, st *PollState, request string, to int64, written bool) {
		from := Position{TopicPartition: topic(l), LeaderEpoch: -1}
		at := Position{TopicPartition: topic(l), Offset: to, LeaderEpoch: -1}
		if request != "" {
			l.must(&Call{Deliver: &Deliver{Instance: "m", Token: st.Token, From: []Position{from}, To: []Position{at}}})
		}
		l.must(&Call{End: &End{Instance: "m", Token: st.Token, Written: written, To: []Position{at}}})
	}
	committed := func(l *lab) int64 {
		for _, o := range l.must(&Call{Committed: &Committed{}}).Offsets {
			return o.Offset
		}
		return -1
	}
	commitAll := func(l *lab) error {
		_, err := l.do(&Call{Commit: &Commit{Instance: "m", All: true}})
		return err
	}

	t.Run("in one call", func(t *testing.T) {
		l := newLab(t)
		l.topics.set("t", 1)
		join := &Join{Topics: []string{"t"}, Options: labOptions()}
		end(l, begin(l, 1, "", join), "", 7, true)
		end(l, begin(l, 2, "", join), "", 7, false) // late, and its client is gone
		if err := commitAll(l); err != nil || committed(l) != 7 {
			t.Errorf("committed %d, %v", committed(l), err)
		}
		end(l, begin(l, 3, "", join), "", 7, true) // nothing new
		if err := commitAll(l); err != nil || committed(l) != 7 {
			t.Errorf("committed %d, %v", committed(l), err)
		}
	})
	t.Run("with a request id", func(t *testing.T) {
		l := newLab(t)
		l.topics.set("t", 1)
		l.must(&Call{Create: &Create{Name: "m", Options: labOptions()}})
		l.must(&Call{Subscribe: &Subscribe{Instance: "m", Topics: []string{"t"}}})
		end(l, begin(l, 1, "x1", nil), "x1", 3, true)
		end(l, begin(l, 2, "x2", nil), "x2", 7, true)
		end(l, begin(l, 3, "x1", nil), "", 3, false) // late
		for id := range byte(2) {
			st := begin(l, 4+id, "x2", nil)
			if len(st.Repeat) != 1 || st.Repeat[0] != 7 {
				t.Fatalf("the newest answer isn't repeated: %+v", st)
			}
			l.must(&Call{End: &End{Instance: "m", Token: st.Token, Written: true, To: st.Positions}})
		}
	})
	t.Run("after the coordinator's death", func(t *testing.T) {
		l := newLab(t)
		l.topics.set("t", 1)
		l.must(&Call{Create: &Create{Name: "m", Options: labOptions()}})
		l.must(&Call{Subscribe: &Subscribe{Instance: "m", Topics: []string{"t"}}})
		end(l, begin(l, 1, "", nil), "", 7, true)
		l.crash()
		end(l, begin(l, 2, "", nil), "", 7, false) // late
		if err := commitAll(l); !errors.As(err, new(*PositionsLostError)) {
			t.Errorf("what was delivered can't be known: %v", err)
		}
		end(l, begin(l, 3, "", nil), "", 7, true)
		if err := commitAll(l); err != nil || committed(l) != 7 {
			t.Errorf("committed %d, %v", committed(l), err)
		}
	})
}

// A commit of all that is held up on its way, while its client has given it up and polls
// on, commits nothing of what the client was given since (V13).
func TestLateCommitOfAll(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	info, _ := l.topics.Topic("t")
	l.must(&Call{Create: &Create{Name: "m", Options: labOptions()}})
	l.must(&Call{Subscribe: &Subscribe{Instance: "m", Topics: []string{"t"}}})
	answered := func() *uint64 {
		return &l.must(&Call{Member: &MemberQuery{Instance: "m", Answered: true}}).Member.Answered
	}
	poll := func(id byte, to int64) {
		st := l.must(&Call{ID: uuid.UUID{1, 15: id}, Begin: &Begin{Instance: "m"}}).Poll
		if _, err := l.do(&Call{Member: &MemberQuery{Instance: "m", Answered: true}}); !errors.As(err, new(*PollRunningError)) {
			t.Errorf("asked for the last answer during a poll: %v", err)
		}
		l.must(&Call{End: &End{Instance: "m", Token: st.Token, Written: true, To: []Position{{
			TopicPartition: TopicPartition{Topic: "t", TopicID: info.ID}, Offset: to, LeaderEpoch: -1}}}})
	}
	poll(1, 3)
	first := answered()
	poll(2, 7)
	if _, err := l.do(&Call{Commit: &Commit{Instance: "m", All: true, Answered: first}}); !errors.As(err, new(*PositionsLostError)) {
		t.Errorf("a commit of the answer before: %v", err)
	}
	l.must(&Call{Commit: &Commit{Instance: "m", All: true, Answered: answered()}})
	if got := l.must(&Call{Committed: &Committed{}}).Offsets; len(got) != 1 || got[0].Offset != 7 {
		t.Errorf("committed %v", got)
	}
}

// The End of a poll is lost with the broker that read for it; its client, which has the
// answer, commits it through another one, at once or when the poll is over. It reads on
// behind the commit (V8), and a commit of all doesn't take that back.
func TestLostEnd(t *testing.T) {
	pass := func(l *lab, _ string) { l.pass(pollLife) }
	to := func(offset int64) func(*lab, string) {
		return func(l *lab, a string) {
			if err := l.commit(a, l.at("t", 0, offset)); err != nil {
				l.t.Error(err)
			}
		}
	}
	seek := func(l *lab, a string) {
		l.must(&Call{Seek: &Seek{Instance: a, To: []Position{l.at("t", 0, 1)}}})
	}
	begin := func(l *lab, a string) { l.begin(a) }
	renew := func(l *lab, a string) { l.must(&Call{Begin: &Begin{Instance: a, Token: l.s.members[a].poll.token}}) }
	repeat := func(l *lab, a string) { l.must(&Call{Begin: &Begin{Instance: a, RequestID: "x"}}) }
	for name, c := range map[string]struct {
		steps           []func(*lab, string)
		next, committed int64
	}{
		"committed at once":           {[]func(*lab, string){begin, to(7), pass}, 7, 7},
		"committed afterwards":        {[]func(*lab, string){begin, pass, begin, pass, to(7)}, 7, 7},
		"no more than was known":      {[]func(*lab, string){begin, pass, to(2)}, 3, 3},
		"sought during the poll":      {[]func(*lab, string){begin, seek, to(7), pass}, 1, 7},
		"sought and renewed":          {[]func(*lab, string){begin, to(7), seek, renew, pass}, 1, 7},
		"sought afterwards":           {[]func(*lab, string){begin, pass, seek, to(7)}, 1, 7},
		"a part of a repeated answer": {[]func(*lab, string){repeat, to(2), pass}, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.topics.set("t", 1)
			a := l.create("m", labOptions(), "t")
			st := l.must(&Call{Begin: &Begin{Instance: a, RequestID: "x"}}).Poll
			l.must(&Call{Deliver: &Deliver{Instance: a, Token: st.Token, From: []Position{l.at("t", 0, 0)}, To: []Position{l.at("t", 0, 3)}}})
			l.end(st, 3)
			for _, step := range c.steps {
				step(l, a)
			}
			if st = l.poll(a, 0); st.Positions[0].Offset != c.next {
				t.Errorf("reads on at %v, want %d", st.Positions, c.next)
			}
			if err := l.commit(a); err != nil || l.committed("t", 0) != c.committed {
				t.Errorf("committed %d, want %d: %v", l.committed("t", 0), c.committed, err)
			}
		})
	}
}
