package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Limits of a group, so that none takes the coordinator's memory.
const (
	maxMembers    = 1_000  // alive
	maxGone       = 1_000  // that left or expired, and are remembered
	maxPartitions = 10_000 // that one subscription or assignment may come to
	maxOffsets    = 50_000 // committed
	maxMetadata   = 4_096  // bytes of a committed offset's metadata
	maxName       = 255    // bytes of a group's or member's name
	maxTopics     = 1_000  // names in a subscription
	maxPattern    = 1_000  // bytes
)

const (
	// pollLife is how long a poll lives after its front's last beat.
	pollLife = 3 * time.Second
	// endWait is how long a call that got *PollRunningError waits for the running
	// poll's End, which may be on its way behind an answer that the client has.
	endWait = 500 * time.Millisecond
)

var (
	// errWait: the member owns nothing yet. The same call is to be made again when
	// anything of the group has changed; when its time is over with WaitMs 0, or an
	// End with its token (callToken).
	errWait = errors.New("group: nothing to own yet")
	// errBehind: the metadata is older than what the group or the call was told. The
	// same call is to be made again with newer metadata.
	errBehind = errors.New("group: metadata is behind")
)

// mutation switches one rule off, so that tests can show that the model notices.
// Production code never sets one.
type mutation byte

const (
	noOwnerCheck   mutation = 1 << iota // a commit may come from anybody
	noIncarnation                       // a fenced incarnation goes on
	noRelease                           // a partition is granted while another owns it
	noInitial                           // what ResetLatest found is forgotten
	noCommitAtNext                      // auto-commit commits when the answer is written
	noEpochOfGrant                      // a commit may be for a grant that the member hasn't seen
)

func (m mutation) has(one mutation) bool { return m&one != 0 }

// state is one group: what lasts of it, which changes by records only, and what is
// soft. It knows no clock, lock or goroutine.
type state struct {
	group    string
	mutation mutation

	// What lasts.
	meta    *groupValue // nil: the group is nothing
	members map[string]*member
	gone    map[string]*memberValue
	offsets map[part]*offsetValue

	// What follows from it.
	owners map[part]*member
	index  uint64 // of the newest metadata that any of it rests on, or that was seen

	// Soft.
	live   bool            // it has left replay
	due    time.Time       // not after the first deadline of a member; zero: none
	target map[part]string // who is to own what; nil: not known yet
	// shape of the topics that target was made for, if shaped.
	shape  uint64
	shaped bool
	// staleTarget: members or topics changed. unsettled: partitions may be free, or
	// with an owner that they are to leave.
	staleTarget, unsettled bool
	out                    []record // of the call under way
}

// member is one that is alive.
type member struct {
	name string
	v    *memberValue // what lasts; never written to

	owned    map[part]int32 // v.owned: the generation of each grant
	assigned map[part]bool  // v.assigned

	// heard is when a request of it came last.
	heard time.Time
	// positions are where it reads on, delivered the ends of what its answers held
	// and no commit of all has committed.
	positions, delivered map[part]place
	poll                 *poll
	last                 *delivery
	// lost: what it was delivered isn't known, since its last poll went with another
	// coordinator or without an End; and none has been answered since.
	lost bool
	// unended is the last poll, if it was lost here and none has begun since.
	unended *poll
	// answer is the token of the poll that gave it its last answer.
	answer uint64
	// revoking is how many of its partitions are to go to others.
	revoking int
}

// place is where to read in a partition.
type place struct {
	offset      int64 // -1: unknown
	leaderEpoch int32 // of the record before; -1: unknown
}

func newState(group string) *state {
	return &state{
		group: group, members: map[string]*member{}, gone: map[string]*memberValue{},
		offsets: map[part]*offsetValue{}, owners: map[part]*member{}, staleTarget: true,
	}
}

// apply takes a record of the log. It is the only thing that changes what lasts.
// Records may come more than once and, of one key, each but the last may be missing.
func (s *state) apply(rec record) error {
	if rec.group != s.group {
		return fmt.Errorf("group: a record of group %s for group %s", rec.group, s.group)
	}
	switch rec.kind {
	case kindGroup:
		s.meta = rec.meta
	case kindMember:
		s.applyMember(rec.name, rec.member)
	case kindOffset:
		if rec.offset == nil {
			delete(s.offsets, rec.part)
			break
		}
		s.offsets[rec.part] = rec.offset
		s.index = max(s.index, rec.offset.index)
	}
	return nil
}

func (s *state) applyMember(name string, v *memberValue) {
	if v != nil {
		s.index = max(s.index, v.index)
	}
	old := s.members[name]
	delete(s.gone, name)
	if v == nil || v.status != alive {
		if v != nil {
			s.gone[name] = v
		}
		if old != nil {
			delete(s.members, name)
			s.own(old, nil)
			s.staleTarget = true
		}
		return
	}
	m := old
	switch {
	case old == nil:
		m = &member{name: name}
		s.members[name] = m
		s.staleTarget = true
	case old.v.incarnation != v.incarnation:
		m = &member{name: name} // all that was soft was the former one's
		s.members[name] = m
		s.own(old, nil)
	case !old.v.sameSubscription(v):
		s.staleTarget = true
	}
	if m.v == nil || !slices.Equal(m.v.owned, v.owned) {
		s.own(m, v.owned)
	}
	m.v = v
	m.assigned = nil
	if len(v.assigned) > 0 {
		m.assigned = make(map[part]bool, len(v.assigned))
		for _, p := range v.assigned {
			m.assigned[p] = true
		}
	}
	m.forget()
}

// own makes owned all that m owns.
func (s *state) own(m *member, owned []ownedPart) {
	for p := range m.owned {
		if s.owners[p] == m {
			delete(s.owners, p)
		}
	}
	m.owned = nil
	if len(owned) > 0 {
		m.owned = make(map[part]int32, len(owned))
	}
	for _, o := range owned {
		m.owned[o.part] = o.generation
		s.owners[o.part] = m
	}
	s.unsettled = true
}

// forget drops what is soft of partitions that the member no longer reads.
func (m *member) forget() {
	for p := range m.positions {
		if !m.reads(p) {
			delete(m.positions, p)
		}
	}
	for p := range m.delivered {
		if !m.reads(p) {
			delete(m.delivered, p)
		}
	}
	if m.last == nil {
		return
	}
	for p := range m.last.to {
		if !m.reads(p) {
			delete(m.last.from, p)
			delete(m.last.to, p)
		}
	}
}

// reads tells whether the member reads a partition: it owns it, or assigned it to
// itself.
func (m *member) reads(p part) bool {
	_, owns := m.owned[p]
	return owns || m.assigned[p]
}

// put makes a record and applies it.
func (s *state) put(rec record) {
	rec.group = s.group
	_ = s.apply(rec) // it is this group's
	s.out = append(s.out, rec)
}

func (s *state) putMember(name string, v *memberValue) {
	s.put(record{recordKey: recordKey{kind: kindMember, name: name}, member: v})
}

func (s *state) putOffset(p part, v *offsetValue) {
	s.put(record{recordKey: recordKey{kind: kindOffset, part: p}, offset: v})
}

func (s *state) putMeta(v *groupValue) {
	s.put(record{recordKey: recordKey{kind: kindGroup}, meta: v})
}

// found makes the group something.
func (s *state) found() {
	if s.meta == nil {
		s.putMeta(&groupValue{})
	}
}

func (s *state) generation() int32 {
	if s.meta == nil {
		return 0
	}
	return s.meta.generation
}

// take gives the records of the call under way, of each key only the newest.
func (s *state) take() []record {
	out := s.out
	s.out = nil
	if len(out) < 2 {
		return out
	}
	last := make(map[recordKey]int, len(out))
	for i, rec := range out {
		last[rec.recordKey] = i
	}
	if len(last) == len(out) {
		return out
	}
	kept := make([]record, 0, len(last))
	for i, rec := range out {
		if last[rec.recordKey] == i {
			kept = append(kept, rec)
		}
	}
	return kept
}

// exists tells whether the group is anything: somebody joined it or committed for it.
func (s *state) exists() bool { return s.meta != nil }

// did tells whether a commit by this call is among the committed offsets.
func (s *state) did(call uuid.UUID) bool {
	if call == (uuid.UUID{}) {
		return false
	}
	for _, v := range s.offsets {
		if v.call == call && !v.initial {
			return true
		}
	}
	return false
}
