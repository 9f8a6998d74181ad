package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// resets are the values of Options.Reset by their code in a record; read only.
var resets = [...]string{ResetEarliest, ResetLatest, ResetNone}

// RecordError: a record of __consumer_offsets that this version of the program can't
// read.
type RecordError struct{ Reason string }

func (e *RecordError) Error() string { return "group: unreadable record: " + e.Reason }

// encode gives a record's key and value; a nil value deletes.
func (r *record) encode() (key, value []byte) {
	switch {
	case r.meta != nil:
		value = r.meta.append([]byte{recordVersion})
	case r.member != nil:
		value = r.member.append([]byte{recordVersion})
	case r.offset != nil:
		value = r.offset.append([]byte{recordVersion})
	}
	return r.appendKey(nil), value
}

func (k *recordKey) appendKey(b []byte) []byte {
	b = append(b, recordVersion, byte(k.kind), byte(len(k.group)))
	b = append(b, k.group...)
	switch k.kind {
	case kindMember:
		b = append(b, byte(len(k.name)))
		b = append(b, k.name...)
	case kindOffset:
		b = append(b, k.part.topic[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(k.part.partition))
	}
	return b
}

func (v *groupValue) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(v.generation))
	return binary.BigEndian.AppendUint32(b, uint32(v.floor))
}

func (v *memberValue) append(b []byte) []byte {
	b = append(b, byte(v.status))
	b = binary.BigEndian.AppendUint32(b, uint32(v.incarnation))
	b = appendBool(b, v.numbered)
	b = append(b, v.call[:]...)
	b = binary.BigEndian.AppendUint64(b, v.index)
	if v.status != alive {
		b = binary.BigEndian.AppendUint64(b, uint64(v.at.UnixMilli()))
		return appendDuration(b, v.silent)
	}
	b = appendText(b, v.options.Format)
	b = append(b, resetCode(v.options.Reset))
	b = appendBool(b, v.options.AutoCommit)
	b = binary.BigEndian.AppendUint64(b, uint64(v.options.MinBytes))
	b = appendDuration(b, v.options.RequestTimeout)
	b = appendDuration(b, v.options.SessionTimeout)
	b = appendText(b, v.options.Isolation)
	b = binary.BigEndian.AppendUint32(b, uint32(v.epoch))
	b = appendBool(b, v.inherited)
	b = appendText(b, v.pattern)
	b = binary.BigEndian.AppendUint32(b, uint32(len(v.topics)))
	for _, name := range v.topics {
		b = appendText(b, name)
	}
	b = appendParts(b, len(v.assigned), func(i int) part { return v.assigned[i] }, nil)
	return appendParts(b, len(v.owned), func(i int) part { return v.owned[i].part },
		func(b []byte, i int) []byte { return binary.BigEndian.AppendUint32(b, uint32(v.owned[i].generation)) })
}

func (v *offsetValue) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(v.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(v.leaderEpoch))
	b = binary.BigEndian.AppendUint64(b, uint64(v.time.UnixMilli()))
	b = appendBool(b, v.initial)
	b = append(b, v.call[:]...)
	b = binary.BigEndian.AppendUint64(b, v.index)
	return appendText(b, v.metadata)
}

// appendParts writes n partitions, which are in order, topic by topic; more adds
// what follows a partition.
func appendParts(b []byte, n int, at func(int) part, more func([]byte, int) []byte) []byte {
	topics := 0
	head := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	for i := 0; i < n; {
		topic, count := at(i).topic, len(b)+len(uuid.UUID{})
		b = append(b, topic[:]...)
		b = binary.BigEndian.AppendUint32(b, 0)
		first := i
		for ; i < n && at(i).topic == topic; i++ {
			b = binary.BigEndian.AppendUint32(b, uint32(at(i).partition))
			if more != nil {
				b = more(b, i)
			}
		}
		binary.BigEndian.PutUint32(b[count:], uint32(i-first))
		topics++
	}
	binary.BigEndian.PutUint32(b[head:], uint32(topics))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendDuration(b []byte, d time.Duration) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(d.Milliseconds()))
}

func resetCode(reset string) byte {
	for i, r := range resets {
		if r == reset {
			return byte(i)
		}
	}
	return 0
}

// decodeRecord reads a record of __consumer_offsets; a nil value deletes. Errors:
// *RecordError.
func decodeRecord(key, value []byte) (record, error) {
	var r record
	d := decoder{b: key}
	r.recordKey = d.key()
	if err := d.end(); err != nil {
		return record{}, &RecordError{Reason: "key: " + err.Error()}
	}
	if value == nil {
		return r, nil
	}
	d = decoder{b: value}
	d.version()
	switch r.kind {
	case kindGroup:
		r.meta = &groupValue{generation: d.int32(0), floor: d.int32(0)}
	case kindMember:
		r.member = d.member()
	case kindOffset:
		r.offset = d.offset()
	}
	if err := d.end(); err != nil {
		return record{}, &RecordError{Reason: fmt.Sprintf("value of kind %d: %v", r.kind, err)}
	}
	return r, nil
}

// decoder reads from b; after the first failure it reads zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	return d.err
}

var errShort = errors.New("it is cut off")

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		if d.err == nil {
			d.err = errShort
		}
		d.b = nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

// int32 reads a number that isn't below least.
func (d *decoder) int32(least int32) int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	v := int32(binary.BigEndian.Uint32(b))
	if v < least {
		d.fail("%d is below %d", v, least)
	}
	return v
}

// int64 reads a number in [0, most].
func (d *decoder) int64(most int64) int64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	v := int64(binary.BigEndian.Uint64(b))
	if v < 0 || v > most {
		d.fail("%d is out of range", v)
	}
	return v
}

func (d *decoder) bool() bool {
	switch v := d.byte(); v {
	case 0:
		return false
	case 1:
		return true
	default:
		d.fail("%d is no bool", v)
		return false
	}
}

func (d *decoder) text(n int) string {
	b := d.take(n)
	if !utf8.Valid(b) {
		d.fail("text that isn't UTF-8")
	}
	return string(b)
}

func (d *decoder) text16() string {
	b := d.take(2)
	if b == nil {
		return ""
	}
	return d.text(int(binary.BigEndian.Uint16(b)))
}

func (d *decoder) uuid() (id uuid.UUID) {
	copy(id[:], d.take(len(id)))
	return id
}

// maxMillis keeps times and durations where Go's types hold them.
const maxMillis = int64(math.MaxInt64 / time.Millisecond)

func (d *decoder) time() time.Time { return time.UnixMilli(d.int64(maxMillis)).UTC() }

func (d *decoder) duration() time.Duration {
	return time.Duration(d.int64(maxMillis)) * time.Millisecond
}

func (d *decoder) version() {
	if v := d.byte(); v != recordVersion && d.err == nil {
		d.fail("version %d is unknown", v)
	}
}

func (d *decoder) key() (k recordKey) {
	d.version()
	k.kind = kind(d.byte())
	k.group = d.name()
	switch k.kind {
	case kindGroup:
	case kindMember:
		k.name = d.name()
	case kindOffset:
		k.part = part{topic: d.uuid(), partition: d.int32(0)}
	default:
		d.fail("kind %d is unknown", k.kind)
	}
	return k
}

func (d *decoder) name() string {
	s := d.text(int(d.byte()))
	if s == "" {
		d.fail("a name is empty")
	}
	return s
}

func (d *decoder) member() *memberValue {
	v := &memberValue{
		status: status(d.byte()), incarnation: d.int32(1), numbered: d.bool(),
		call: d.uuid(), index: uint64(d.int64(math.MaxInt64)),
	}
	switch v.status {
	case alive:
	case left, expired:
		v.at, v.silent = d.time(), d.duration()
		return v
	default:
		d.fail("status %d is unknown", v.status)
		return v
	}
	v.options = d.options()
	v.epoch = d.int32(0)
	v.inherited = d.bool()
	v.pattern = d.text16()
	for range d.count(2) {
		name := d.text16()
		if n := len(v.topics); n > 0 && v.topics[n-1] >= name {
			d.fail("topics are out of order")
			break
		}
		v.topics = append(v.topics, name)
	}
	d.parts(4, func(p part) { v.assigned = append(v.assigned, p) })
	d.parts(8, func(p part) { v.owned = append(v.owned, ownedPart{part: p, generation: d.int32(0)}) })
	return v
}

func (d *decoder) options() (o Options) {
	o.Format = d.text16()
	if code := d.byte(); int(code) < len(resets) {
		o.Reset = resets[code]
	} else {
		d.fail("reset %d is unknown", code)
	}
	o.AutoCommit = d.bool()
	o.MinBytes = int(d.int64(math.MaxInt32))
	o.RequestTimeout, o.SessionTimeout = d.duration(), d.duration()
	o.Isolation = d.text16()
	return o
}

func (d *decoder) offset() *offsetValue {
	return &offsetValue{
		offset: d.int64(math.MaxInt64), leaderEpoch: d.int32(-1), time: d.time(), initial: d.bool(),
		call: d.uuid(), index: uint64(d.int64(math.MaxInt64)), metadata: d.text16(),
	}
}

// count reads how many things of at least size bytes follow.
func (d *decoder) count(size int) int {
	n := int(d.int32(0))
	if n > len(d.b)/size {
		d.fail("%d things don't fit into %d bytes", n, len(d.b))
		return 0
	}
	return n
}

// parts reads partitions; each takes size bytes. They are in order, each once.
func (d *decoder) parts(size int, add func(part)) {
	last := part{partition: -1}
	for range d.count(len(uuid.UUID{}) + 4 + size) {
		topic := d.uuid()
		n := d.count(size)
		if n == 0 {
			d.fail("a topic without partitions")
		}
		if last.partition >= 0 && last.topic == topic {
			d.fail("a topic comes twice")
		}
		for range n {
			p := part{topic: topic, partition: d.int32(0)}
			if last.partition >= 0 && last.compare(p) >= 0 {
				d.fail("partitions are out of order")
			}
			if d.err != nil {
				return
			}
			last = p
			add(p)
		}
	}
}
