package group

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// labTopics are topics that a test makes and deletes.
type labTopics struct {
	index, shape uint64
	byName       map[string]TopicInfo
}

func newLabTopics() *labTopics { return &labTopics{byName: map[string]TopicInfo{}} }

func (l *labTopics) set(name string, partitions int32) TopicInfo {
	t, ok := l.byName[name]
	l.index++
	l.shape++
	if !ok {
		t = TopicInfo{Name: name}
		copy(t.ID[:], fmt.Sprintf("%s#%d", name, l.index))
	}
	t.Partitions = partitions
	l.byName[name] = t
	return t
}

func (l *labTopics) delete(name string) {
	delete(l.byName, name)
	l.index++
	l.shape++
}

func (l *labTopics) Index() uint64 { return l.index }
func (l *labTopics) Shape() uint64 { return l.shape }

func (l *labTopics) Topic(name string) (TopicInfo, bool) {
	t, ok := l.byName[name]
	return t, ok
}

func (l *labTopics) TopicByID(id uuid.UUID) (TopicInfo, bool) {
	for _, t := range l.byName {
		if t.ID == id {
			return t, true
		}
	}
	return TopicInfo{}, false
}

func (l *labTopics) All() iter.Seq[TopicInfo] {
	return func(yield func(TopicInfo) bool) {
		for _, name := range slices.Sorted(maps.Keys(l.byName)) {
			if !yield(l.byName[name]) {
				return
			}
		}
	}
}

// lab is a group with its log, and a clock that a test moves.
type lab struct {
	t      *testing.T
	s      *state
	topics *labTopics
	now    time.Time
	log    [][2][]byte
	calls  byte
}

func newLab(t *testing.T) *lab {
	return &lab{t: t, s: newState("g"), topics: newLabTopics(), now: time.UnixMilli(1_700_000_000_000).UTC()}
}

// labOptions are those of the tests' members: a session of ten seconds.
func labOptions() Options {
	return Options{Reset: ResetEarliest, SessionTimeout: 10 * time.Second}
}

func (l *lab) append(records []record) {
	for _, rec := range records {
		key, value := rec.encode()
		l.log = append(l.log, [2][]byte{key, value})
	}
}

// do does a call and logs its records; the state is what a replay of the log would be.
func (l *lab) do(call *Call) (*Answer, error) {
	l.t.Helper()
	if call.ID == (uuid.UUID{}) {
		l.calls++
		call.ID = uuid.UUID{0xca, 15: l.calls}
	}
	call.Group = l.s.group
	answer, records, err := l.s.do(l.now, l.topics, call)
	l.append(records)
	sameLasting(l.t, l.s, l.replay(false))
	return answer, err
}

// must is do of a call that can't fail.
func (l *lab) must(call *Call) *Answer {
	l.t.Helper()
	answer, err := l.do(call)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer
}

func (l *lab) tick() {
	l.t.Helper()
	l.append(l.s.tick(l.now, l.topics))
	sameLasting(l.t, l.s, l.replay(false))
}

func (l *lab) pass(d time.Duration) { l.now = l.now.Add(d) }

// crash has another coordinator take over: what is soft is gone.
func (l *lab) crash() {
	l.t.Helper()
	compacted := l.replay(true)
	sameLasting(l.t, l.s, compacted)
	l.s = compacted
	l.tick()
}

// replay makes a state of the log; compacted: of each key only the last record, and
// none that deletes.
func (l *lab) replay(compacted bool) *state {
	l.t.Helper()
	return replay(l.t, l.s.group, l.log, compacted)
}

func replay(t *testing.T, group string, log [][2][]byte, compacted bool) *state {
	t.Helper()
	last := map[string]int{}
	for i, kv := range log {
		last[string(kv[0])] = i
	}
	s := newState(group)
	for i, kv := range log {
		if compacted && (last[string(kv[0])] != i || kv[1] == nil) {
			continue
		}
		rec, err := decodeRecord(kv[0], kv[1])
		if err == nil {
			err = s.apply(rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// lasting is all that lasts of a group, as records.
func lasting(s *state) map[string][]byte {
	all := map[string][]byte{}
	add := func(rec record) {
		rec.group = s.group
		key, value := rec.encode()
		all[string(key)] = value
	}
	if s.meta != nil {
		add(record{recordKey: recordKey{kind: kindGroup}, meta: s.meta})
	}
	for name, m := range s.members {
		add(record{recordKey: recordKey{kind: kindMember, name: name}, member: m.v})
	}
	for name, v := range s.gone {
		add(record{recordKey: recordKey{kind: kindMember, name: name}, member: v})
	}
	for p, v := range s.offsets {
		add(record{recordKey: recordKey{kind: kindOffset, part: p}, offset: v})
	}
	return all
}

func sameLasting(t *testing.T, live, replayed *state) {
	t.Helper()
	if a, b := lasting(live), lasting(replayed); !maps.EqualFunc(a, b, bytes.Equal) {
		t.Fatalf("live %x\nreplayed %x", a, b)
	}
	owners := func(s *state) map[part]string {
		all := map[part]string{}
		for p, m := range s.owners {
			all[p] = m.name
		}
		return all
	}
	if a, b := owners(live), owners(replayed); !maps.Equal(a, b) {
		t.Fatalf("owners: live %v, replayed %v", a, b)
	}
}
