package group

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// create makes a member that subscribes to topics.
func (l *lab) create(name string, options Options, topics ...string) string {
	l.t.Helper()
	instance := l.must(&Call{Create: &Create{Name: name, Options: options}}).Instance
	if len(topics) > 0 {
		l.must(&Call{Subscribe: &Subscribe{Instance: instance, Topics: topics}})
	}
	return instance
}

// takeOver makes the next incarnation of a member.
func (l *lab) takeOver(name string) string {
	l.t.Helper()
	return l.must(&Call{Create: &Create{Name: name, TakeOver: true, Options: labOptions()}}).Instance
}

func (l *lab) begin(instance string) *PollState {
	l.t.Helper()
	return l.must(&Call{Begin: &Begin{Instance: instance, Front: 1}}).Poll
}

// poll has a member poll, and get n records of each partition that it owns.
func (l *lab) poll(instance string, n int64) *PollState {
	l.t.Helper()
	state := l.begin(instance)
	l.end(state, n)
	return state
}

// end ends a poll with an answer that has n records of each partition.
func (l *lab) end(state *PollState, n int64) {
	l.t.Helper()
	var to []Position
	for i, at := range state.Positions {
		at.Offset = max(at.Offset, 0) + n
		if state.Repeat != nil {
			at.Offset = state.Repeat[i]
		}
		to = append(to, at)
	}
	l.must(&Call{End: &End{Instance: state.Instance, Token: state.Token, Written: true, To: to}})
}

func (l *lab) at(topic string, partition int32, offset int64) Position {
	t, _ := l.topics.Topic(topic)
	return Position{TopicPartition: TopicPartition{Topic: topic, TopicID: t.ID, Partition: partition}, Offset: offset, LeaderEpoch: -1}
}

func (l *lab) commit(instance string, at ...Position) error {
	l.t.Helper()
	call := &Call{Commit: &Commit{Instance: instance, All: len(at) == 0}}
	for _, p := range at {
		call.Commit.Offsets = append(call.Commit.Offsets, CommitOffset{Position: p})
	}
	_, err := l.do(call)
	return err
}

// committed is the committed offset of a partition, -1: none.
func (l *lab) committed(topic string, partition int32) int64 {
	l.t.Helper()
	answer, err := l.do(&Call{Committed: &Committed{Partitions: []TopicPartition{l.at(topic, partition, 0).TopicPartition}}})
	if err != nil || len(answer.Offsets) == 0 {
		return -1
	}
	return answer.Offsets[0].Offset
}

// owner is who owns a partition by Describe, "": nobody.
func (l *lab) owner(topic string, partition int32) string {
	l.t.Helper()
	for _, m := range l.must(&Call{Describe: &Describe{}}).Description.Members {
		for _, tp := range m.Assignments {
			if tp.Topic == topic && tp.Partition == partition && !m.Manual {
				return m.Instance
			}
		}
	}
	return ""
}

func (l *lab) offsets(state *PollState) map[string]int64 {
	all := map[string]int64{}
	for _, at := range state.Positions {
		all[at.Topic] = at.Offset
	}
	return all
}

// isError fails the test unless err is an E; it gives it.
func isError[E error](t *testing.T, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %T", err, e)
	}
	return e
}

func TestG3_CommitsOfFencedUnknownAndExpiredMembersChangeNothing(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	first, second := l.takeOver("c1"), l.takeOver("c1")
	if first != "c1~1" || second != "c1~2" {
		t.Fatalf("incarnations %s and %s", first, second)
	}
	l.must(&Call{Subscribe: &Subscribe{Instance: second, Topics: []string{"t"}}})
	fenced := isError[*FencedError](t, l.commit(first, l.at("t", 0, 5)))
	if fenced.Newest != second {
		t.Errorf("fenced by %q", fenced.Newest)
	}
	isError[*UnknownInstanceError](t, l.commit("c1~3", l.at("t", 0, 5)))
	isError[*UnknownInstanceError](t, l.commit("c1~02", l.at("t", 0, 5)))
	isError[*UnknownInstanceError](t, l.commit("other", l.at("t", 0, 5)))
	isError[*ActiveError](t, l.commit("", l.at("t", 0, 5)))
	if got := l.committed("t", 0); got != -1 {
		t.Errorf("%d is committed", got)
	}
	for i, instance := range []string{second, "c1"} { // the plain name is the newest
		if err := l.commit(instance, l.at("t", 0, 5+int64(i))); err != nil {
			t.Errorf("%s: %v", instance, err)
		}
	}
	l.crash()
	isError[*FencedError](t, l.commit(first, l.at("t", 0, 1)))
	l.pass(11 * time.Second)
	if gone := isError[*UnknownInstanceError](t, l.commit(second, l.at("t", 0, 1))); gone.Expired != 11*time.Second {
		t.Errorf("expired after %v", gone.Expired)
	}
	isError[*FencedError](t, l.commit(first, l.at("t", 0, 1))) // still the older truth
	if err := l.commit("", l.at("t", 0, 2)); err != nil {      // now that nobody lives
		t.Error(err)
	}
	if got := l.committed("t", 0); got != 2 {
		t.Errorf("committed %d, want 2", got)
	}
}

func TestG4_OnlyTheOwnerOfAPartitionCommits(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	a := l.create("a", labOptions(), "t")
	l.poll(a, 5)
	b := l.create("b", labOptions(), "t")
	if err := l.commit(a, l.at("t", 0, 5), l.at("t", 1, 5)); err != nil {
		t.Fatalf("a generation that leaves a its partitions until it polls: %v", err)
	}
	l.poll(a, 5)
	mine, yours := int32(0), int32(1)
	if l.owner("t", 0) == b {
		mine, yours = 1, 0
	}
	if l.owner("t", yours) != b || l.owner("t", mine) != a {
		t.Fatalf("owners %s and %s", l.owner("t", 0), l.owner("t", 1))
	}
	fenced := isError[*FencedError](t, l.commit(a, l.at("t", mine, 10), l.at("t", yours, 10)))
	if fenced.Partition == nil || fenced.Partition.Partition != yours || fenced.Generation != l.s.generation() {
		t.Errorf("fenced: %+v", fenced)
	}
	if l.committed("t", mine) != 5 || l.committed("t", yours) != 5 {
		t.Error("a refused entry didn't refuse the whole call")
	}
	if err := l.commit(a, l.at("t", mine, 10)); err != nil {
		t.Error(err)
	}
	isError[*FencedError](t, l.commit(b, l.at("t", mine, 11)))
}

// Who doesn't know that a partition is its again commits for its former life (KIP-1251).
func TestG4_AGrantThatTheMemberHasNotSeenTakesNoCommit(t *testing.T) {
	for _, crash := range []bool{false, true} {
		l := newLab(t)
		l.topics.set("t", 1)
		a := l.create("a", labOptions(), "t")
		l.poll(a, 5)
		l.topics.delete("t")
		l.topics.set("t", 1)
		l.tick()
		if l.owner("t", 0) != a {
			t.Fatal("the new topic has no owner")
		}
		if crash {
			l.crash()
		}
		isError[*FencedError](t, l.commit(a, l.at("t", 0, 5)))
		l.poll(a, 2)
		if err := l.commit(a, l.at("t", 0, 2)); err != nil {
			t.Error(err)
		}
	}
}

func TestG5_CommittedOffsetsKeepWhatTheyWereGiven(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	at := l.at("t", 0, 9)
	at.LeaderEpoch = 3
	l.must(&Call{Commit: &Commit{Instance: a, Offsets: []CommitOffset{{Position: at, Metadata: "mark"}}}})
	when := l.now
	l.pass(time.Second)
	l.crash()
	got := l.must(&Call{Committed: &Committed{Instance: a}}).Offsets
	if len(got) != 1 || got[0].Position != at || got[0].Metadata != "mark" || !got[0].Time.Equal(when) {
		t.Errorf("committed: %+v", got)
	}
	if err := l.commit(a, l.at("t", 0, 4)); err != nil || l.committed("t", 0) != 4 {
		t.Errorf("a commit can't go back: %v", err)
	}
	isError[*InvalidError](t, l.commit(a, l.at("t", 0, -1)))
	_, err := l.do(&Call{Commit: &Commit{Instance: a, Offsets: []CommitOffset{{Position: at}, {Position: at, Metadata: strings.Repeat("x", maxMetadata+1)}}}})
	isError[*TooManyError](t, err)
	if l.committed("t", 0) != 4 {
		t.Error("a refused entry didn't refuse the whole call")
	}
}

func TestG7_OffsetsGoWithTheirTopic(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	l.topics.set("u", 1)
	a := l.create("a", labOptions(), "t", "u")
	l.poll(a, 5)
	if err := l.commit(a); err != nil {
		t.Fatal(err)
	}
	old := l.at("t", 0, 9)
	l.topics.delete("t")
	l.topics.set("t", 1)
	l.tick()
	if l.committed("t", 0) != -1 || l.committed("u", 0) != 5 {
		t.Errorf("committed: %d, %d", l.committed("t", 0), l.committed("u", 0))
	}
	if err := l.commit(a, old, l.at("u", 0, 6)); err != nil {
		t.Errorf("a topic that is gone holds up the others: %v", err)
	}
	if l.committed("t", 0) != -1 || l.committed("u", 0) != 6 {
		t.Error("the old topic's commit went to the new one")
	}
	if got := l.offsets(l.begin(a)); got["t"] != -1 || got["u"] != 5 {
		t.Errorf("positions %v", got)
	}
}

// Metadata that is older than what was recorded says nothing about what isn't in it.
func TestG7_OldMetadataDropsNothing(t *testing.T) {
	l := newLab(t)
	old := *l.topics
	old.byName = map[string]TopicInfo{}
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	if err := l.commit(a, l.at("t", 0, 5)); err != nil {
		t.Fatal(err)
	}
	s := l.replay(true)
	if records := s.tick(l.now, &old); len(records) > 0 || len(s.offsets) != 1 || len(s.owners) != 1 {
		t.Fatalf("old metadata: %d records, %d offsets", len(records), len(s.offsets))
	}
	_, records, err := s.do(l.now, &old, &Call{Group: "g", Member: &MemberQuery{Instance: a}})
	if !errors.Is(err, errBehind) || len(records) > 0 {
		t.Errorf("old metadata: %v", err)
	}
	if _, _, err := l.s.do(l.now, l.topics, &Call{Group: "g", Metadata: l.topics.index + 1, Describe: &Describe{}}); !errors.Is(err, errBehind) {
		t.Errorf("metadata older than the front's: %v", err)
	}
}

func TestF61_AZombieCommitsNothing(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 4)
	zombie, b := l.create("a", labOptions(), "t"), l.create("b", labOptions(), "t")
	for range 2 {
		l.poll(zombie, 3)
		l.poll(b, 3)
	}
	l.pass(6 * time.Second)
	l.poll(b, 3)
	l.pass(6 * time.Second) // the zombie has been silent for 12 s
	state := l.poll(b, 3)
	if len(state.Positions) != 4 {
		t.Fatalf("b has %d partitions", len(state.Positions))
	}
	for _, at := range state.Positions {
		at.Offset = 99
		isError[*UnknownInstanceError](t, l.commit(zombie, at))
		if l.committed("t", at.Partition) != -1 {
			t.Error("the zombie's commit counts")
		}
	}
	isError[*UnknownInstanceError](t, l.commit(zombie))
}

func TestH34_OnlyCommitsCommit(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	l.poll(a, 10)
	l.poll(a, 10)
	if got := l.committed("t", 0); got != -1 {
		t.Fatalf("%d is committed without a commit", got)
	}
	l.must(&Call{Leave: &Leave{Instance: a}})
	a = l.create("a", labOptions(), "t")
	if got := l.poll(a, 10).Positions[0].Offset; got != -1 {
		t.Errorf("begins at %d", got)
	}
	if err := l.commit(a, l.at("t", 0, 3)); err != nil {
		t.Fatal(err)
	}
	l.must(&Call{Leave: &Leave{Instance: a}})
	a = l.create("a", labOptions(), "t")
	if got := l.poll(a, 10).Positions[0].Offset; got != 3 {
		t.Errorf("begins at %d after a commit of 3", got)
	}
}

func TestAutoCommitIsOfTheAnswerBefore(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	options := labOptions()
	options.AutoCommit = true
	a := l.create("a", options, "t")
	l.poll(a, 10)
	if got := l.committed("t", 0); got != -1 {
		t.Fatalf("%d is committed before the next poll", got)
	}
	state := l.begin(a)
	if got := l.committed("t", 0); got != 10 {
		t.Errorf("committed %d at the next poll, want 10", got)
	}
	// The second answer breaks off: nothing of it counts.
	at := state.Positions[0]
	at.Offset += 10
	l.must(&Call{End: &End{Instance: a, Token: state.Token, To: []Position{at}}})
	if got := l.begin(a).Positions[0].Offset; got != 10 || l.committed("t", 0) != 10 {
		t.Errorf("goes on at %d, committed %d", got, l.committed("t", 0))
	}
}

func TestCommitOfAllIsOfWhatWasDelivered(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	if err := l.commit(a); err != nil || l.committed("t", 0) != -1 {
		t.Errorf("nothing was delivered: %v, %d", err, l.committed("t", 0))
	}
	l.poll(a, 10)
	state := l.begin(a)
	isError[*PollRunningError](t, l.commit(a))
	l.end(state, 5)
	if err := l.commit(a); err != nil || l.committed("t", 0) != 15 {
		t.Errorf("committed %d: %v", l.committed("t", 0), err)
	}
	l.poll(a, 5)
	l.crash()
	isError[*PositionsLostError](t, l.commit(a))
	if got := l.poll(a, 2).Positions[0].Offset; got != 15 {
		t.Errorf("after a crash it goes on at %d", got)
	}
	if err := l.commit(a); err != nil || l.committed("t", 0) != 17 {
		t.Errorf("committed %d: %v", l.committed("t", 0), err)
	}
}

// A call whose answer was lost is sent again, and has the same answer, whatever has
// happened since.
func TestCallsThatAreSentAgain(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	create := &Call{ID: uuid.New(), Create: &Create{Options: labOptions()}}
	a := l.must(create).Instance
	l.crash()
	if again := l.must(create).Instance; again != a || len(l.s.members) != 1 {
		t.Errorf("made %s, then %s", a, again)
	}
	l.must(&Call{Subscribe: &Subscribe{Instance: a, Topics: []string{"t"}}})
	commit := &Call{ID: uuid.New(), Commit: &Commit{Instance: a, Offsets: []CommitOffset{{Position: l.at("t", 0, 5)}}}}
	l.must(commit)
	leave := &Call{ID: uuid.New(), Leave: &Leave{Instance: a}}
	l.must(leave)
	l.crash()
	l.must(leave)
	l.must(commit)
	isError[*UnknownInstanceError](t, l.commit(a, l.at("t", 0, 6)))
	if gone := isError[*UnknownInstanceError](t, l.commit(a)); !gone.Left || gone.Expired != 0 {
		t.Errorf("%+v", gone)
	}
}
