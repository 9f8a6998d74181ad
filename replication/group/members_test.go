package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestH32_SameNameInTwoGroups(t *testing.T) {
	// Groups share nothing: they are two states. An instance is known in its own only.
	one, two := newLab(t), newLab(t)
	one.topics.set("t", 1)
	two.topics = one.topics
	one.create("c1", labOptions(), "t")
	for _, call := range []*Call{
		{Subscribe: &Subscribe{Instance: "c1", Topics: []string{"t"}}}, {Begin: &Begin{Instance: "c1"}}, {Leave: &Leave{Instance: "c1"}},
		{Commit: &Commit{Instance: "c1", All: true}}, {Member: &MemberQuery{Instance: "c1"}}, {Committed: &Committed{Instance: "c1"}},
		{Seek: &Seek{Instance: "c1"}}, {Assign: &Assign{Instance: "c1"}}, {End: &End{Instance: "c1"}}, {Deliver: &Deliver{Instance: "c1"}},
	} {
		_, err := two.do(call)
		if unknown := isError[*UnknownInstanceError](t, err); unknown.Left || unknown.Expired != 0 {
			t.Errorf("%+v", unknown)
		}
	}
	if two.s.exists() || len(two.log) > 0 {
		t.Error("calls to nobody made a group")
	}
	two.create("c1", labOptions(), "t")
	two.must(&Call{Leave: &Leave{Instance: "c1"}})
	if got := one.begin("c1"); len(got.Positions) != 1 {
		t.Error("the other group's member lost its subscription")
	}
	if err := two.s.apply(record{recordKey: recordKey{kind: kindGroup, group: "other"}}); err == nil {
		t.Error("a group takes another's record")
	}
}

func TestH33_CreateTheSameInstanceTwice(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 1)
	a := l.create("c1", labOptions(), "t")
	other := labOptions()
	other.AutoCommit = true
	for range 20 {
		_, err := l.do(&Call{Create: &Create{Name: "c1", Options: other}})
		isError[*NameTakenError](t, err)
	}
	if state := l.poll(a, 1); state.Options.AutoCommit || len(state.Positions) != 1 {
		t.Errorf("the first is not what it was: %+v", state)
	}
	l.must(&Call{Leave: &Leave{Instance: a}})
	l.create("c1", labOptions())
	l.pass(11 * time.Second)
	l.tick()
	if again := l.create("c1", other); again != "c1" {
		t.Errorf("after expiry it is %s", again)
	}
	_, err := l.do(&Call{Member: &MemberQuery{Instance: "c1~2"}})
	isError[*FencedError](t, err)
	if got := l.must(&Call{Member: &MemberQuery{Instance: "c1~3"}}).Member; !got.Options.AutoCommit {
		t.Errorf("%+v", got)
	}
}

func TestNamesAndOptionsAreChecked(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"a b", "c1~2", "ü", ".", "..", strings.Repeat("x", 256), "a/b"} {
		_, err := l.do(&Call{Create: &Create{Name: name, Options: labOptions()}})
		isError[*InvalidError](t, err)
	}
	for _, o := range []Options{{}, {Reset: "sometimes", SessionTimeout: time.Second}, {Reset: ResetNone}, {Reset: ResetNone, SessionTimeout: time.Second, MinBytes: -1}} {
		_, err := l.do(&Call{Create: &Create{Options: o}})
		isError[*InvalidError](t, err)
	}
	_, err := l.do(&Call{})
	isError[*InvalidError](t, err)
	one, two := l.create("", labOptions()), l.create("", labOptions())
	if one == two || CheckName(one) != nil {
		t.Errorf("made-up names %s and %s", one, two)
	}
	for range maxMembers - 2 {
		l.s.members[fmt.Sprint("m", len(l.s.members))] = &member{v: &memberValue{options: labOptions()}, heard: l.now}
	}
	_, _, err = l.s.do(l.now, l.topics, &Call{Create: &Create{Options: labOptions()}})
	isError[*TooManyError](t, err)
}

func TestH38_MixedEmptyAndUnknown(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	a := l.create("a", labOptions())
	_, err := l.do(&Call{Begin: &Begin{Instance: a, WaitMs: 1000}})
	isError[*NotSubscribedError](t, err)

	subscribe := func(topics ...string) error {
		_, err := l.do(&Call{Subscribe: &Subscribe{Instance: a, Topics: topics}})
		return err
	}
	assign := func(partitions ...TopicPartition) error {
		_, err := l.do(&Call{Assign: &Assign{Instance: a, Partitions: partitions}})
		return err
	}
	if err := subscribe("t", "t"); err != nil {
		t.Fatal(err)
	}
	if got := l.poll(a, 0); len(got.Positions) != 2 {
		t.Errorf("twice the same topic: %+v", got.Positions)
	}
	isError[*MixedError](t, assign(l.at("t", 0, 0).TopicPartition))
	if err := subscribe(); err != nil {
		t.Fatal(err)
	}
	if l.owner("t", 0) != "" {
		t.Error("who unsubscribed still owns")
	}
	if err := assign(l.at("t", 1, 0).TopicPartition, l.at("t", 1, 0).TopicPartition); err != nil {
		t.Fatal(err)
	}
	isError[*MixedError](t, subscribe("t"))
	if info := l.must(&Call{Member: &MemberQuery{Instance: a}}).Member; !info.Manual || len(info.Assignments) != 1 {
		t.Errorf("%+v", info)
	}
	if err := assign(); err != nil {
		t.Fatal(err)
	}
	if err := subscribe("later"); err != nil {
		t.Fatalf("a topic that isn't there yet: %v", err)
	}
	_, err = l.do(&Call{ID: uuid.UUID{1}, Begin: &Begin{Instance: a, WaitMs: 1000}})
	if !errors.Is(err, errWait) {
		t.Errorf("nothing to own: %v", err)
	}
	l.topics.set("later", 1)
	l.tick()
	if got := l.must(&Call{ID: uuid.UUID{1}, Begin: &Begin{Instance: a, WaitMs: 1000}}).Poll; len(got.Positions) != 1 {
		t.Errorf("the topic is there: %+v", got)
	}
	_, err = l.do(&Call{Subscribe: &Subscribe{Instance: a, Topics: []string{"t"}, Pattern: "t"}})
	isError[*InvalidError](t, err)
	_, err = l.do(&Call{Subscribe: &Subscribe{Instance: a, Pattern: "("}})
	isError[*InvalidError](t, err)
	if err := subscribe("__consumer_offsets"); err == nil {
		t.Error("an internal topic")
	}
}

func TestH39_ASilentMemberIsRemoved(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 4)
	silent, b := l.create("a", labOptions(), "t"), l.create("b", labOptions(), "t")
	for range 2 {
		l.poll(silent, 3)
		l.poll(b, 3)
	}
	if err := l.commit(silent); err != nil {
		t.Fatal(err)
	}
	l.poll(silent, 3)
	last := l.now
	for range 3 { // b polls, waits and lives
		l.pass(4 * time.Second)
		state := l.begin(b)
		l.end(state, 0)
	}
	if due := l.s.next(); due.Before(last) {
		t.Errorf("the next tick is due at %v", due)
	}
	state := l.begin(b)
	if len(state.Positions) != 4 {
		t.Fatalf("the survivor has %d partitions", len(state.Positions))
	}
	for _, at := range state.Positions {
		if v := l.s.offsets[at.part()]; v != nil && v.offset != at.Offset {
			t.Errorf("%d: reads from %d, the dead one committed %d", at.Partition, at.Offset, v.offset)
		}
	}
	_, err := l.do(&Call{Begin: &Begin{Instance: silent}})
	if gone := isError[*UnknownInstanceError](t, err); gone.Expired != 12*time.Second || gone.Left {
		t.Errorf("%+v", gone)
	}
}

func TestNextIsWhenTickHasSomethingToDo(t *testing.T) {
	l := newLab(t)
	if !l.s.next().IsZero() {
		t.Error("an empty group has something to do")
	}
	l.topics.set("t", 1)
	a := l.create("a", labOptions(), "t")
	state := l.begin(a)
	for range 10 { // a poll with beats lives, and so does its member
		l.pass(2 * time.Second)
		if fate := l.s.beat(l.now, a, state.Token); fate != pollGoesOn {
			t.Fatalf("fate %d", fate)
		}
		l.tick()
	}
	l.pass(pollLife)
	if due := l.s.next(); due.After(l.now) {
		t.Errorf("the poll is over at %v, due is %v", l.now, due)
	}
	l.tick()
	if l.s.members[a] == nil || l.s.members[a].poll != nil {
		t.Fatal("the poll without beats isn't over, or its member is")
	}
	l.now = l.s.next().Add(-time.Millisecond)
	l.tick()
	if l.s.members[a] == nil {
		t.Fatal("expired too early")
	}
	l.pass(time.Millisecond)
	l.tick()
	if l.s.members[a] != nil {
		t.Error("not expired when due")
	}
	if !l.s.next().IsZero() {
		t.Error("nobody is left, but something is due")
	}
}

func TestTakeOverKeepsThePartitions(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 4)
	first, b := l.takeOver("c1"), l.create("b", labOptions(), "t")
	l.must(&Call{Subscribe: &Subscribe{Instance: first, Topics: []string{"t"}}})
	for range 2 {
		l.poll(first, 3)
		l.poll(b, 3)
	}
	open := l.begin(first)
	before := len(l.log)
	second := l.takeOver("c1")
	for _, kv := range l.log[before:] {
		if rec, _ := decodeRecord(kv[0], kv[1]); rec.kind == kindMember && rec.name == b {
			t.Error("partitions moved")
		}
	}
	if fate := l.s.beat(l.now, first, open.Token); fate != pollOver {
		t.Errorf("the former one's poll: %d", fate)
	}
	_, err := l.do(&Call{Begin: &Begin{Instance: first}})
	isError[*FencedError](t, err)
	l.must(&Call{Subscribe: &Subscribe{Instance: second, Topics: []string{"t"}}})
	if got := l.begin(second); len(got.Positions) != 2 || got.Positions[0].Offset != -1 {
		t.Errorf("the new one has %+v", got.Positions)
	}
	// What is inherited can be replaced by either kind.
	third := l.takeOver("c1")
	l.must(&Call{Assign: &Assign{Instance: third, Partitions: []TopicPartition{l.at("t", 0, 0).TopicPartition}}})
	l.tick()
	if l.owner("t", 0) != b || l.owner("t", 3) != b {
		t.Error("what it owned went to nobody")
	}
}

func TestGoneMembersAreBounded(t *testing.T) {
	l := newLab(t)
	l.takeOver("old")
	second := l.takeOver("old")
	l.must(&Call{Leave: &Leave{Instance: second}})
	for i := range maxGone {
		l.pass(time.Second)
		call := &Call{ID: uuid.New(), Create: &Create{Options: labOptions()}}
		answer, records, err := l.s.do(l.now, l.topics, call)
		if err != nil {
			t.Fatal(err)
		}
		l.append(records)
		_, records, err = l.s.do(l.now, l.topics, &Call{ID: uuid.New(), Leave: &Leave{Instance: answer.Instance}})
		if err != nil {
			t.Fatal(i, err)
		}
		l.append(records)
	}
	if len(l.s.gone) != maxGone || l.s.gone["old"] != nil {
		t.Fatalf("%d are remembered", len(l.s.gone))
	}
	l.crash()
	if again := l.takeOver("old"); again != "old~3" {
		t.Errorf("a name that was forgotten comes back as %s: an old incarnation would pass for it", again)
	}
	_, err := l.do(&Call{Member: &MemberQuery{Instance: second}})
	isError[*FencedError](t, err)
}

func TestPatternsFollowTheTopics(t *testing.T) {
	l := newLab(t)
	l.topics.set("logs.a", 1)
	l.topics.set("xlogs.a", 1)
	a := l.create("a", labOptions())
	l.must(&Call{Subscribe: &Subscribe{Instance: a, Pattern: `logs\..*`}})
	topics := func() []string {
		var all []string
		for _, tp := range l.must(&Call{Member: &MemberQuery{Instance: a}}).Member.Assignments {
			all = append(all, fmt.Sprint(tp.Topic, "-", tp.Partition))
		}
		return all
	}
	if got := topics(); !slices.Equal(got, []string{"logs.a-0"}) {
		t.Errorf("%v", got)
	}
	generation := l.s.generation()
	l.topics.set("other", 1)
	l.tick()
	if l.s.generation() != generation {
		t.Error("a topic that nobody reads made a generation")
	}
	l.topics.set("logs.b", 2)
	l.topics.set("logs.a", 2)
	l.tick()
	if got := topics(); !slices.Equal(got, []string{"logs.a-0", "logs.a-1", "logs.b-0", "logs.b-1"}) {
		t.Errorf("%v", got)
	}
	l.topics.delete("logs.a")
	l.tick()
	if got := topics(); !slices.Equal(got, []string{"logs.b-0", "logs.b-1"}) {
		t.Errorf("%v", got)
	}
	if l.s.generation() <= generation {
		t.Error("the generation stayed")
	}
}

func TestResetDescribeAndDelete(t *testing.T) {
	l := newLab(t)
	l.topics.set("t", 2)
	for _, call := range []*Call{{Describe: &Describe{}}, {DeleteGroup: &DeleteGroup{}}, {Committed: &Committed{}}} {
		_, err := l.do(call)
		isError[*UnknownGroupError](t, err)
	}
	a := l.create("a", labOptions(), "t")
	if err := l.commit(a, l.at("t", 0, 7)); err != nil {
		t.Fatal(err)
	}
	reset := &Reset{Offsets: []CommitOffset{{Position: l.at("t", 0, 3)}, {Position: l.at("t", 1, 4)}}}
	_, err := l.do(&Call{Reset: reset})
	isError[*ActiveError](t, err)
	_, err = l.do(&Call{DeleteGroup: &DeleteGroup{}})
	isError[*ActiveError](t, err)
	if d := l.must(&Call{Describe: &Describe{}}).Description; d.State != StateStable || len(d.Members) != 1 || len(d.Members[0].Assignments) != 2 {
		t.Errorf("%+v", d)
	}
	b := l.create("b", labOptions(), "t")
	if d := l.must(&Call{Describe: &Describe{}}).Description; d.State != StateReconciling {
		t.Errorf("%+v", d)
	}
	l.must(&Call{Leave: &Leave{Instance: a}})
	l.must(&Call{Leave: &Leave{Instance: b}})
	if d := l.must(&Call{Describe: &Describe{}}).Description; d.State != StateEmpty || len(d.Members) != 0 {
		t.Errorf("%+v", d)
	}
	for _, dry := range []bool{true, false} {
		reset.DryRun = dry
		from := l.must(&Call{Reset: reset}).Offsets
		if len(from) != 2 || from[0].Offset != 7 || from[1].Offset != -1 || from[1].Topic != "t" {
			t.Errorf("dry %v: from %+v", dry, from)
		}
		want := map[bool]int64{true: 7, false: 3}[dry]
		if got := l.committed("t", 0); got != want {
			t.Errorf("dry %v: committed %d", dry, got)
		}
	}
	l.must(&Call{DeleteGroup: &DeleteGroup{}})
	if s := l.replay(true); l.s.exists() || s.exists() || len(s.offsets)+len(s.gone)+len(s.members) > 0 {
		t.Error("something is left of the group")
	}
	if got := l.poll(l.create("a", labOptions(), "t"), 1); got.Positions[0].Offset != -1 {
		t.Errorf("the new group begins at %d", got.Positions[0].Offset)
	}
}
