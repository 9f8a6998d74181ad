package storage

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// Keys and values of the index file, big endian. Every log's keys stand
// together, its offset and time entries in their order:
//
//	bucket "store"    key                       value
//	  generation      "generation" 10           generation u64 8 | CRC32C 4
//	bucket "meta"
//	  log             topic 16 | partition 4    see appendMeta   | CRC32C 4
//	bucket "offset"
//	  entry           topic 16 | partition 4 |  offset - segment uvarint 1-10 |
//	                  offset 8                  position uvarint 1-10 | CRC32C 4
//	bucket "time"
//	  entry           topic 16 | partition 4 |  offset uvarint 1-10 | CRC32C 4
//	                  max timestamp 8
//	bucket "ids"
//	  run             class 1 | topic 16 |      a run of message ids, see dedupe.Run
//	                  partition 4 |             | CRC32C 4
//	                  first offset 8 |
//	                  next offset 8
//	bucket "producers"
//	  log             topic 16 | partition 4    dedupe's snapshot | CRC32C 4
//
// A timestamp's sign bit is flipped so that keys sort as the numbers do. The
// CRC32C covers the bucket's first letter, the key and the value before it: a
// flipped bit anywhere in an entry, or an entry in the wrong place, is found
// (F43) and the entry counts as missing.
const (
	logKeySize   = 16 + 4
	entryKeySize = logKeySize + 8
	checksumSize = 4
)

var (
	bucketStore  = []byte("store")
	bucketMeta   = []byte("meta")
	bucketOffset = []byte("offset")
	bucketTime   = []byte("time")
	// Since version 3 of the meta entry; a file without them gets them at open.
	bucketIDs       = []byte("ids")
	bucketProducers = []byte("producers")

	keyGeneration = []byte("generation")
)

// indexBuckets are the buckets of an index file.
func indexBuckets() [][]byte {
	return [][]byte{bucketStore, bucketMeta, bucketOffset, bucketTime, bucketIDs, bucketProducers}
}

// firstBuckets are those that every index file has had from the first version on.
func firstBuckets() [][]byte { return indexBuckets()[:4] }

// errEntryDamaged: an index value is not what was written under its key.
var errEntryDamaged = errors.New("storage: damaged index entry")

func appendLogKey(dst []byte, id PartitionID) []byte {
	dst = append(dst, id.Topic[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(id.Partition))
}

func appendOffsetKey(dst []byte, id PartitionID, offset int64) []byte {
	return binary.BigEndian.AppendUint64(appendLogKey(dst, id), uint64(offset))
}

func appendTimeKey(dst []byte, id PartitionID, ms int64) []byte {
	return binary.BigEndian.AppendUint64(appendLogKey(dst, id), uint64(ms)^(1<<63))
}

// checksum is what seal appends to a value.
func checksum(bucket, key, payload []byte) uint32 {
	c := crc32.Update(0, castagnoli, bucket[:1])
	c = crc32.Update(c, castagnoli, key)
	return crc32.Update(c, castagnoli, payload)
}

// seal appends the checksum to value, whose payload begins at from.
func seal(bucket, key, value []byte, from int) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(bucket, key, value[from:]))
}

// unseal checks the checksum and returns the payload.
func unseal(bucket, key, value []byte) ([]byte, error) {
	if len(value) < checksumSize {
		return nil, errEntryDamaged
	}
	payload := value[:len(value)-checksumSize]
	if binary.BigEndian.Uint32(value[len(payload):]) != checksum(bucket, key, payload) {
		return nil, errEntryDamaged
	}
	return payload, nil
}

func appendOffsetValue(dst, key []byte, e indexEntry) []byte {
	from := len(dst)
	dst = binary.AppendUvarint(dst, uint64(e.Offset-e.Segment))
	dst = binary.AppendUvarint(dst, uint64(e.Position))
	return seal(bucketOffset, key, dst, from)
}

func parseOffsetEntry(key, value []byte) (indexEntry, error) {
	payload, err := unseal(bucketOffset, key, value)
	if err != nil || len(key) != entryKeySize {
		return indexEntry{}, errEntryDamaged
	}
	f := fields{rest: payload}
	e := indexEntry{Offset: int64(binary.BigEndian.Uint64(key[logKeySize:]))}
	e.Segment = e.Offset - f.size()
	e.Position = f.size()
	if f.end() != nil || e.Segment < 0 {
		return indexEntry{}, errEntryDamaged
	}
	return e, nil
}

func appendTimeValue(dst, key []byte, e timeEntry) []byte {
	from := len(dst)
	dst = binary.AppendUvarint(dst, uint64(e.Offset))
	return seal(bucketTime, key, dst, from)
}

func parseTimeEntry(key, value []byte) (timeEntry, error) {
	payload, err := unseal(bucketTime, key, value)
	if err != nil || len(key) != entryKeySize {
		return timeEntry{}, errEntryDamaged
	}
	f := fields{rest: payload}
	e := timeEntry{MaxTimestamp: int64(binary.BigEndian.Uint64(key[logKeySize:]) ^ (1 << 63)), Offset: f.size()}
	if f.end() != nil {
		return timeEntry{}, errEntryDamaged
	}
	return e, nil
}

func appendGeneration(dst []byte, generation uint64) []byte {
	from := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, generation)
	return seal(bucketStore, keyGeneration, dst, from)
}

func parseGeneration(value []byte) (uint64, error) {
	payload, err := unseal(bucketStore, keyGeneration, value)
	if err != nil || len(payload) != 8 {
		return 0, errEntryDamaged
	}
	return binary.BigEndian.Uint64(payload), nil
}

const (
	metaVersion = 3
	// flags
	metaLossy     = 1
	metaResetting = 2
	metaRemembers = 4
)

// appendMeta encodes a log's meta:
//
//	version u8 1 (= 3) | flags u8 1 (bit 0: lossy, 1: resetting, 2: remembers)
//	start varint | flushed varint | high watermark varint
//	cleaned varint | horizon varint | covered varint | imported varint | sound varint
//	run count uvarint     | { class varint | first offset varint | next offset varint }*
//	epoch count uvarint   | { epoch varint | start offset varint }*
//	segment count uvarint | { base - previous base varint | size varint |
//	                          max timestamp varint | first append varint |
//	                          last append varint }*
//	damage count uvarint  | { from varint | to varint | segment varint | position varint |
//	                          bytes varint | copy's length uvarint | copy }*
//	CRC32C 4
func appendMeta(dst, key []byte, m *logMeta) []byte {
	from := len(dst)
	flags := byte(0)
	if m.Lossy {
		flags |= metaLossy
	}
	if m.Resetting {
		flags |= metaResetting
	}
	if m.Remembers {
		flags |= metaRemembers
	}
	dst = append(dst, metaVersion, flags)
	dst = appendVarints(dst, m.Start, m.Flushed, m.HighWatermark, m.Cleaned, m.Horizon, m.Covered, m.Imported, m.Sound)
	dst = binary.AppendUvarint(dst, uint64(len(m.Runs)))
	for _, k := range m.Runs {
		dst = appendVarints(dst, int64(k.class), k.first, k.next)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Epochs)))
	for _, e := range m.Epochs {
		dst = appendVarints(dst, int64(e.Epoch), e.StartOffset)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Segments)))
	previous := int64(0)
	for _, s := range m.Segments {
		dst = appendVarints(dst, s.Base-previous, s.Size, s.MaxTimestamp, s.FirstAppend, s.LastAppend)
		previous = s.Base
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Damage)))
	for _, d := range m.Damage {
		dst = appendVarints(dst, d.From, d.To, d.Segment, d.Position, d.Bytes)
		dst = binary.AppendUvarint(dst, uint64(len(d.Copy)))
		dst = append(dst, d.Copy...)
	}
	return seal(bucketMeta, key, dst, from)
}

func parseMeta(key, value []byte) (logMeta, error) {
	payload, err := unseal(bucketMeta, key, value)
	if err != nil || len(key) != logKeySize || len(payload) < 2 || payload[0] < 1 || payload[0] > metaVersion || payload[1]&^(metaLossy|metaResetting|metaRemembers) != 0 {
		return logMeta{}, errEntryDamaged
	}
	f := fields{rest: payload[2:]}
	m := logMeta{Lossy: payload[1]&metaLossy != 0, Resetting: payload[1]&metaResetting != 0, Remembers: payload[1]&metaRemembers != 0,
		Start: f.number(), Flushed: f.number(), HighWatermark: f.number()}
	if payload[0] > 1 {
		m.Cleaned, m.Horizon = f.number(), f.number()
	}
	m.Covered, m.Sound = m.Flushed, m.Flushed // who wrote the versions before marked no batch
	if payload[0] > 2 {
		m.Covered, m.Imported, m.Sound = f.number(), f.number(), f.number()
		if n := f.count(3); n > 0 {
			m.Runs = make([]runKey, n)
			for i := range m.Runs {
				m.Runs[i] = runKey{class: uint8(f.number()), first: f.number(), next: f.number()}
			}
		}
	}
	if n := f.count(2); n > 0 {
		m.Epochs = make([]EpochEntry, n)
		for i := range m.Epochs {
			m.Epochs[i] = EpochEntry{Epoch: f.number32(), StartOffset: f.number()}
		}
	}
	if n := f.count(5); n > 0 {
		m.Segments = make([]segmentMeta, n)
		base := int64(0)
		for i := range m.Segments {
			base += f.number()
			m.Segments[i] = segmentMeta{Base: base, Size: f.number(), MaxTimestamp: f.number(), FirstAppend: f.number(), LastAppend: f.number()}
		}
	}
	if n := f.count(6); n > 0 {
		m.Damage = make([]damage, n)
		for i := range m.Damage {
			m.Damage[i] = damage{From: f.number(), To: f.number(), Segment: f.number(), Position: f.number(), Bytes: f.number(), Copy: f.text()}
		}
	}
	return m, f.end()
}

func appendVarints(dst []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

// fields takes a value apart. After the first malformed field everything reads
// as zero and end reports it.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) number() int64 {
	v, n := binary.Varint(f.rest)
	f.took(n)
	return v
}

func (f *fields) number32() int32 {
	v := f.number()
	if v < math.MinInt32 || v > math.MaxInt32 {
		f.bad = true
	}
	return int32(v)
}

// size reads a number that can't be negative.
func (f *fields) size() int64 {
	v, n := binary.Uvarint(f.rest)
	f.took(n)
	if v > math.MaxInt64 {
		f.bad = true
		return 0
	}
	return int64(v)
}

// count reads how many items of at least itemSize bytes follow. One that can't
// be true must not size an allocation.
func (f *fields) count(itemSize int64) int64 {
	n := f.size()
	if n > int64(len(f.rest))/itemSize {
		f.bad = true
	}
	if f.bad {
		return 0
	}
	return n
}

func (f *fields) text() string {
	n := f.count(1)
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}

// took consumes what a varint decoder said it read: nothing or less is malformed.
func (f *fields) took(n int) {
	if n <= 0 || f.bad {
		f.bad, f.rest = true, nil
		return
	}
	f.rest = f.rest[n:]
}

func (f *fields) end() error {
	if f.bad || len(f.rest) != 0 {
		return errEntryDamaged
	}
	return nil
}
