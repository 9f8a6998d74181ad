package group

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// What lasts of a group are records in its partition of __consumer_offsets: of each
// key only the newest counts, and a null value deletes, so that compaction keeps all
// that is needed. Numbers are big endian; text is a length and UTF-8; the partitions
// of a topic come together, in order.
//
//	key    | version 1 | kind 1 | group 1+n | then, by kind:
//	       group (1)   nothing
//	       member (2)  | name 1+n |
//	       offset (3)  | topic id 16 | partition 4 |
//
//	group  | version 1 | generation 4 | floor 4 |
//	member | version 1 | status 1 | incarnation 4 | numbered 1 | call id 16 | metadata 8 | then, by status:
//	       gone (1: left, 2: expired)
//	         | at 8 | silent 8 |
//	       alive (0)
//	         | options: format 2+n | reset 1 | auto-commit 1 | min bytes 8 | request timeout 8
//	         |          | session timeout 8 | isolation 2+n |
//	         | epoch 4 | inherited 1 | pattern 2+n | topics 4 × (name 2+n)
//	         | assigned 4 × (topic id 16 | partitions 4 × (partition 4))
//	         | owned    4 × (topic id 16 | partitions 4 × (partition 4 | generation 4))
//	offset | version 1 | offset 8 | leader epoch 4 | time 8 | initial 1 | call id 16 | metadata index 8 | metadata 2+n |
//
// Times are milliseconds since 1970, durations milliseconds.
const recordVersion = 1

// kind of a record.
type kind byte

const (
	kindGroup  kind = 1
	kindMember kind = 2
	kindOffset kind = 3
)

// recordKey says what a record is about.
type recordKey struct {
	kind  kind
	group string
	name  string // kindMember
	part  part   // kindOffset
}

// part is a partition, by topic id.
type part struct {
	topic     uuid.UUID
	partition int32
}

func (p part) compare(q part) int {
	if c := slices.Compare(p.topic[:], q.topic[:]); c != 0 {
		return c
	}
	return int(p.partition) - int(q.partition)
}

// record is a change of what lasts of a group. One of its values is set, that of the
// key's kind; none: what the key names is no more. The values are never changed.
type record struct {
	recordKey
	meta   *groupValue
	member *memberValue
	offset *offsetValue
}

// groupValue is a group as a whole.
type groupValue struct {
	generation int32
	// floor is the highest incarnation among the members that are forgotten: a name
	// that comes back gets a higher one.
	floor int32
}

// status of a member.
type status byte

const (
	alive   status = 0
	left    status = 1
	expired status = 2
)

// memberValue is a member: alive, or gone and not forgotten yet.
type memberValue struct {
	status      status
	incarnation int32
	// numbered: it was given its name with the incarnation (c1~2).
	numbered bool
	// call is the id of the call that made it, or had it leave.
	call uuid.UUID
	// index of the metadata that its topic ids came from. Who knows less than that
	// can't tell whether a topic is gone or not there yet.
	index uint64

	// at and silent are of one that is gone: when, and after how long a silence.
	at     time.Time
	silent time.Duration

	options Options
	// epoch is the generation in which it last learned what it owns: it can't commit
	// for a later grant, of which it doesn't know (G4, KIP-1251).
	epoch int32
	// inherited: subscription and assignments are those of the incarnation before.
	inherited bool
	pattern   string
	topics    []string // in order, each once
	assigned  []part   // in order, each once
	owned     []ownedPart
}

// ownedPart is a partition and the generation in which its owner got it.
type ownedPart struct {
	part
	generation int32
}

// offsetValue is where a group goes on in a partition.
type offsetValue struct {
	offset      int64
	leaderEpoch int32 // of the record before; -1: unknown
	time        time.Time
	// initial: found by ResetLatest and never committed.
	initial  bool
	call     uuid.UUID // that committed it
	index    uint64    // as memberValue.index
	metadata string
}
