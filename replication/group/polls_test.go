package group

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestH35_SeekOnWhatIsNotAssigned(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	l.topics.set("u", 1)
	seek := func(instance string, to ...Position) error {
		_, err := l.do(&Call{Seek: &Seek{Instance: instance, To: to}})
		return err
	}
	a := l.create("a", labOptions())
	if got := isError[*UnassignedError](t, seek(a, l.at("t", 0, 1))); got.Pending {
		t.Error("pending without a subscription")
	}
	l.must(&Call{Subscribe: &Subscribe{Instance: a, Topics: []string{"t"}}})
	if err := seek(a, l.at("t", 0, 4)); err != nil {
		t.Errorf("before the first poll: %v", err)
	}
	isError[*UnassignedError](t, seek(a, l.at("u", 0, 1)))
	isError[*UnassignedError](t, seek(a, l.at("t", 99, 1)))
	isError[*InvalidError](t, seek(a, l.at("t", 0, -1)))
	isError[*UnassignedError](t, seek(a, l.at("t", 1, 8), l.at("u", 0, 1)))
	isError[*InvalidError](t, seek(a, l.at("t", 1, 8), l.at("t", 0, -1)))
	state := l.poll(a, 1)
	if state.Positions[0].Offset != 4 || state.Positions[1].Offset != -1 {
		t.Errorf("positions %+v", state.Positions)
	}
	b := l.create("b", labOptions(), "t")
	if got := isError[*UnassignedError](t, seek(b, l.at("t", 0, 1))); !got.Pending {
		t.Error("not pending")
	}
	// What the poll under way answers doesn't undo a seek.
	state = l.begin(a)
	if err := seek(a, l.at("t", state.Positions[0].Partition, 2)); err != nil {
		t.Fatal(err)
	}
	if fate := l.s.beat(l.now, a, state.Token); fate != pollChanged {
		t.Errorf("fate of the poll: %d", fate)
	}
	l.end(state, 5)
	if got := l.begin(a).Positions[0].Offset; got != 2 {
		t.Errorf("goes on at %d", got)
	}
}

func TestH40_ACommitDoesNotMoveTheInstance(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	l.poll(a, 10)
	if err := l.commit(a, l.at("t", 0, 7)); err != nil {
		t.Fatal(err)
	}
	if got := l.poll(a, 0).Positions[0].Offset; got != 10 {
		t.Errorf("the instance goes on at %d", got)
	}
	b := l.create("b", labOptions(), "t")
	l.must(&Call{Leave: &Leave{Instance: a}})
	if got := l.poll(b, 10).Positions[0].Offset; got != 7 {
		t.Errorf("after the rebalance it is %d", got)
	}
}

func TestAPartitionMovesWhenItsOwnerPolls(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	a := l.create("a", labOptions(), "t")
	first := l.begin(a)
	b := l.create("b", labOptions(), "t")
	wait := &Call{ID: uuid.New(), Begin: &Begin{Instance: b, WaitMs: 5000}}
	_, err := l.do(wait)
	if !errors.Is(err, errWait) {
		t.Fatalf("b owns something: %v", err)
	}
	if fate := l.s.beat(l.now, a, first.Token); fate != pollChanged {
		t.Errorf("the waiting owner isn't told: %d", fate)
	}
	// a is waiting with nothing delivered, and gives one back.
	renewed := l.must(&Call{Begin: &Begin{Instance: a, Token: first.Token}}).Poll
	if len(renewed.Positions) != 1 || renewed.Token != first.Token || renewed.Generation != first.Generation+1 {
		t.Errorf("renewed: %+v", renewed)
	}
	if fate := l.s.beat(l.now, a, first.Token); fate != pollGoesOn {
		t.Errorf("still to renew: %d", fate)
	}
	if got := l.must(wait).Poll; len(got.Positions) != 1 || got.Positions[0].Partition == renewed.Positions[0].Partition {
		t.Errorf("b got %+v", got)
	}
}

func TestAPollThatDeliversKeepsItsPartitions(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	a := l.create("a", labOptions(), "t")
	state := l.must(&Call{Begin: &Begin{Instance: a, RequestID: "x"}}).Poll
	from := []Position{l.at("t", 0, 0), l.at("t", 1, 0)}
	to := []Position{l.at("t", 0, 3), l.at("t", 1, 0)}
	l.must(&Call{Deliver: &Deliver{Instance: a, Token: state.Token, From: from, To: to}})
	b := l.create("b", labOptions(), "t")
	if fate := l.s.beat(l.now, a, state.Token); fate != pollGoesOn {
		t.Errorf("a poll that delivers is told to renew")
	}
	l.must(&Call{End: &End{Instance: a, Token: state.Token}}) // the answer is lost
	for range 2 {                                             // and asked for again, twice
		again := l.must(&Call{Begin: &Begin{Instance: a, RequestID: "x"}}).Poll
		if len(again.Repeat) != 2 || again.Repeat[0] != 3 || again.Repeat[1] != 0 || again.Positions[0].Offset != 0 {
			t.Fatalf("repeated: %+v", again)
		}
		if l.owner("t", 0) != a || l.owner("t", 1) != a {
			t.Fatal("what is to be repeated moved away")
		}
		l.end(again, 0)
	}
	next := l.must(&Call{Begin: &Begin{Instance: a, RequestID: "y"}}).Poll
	if len(next.Positions) != 1 || next.Repeat != nil || l.s.generation() < 2 {
		t.Errorf("next: %+v", next)
	}
	if l.owner("t", 1-next.Positions[0].Partition) != b {
		t.Error("b has nothing")
	}
}

func TestARequestIDRepeatsAlsoWhatWasWritten(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	options := labOptions()
	options.AutoCommit = true
	a := l.create("a", options, "t")
	ask := func(id string) *PollState { return l.must(&Call{Begin: &Begin{Instance: a, RequestID: id}}).Poll }
	deliver := func(state *PollState, from, to int64) {
		l.must(&Call{Deliver: &Deliver{Instance: a, Token: state.Token, From: []Position{l.at("t", 0, from)}, To: []Position{l.at("t", 0, to)}}})
		l.must(&Call{End: &End{Instance: a, Token: state.Token, Written: true, To: []Position{l.at("t", 0, to)}}})
	}
	deliver(ask("x"), 0, 4)
	again := ask("x")
	if again.Positions[0].Offset != 0 || again.Repeat[0] != 4 || l.committed("t", 0) != -1 {
		t.Fatalf("%+v, committed %d", again, l.committed("t", 0))
	}
	// Its front falls silent; what goes on is still the same.
	l.pass(pollLife)
	l.tick()
	if fate := l.s.beat(l.now, a, again.Token); fate != pollChanged {
		t.Fatalf("fate %d", fate)
	}
	_, err := l.do(&Call{Deliver: &Deliver{Instance: a, Token: again.Token}})
	if !errors.Is(err, ErrPollOver) {
		t.Fatalf("a poll that is over delivers: %v", err)
	}
	again = l.must(&Call{Begin: &Begin{Instance: a, RequestID: "x", Token: again.Token}}).Poll
	if again.Positions[0].Offset != 0 || again.Repeat == nil || again.Repeat[0] != 4 {
		t.Fatalf("%+v", again)
	}
	deliver(again, 0, 4)
	if next := ask("y"); next.Positions[0].Offset != 4 || next.Repeat != nil || l.committed("t", 0) != 4 {
		t.Errorf("%+v, committed %d", next, l.committed("t", 0))
	}
}

func TestOnePollAtATime(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	call := &Call{ID: uuid.New(), Begin: &Begin{Instance: a}}
	state := l.must(call).Poll
	if again := l.must(call).Poll; again.Token != state.Token || state.Token != callToken(call) {
		t.Error("the same call began two polls")
	}
	_, err := l.do(&Call{Begin: &Begin{Instance: a}})
	isError[*PollRunningError](t, err)
	_, err = l.do(&Call{Begin: &Begin{Instance: a, Token: state.Token + 1}})
	if !errors.Is(err, ErrPollOver) {
		t.Errorf("another poll goes on beside it: %v", err)
	}
	l.pass(pollLife - time.Millisecond)
	_, err = l.do(&Call{Begin: &Begin{Instance: a}})
	isError[*PollRunningError](t, err)
	l.pass(time.Millisecond)
	isError[*PositionsLostError](t, l.commit(a))
	l.begin(a)
	l.must(&Call{End: &End{Instance: a, Token: state.Token, Written: true, To: []Position{l.at("t", 0, 9)}}})
	if l.s.members[a].poll == nil || l.s.members[a].positions != nil {
		t.Error("the End of a former poll counts")
	}
}

func TestPollsGoOnAcrossCoordinators(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	l.poll(a, 5)
	open := l.begin(a)
	if open.Positions[0].Offset != 5 {
		t.Fatal(open)
	}
	l.crash()
	if fate := l.s.beat(l.now, a, open.Token); fate != pollChanged {
		t.Fatalf("fate %d", fate)
	}
	renewed := l.must(&Call{Begin: &Begin{Instance: a, Token: open.Token}}).Poll
	if renewed.Token != open.Token || renewed.Positions[0].Offset != -1 {
		t.Errorf("renewed: %+v", renewed) // it falls back to the last commit
	}
	l.end(renewed, 3)
	if err := l.commit(a); err != nil || l.committed("t", 0) != 3 {
		t.Errorf("%v, committed %d", err, l.committed("t", 0))
	}
}

func TestWaitingForSomethingToOwnIsLife(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	b := l.create("b", labOptions(), "t")
	wait := &Call{ID: uuid.New(), Begin: &Begin{Instance: b, WaitMs: 60_000}}
	if _, err := l.do(wait); !errors.Is(err, errWait) {
		t.Fatal(err)
	}
	_, err := l.do(&Call{Begin: &Begin{Instance: b, WaitMs: 1}})
	isError[*PollRunningError](t, err)
	l.pass(30 * time.Second)
	l.tick() // a expires, b waits
	if got := l.must(wait).Poll; len(got.Positions) != 1 || l.s.members[a] != nil {
		t.Errorf("b got %+v", got)
	}
	c := l.create("c", labOptions(), "t")
	wait = &Call{ID: uuid.New(), Begin: &Begin{Instance: c, WaitMs: 5_000}}
	if _, err := l.do(wait); !errors.Is(err, errWait) {
		t.Fatal(err)
	}
	wait.Begin.WaitMs = 0
	if got := l.must(wait).Poll; len(got.Positions) != 0 {
		t.Errorf("c got %+v", got)
	}
	l.must(&Call{End: &End{Instance: c, Token: callToken(wait)}})
	if l.s.members[c].poll != nil {
		t.Error("the poll isn't over")
	}
}

// What was found at the end of the log is where everybody begins from then on; and it
// is no commit.
func TestWhatResetLatestFoundLasts(t *testing.T) {
	for _, byEnd := range []bool{false, true} {
		l := newLab(t)
		l.topics.set("t", 1)
		options := labOptions()
		options.Reset = ResetLatest
		a := l.create("a", options, "t")
		state := l.begin(a)
		if state.Positions[0].Offset != -1 {
			t.Fatal(state)
		}
		found := []Position{l.at("t", 0, 100)}
		if byEnd {
			l.must(&Call{End: &End{Instance: a, Token: state.Token, To: found}})
		} else {
			l.must(&Call{Deliver: &Deliver{Instance: a, Token: state.Token, From: found, To: found}})
			if fate := l.s.beat(l.now, a, state.Token); fate != pollGoesOn {
				t.Fatal(fate)
			}
		}
		l.crash()
		if got := l.begin(a).Positions[0].Offset; got != 100 {
			t.Errorf("begins at %d", got)
		}
		l.must(&Call{Leave: &Leave{Instance: a}})
		b := l.create("b", labOptions(), "t")
		if got := l.begin(b).Positions[0].Offset; got != 100 {
			t.Errorf("another begins at %d", got)
		}
		if got := l.committed("t", 0); got != -1 {
			t.Errorf("it shows as committed: %d", got)
		}
	}
}

func TestJoiningByPolling(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	l.topics.set("u", 1)
	options := labOptions()
	options.AutoCommit = true
	join := func(name string, topics ...string) (*PollState, error) {
		answer, err := l.do(&Call{Begin: &Begin{Instance: name, Join: &Join{Topics: topics, Options: options}}})
		if err != nil {
			return nil, err
		}
		return answer.Poll, nil
	}
	_, err := join("w")
	isError[*InvalidError](t, err)
	if l.s.exists() {
		t.Error("it joined all the same")
	}
	for range 3 { // the same records until a commit
		state, err := join("w", "t")
		if err != nil || len(state.Positions) != 1 || state.Positions[0].Offset != -1 || state.Instance != "w" {
			t.Fatalf("%+v: %v", state, err)
		}
		l.end(state, 5)
	}
	if err := l.commit("w"); err != nil || l.committed("t", 0) != 5 {
		t.Fatalf("%v, committed %d", err, l.committed("t", 0))
	}
	state, err := join("w", "t")
	if err != nil || state.Positions[0].Offset != 5 {
		t.Fatalf("%+v: %v", state, err)
	}
	l.end(state, 2)
	l.pass(11 * time.Second) // expired, it joins again
	state, err = join("w", "t", "u")
	if err != nil || len(state.Positions) != 2 || l.offsets(state)["t"] != 5 {
		t.Fatalf("%+v: %v", state, err)
	}
	l.end(state, 2)
	isError[*UnknownInstanceError](t, func() error { _, err := join("new~1", "t"); return err }())
	isError[*FencedError](t, func() error { _, err := join("w~1", "t"); return err }())
	made, err := join("", "u")
	if err != nil || CheckName(made.Instance) != nil {
		t.Errorf("%+v: %v", made, err)
	}
	l.must(&Call{Assign: &Assign{Instance: l.create("m", labOptions()), Partitions: []TopicPartition{l.at("t", 0, 0).TopicPartition}}})
	isError[*MixedError](t, func() error { _, err := join("m", "t"); return err }())
}

func TestManualAssignment(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	m := l.create("m", labOptions())
	l.must(&Call{Assign: &Assign{Instance: m, Partitions: []TopicPartition{l.at("t", 1, 0).TopicPartition}}})
	if got := l.poll(m, 4).Positions; len(got) != 1 || got[0].Partition != 1 {
		t.Fatalf("%+v", got)
	}
	if err := l.commit(m); err != nil || l.committed("t", 1) != 4 {
		t.Fatalf("%v, committed %d", err, l.committed("t", 1))
	}
	isError[*FencedError](t, l.commit(m, l.at("t", 0, 1)))
	a := l.create("a", labOptions(), "t") // owns both, whatever m reads
	if l.owner("t", 1) != a {
		t.Error("an assignment by hand keeps a partition from the group")
	}
	isError[*FencedError](t, l.commit(m, l.at("t", 1, 9)))
	l.poll(m, 4)
	isError[*FencedError](t, l.commit(m))
	if got := l.committed("t", 1); got != 4 {
		t.Errorf("what a owns was committed by m: %d", got)
	}
	l.topics.delete("t")
	l.topics.set("t", 2)
	l.tick()
	if got := l.must(&Call{Begin: &Begin{Instance: m}}).Poll; len(got.Positions) != 0 {
		t.Errorf("the new topic is taken for the old one: %+v", got)
	}
}
