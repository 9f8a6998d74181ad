package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage/vfs"
)

// TestF51_CompactionModel drives a compacted log over a file system that crashes at any
// operation, and compares what is there with a plain list of what was appended: the
// last record of each key is there unless it is a tombstone, nothing is there that
// wasn't appended just so at its offset, no key ends with what was overwritten or
// deleted, and everything that isn't below the compacted part is there (R92, F51,
// V26, V27, V28). Seeds as in TestF48_CrashModel.
func TestF51_CompactionModel(t *testing.T) {
	first, seeds := uint64(1), uint64(150)
	if raceDetector {
		seeds = 30
	}
	if s, err := strconv.ParseUint(os.Getenv(crashSeedsEnv), 10, 32); err == nil {
		seeds = s
	}
	if s, err := strconv.ParseUint(os.Getenv(crashSeedEnv), 10, 64); err == nil {
		first, seeds = s, 1
	}
	rare := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		m := newCompactModel(t, seed)
		m.run()
		for k, n := range m.rare {
			rare[k] += n
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("what happened in %d seeds: %v", seeds, rare)
	if seeds >= 100 {
		for _, k := range []string{"compacted", "replaced", "tombstone gone", "keyless gone", "crash in compaction", "crash in recovery", "swap finished by recovery",
			"index lost", "truncated", "start advanced", "map full", "disk full", "merged", "emptied producer", "horizon due"} {
			if rare[k] == 0 {
				t.Errorf("%q never happened", k)
			}
		}
	}
}

// compactModel is what was appended, and what must be there of it.
type compactModel struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	fs   *vfs.Mem
	ix   *memIndex
	log  *Log
	cfg  LogConfig
	now  atomic.Int64 // ms

	records []modelKeyed // by offset; all of them
	synced  int64
	hw      int64 // the largest one ever given to a compaction, or later
	start   int64
	epoch   int32
	next    int
	rare    map[string]int
	history []string
}

// modelKeyed is a record as it was appended.
type modelKeyed struct {
	key, value []byte
	timestamp  int64
	epoch      int32
	producer   int64
	header     byte
	base       int64 // of the batch it was appended in
}

func newCompactModel(t *testing.T, seed uint64) *compactModel {
	rng := rand.New(rand.NewPCG(seed, 0x636f6d70))
	m := &compactModel{t: t, seed: seed, rng: rng, epoch: 1, rare: map[string]int{}}
	m.cfg = compactConfig([]int64{300, 1000, 6000}[rng.IntN(3)])
	m.cfg.DeleteRetention = []time.Duration{0, 500 * time.Millisecond, time.Hour}[rng.IntN(3)]
	m.cfg.MinCompactionLag = []time.Duration{0, 0, time.Second}[rng.IntN(3)]
	m.now.Store(1_000_000)
	m.fs = vfs.NewMem(rng, "/d", "/d/partitions")
	m.fs.SetNow(func() time.Time { return time.UnixMilli(m.now.Load()) })
	m.ix = newMemIndex(m.fs)
	return m
}

func (m *compactModel) fatalf(format string, args ...any) {
	m.t.Helper()
	for _, h := range m.history {
		m.t.Log(h)
	}
	m.t.Fatalf("seed %d (%s=%d): %s", m.seed, crashSeedEnv, m.seed, fmt.Sprintf(format, args...))
}

func (m *compactModel) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *compactModel) run() {
	for range 3 + m.rng.IntN(4) {
		m.fs.CrashAt(0)
		if m.rng.IntN(6) > 0 {
			m.fs.CrashAt(1 + m.rng.IntN(150))
		}
		m.open()
		for range 5 + m.rng.IntN(50) {
			if m.fs.Crashed() || !m.step() {
				break
			}
		}
		m.crash()
	}
	m.fs.CrashAt(0)
	m.open()
	m.compact(true)
	m.verify()
	if err := m.log.close(); err != nil {
		m.fatalf("close: %v", err)
	}
}

func (m *compactModel) open() {
	for {
		d := newDisk(m.fs, "/d", m.ix, Options{Fsync: FsyncCommit, Now: func() time.Time { return time.UnixMilli(m.now.Load()) }, Logger: zerolog.Nop()})
		d.syncs = make(chan struct{}, 1)
		swaps := 0
		for _, name := range m.fs.Files() {
			if bytes.HasSuffix([]byte(name), []byte(swapSuffix)) {
				swaps++
			}
		}
		l, err := openLog(d, testID, m.cfg, nil)
		if err == nil {
			m.log = l
			if swaps > 0 {
				m.rare["swap finished by recovery"]++
			}
			m.note("opened: [%d, %d), must have %d", l.StartOffset(), l.WrittenEnd(), m.synced)
			break
		}
		if !m.fs.Crashed() {
			m.fatalf("open: %v", err)
		}
		m.rare["crash in recovery"]++
		m.log = nil
		m.crash()
	}
	if !m.fs.Crashed() {
		m.verify()
	}
}

// verify compares the log with the model and takes its end for granted.
func (m *compactModel) verify() {
	l := m.log
	start, end := l.StartOffset(), l.WrittenEnd()
	switch {
	case end < m.synced || end > int64(len(m.records)):
		m.fatalf("the log ends at %d; %d were synced, %d appended", end, m.synced, len(m.records))
	case start > m.start:
		m.fatalf("the log starts at %d, asked for was %d", start, m.start)
	case len(l.damage) > 0:
		m.fatalf("damage %v", l.damage)
	}
	m.records, m.synced = m.records[:end], end
	m.hw = min(m.hw, end)
	checkBatches(m.t, l)
	if m.t.Failed() {
		m.fatalf("batches")
	}
	there := m.present(start, end)
	last := map[string]int64{}
	for o := start; o < end; o++ {
		if m.records[o].key != nil {
			last[string(m.records[o].key)] = o
		}
	}
	final := map[string]int64{}
	for o := start; o < end; o++ {
		if there[o] && m.records[o].key != nil {
			final[string(m.records[o].key)] = o
		}
	}
	for key, o := range last {
		at, ok := final[key]
		switch {
		case ok && at != o:
			m.fatalf("key %.20q ends with offset %d, which %d has replaced", key, at, o)
		case !ok && m.records[o].value != nil:
			m.fatalf("key %.20q, offset %d, is gone", key, o)
		}
	}
	for o := max(start, m.hw); o < end; o++ {
		if !there[o] {
			m.fatalf("offset %d is gone, and nothing from %d on was to be compacted", o, m.hw)
		}
	}
}

// present reads the whole log, compares each record, and tells which are there.
func (m *compactModel) present(start, end int64) map[int64]bool {
	there := map[int64]bool{}
	maxBytes := []int{1, 700, 1 << 20}[m.rng.IntN(3)]
	for offset := start; offset < end; {
		res, err := m.log.Read(offset, end, maxBytes, nil)
		if err != nil {
			m.fatalf("read at %d of [%d, %d): %v", offset, start, end, err)
		}
		for data := res.Data; len(data) > 0; {
			b, rest, err := ParseBatch(data)
			if err != nil {
				m.fatalf("batch: %v", err)
			}
			newest := int64(noRecordTime)
			for _, r := range decodeAll(m.t, b) {
				newest = max(newest, r.Timestamp)
				if r.Offset < offset {
					continue
				}
				w := &m.records[r.Offset]
				if !same(r.Key, w.key) || !same(r.Value, w.value) || r.Timestamp != w.timestamp || b.LeaderEpoch() != w.epoch || b.ProducerID() != w.producer ||
					len(r.Headers) != 1 || r.Headers[0].Value[0] != w.header {
					m.fatalf("offset %d: %+v in a batch of epoch %d and producer %d, want %+v", r.Offset, r, b.LeaderEpoch(), b.ProducerID(), *w)
				}
				there[r.Offset] = true
			}
			if b.RecordCount() > 0 && b.MaxTimestamp() != newest {
				m.fatalf("batch at %d says max timestamp %d, has %d", b.BaseOffset(), b.MaxTimestamp(), newest)
			}
			offset, data = b.NextOffset(), rest
		}
	}
	ms := 2_000 + m.rng.Int64N(8_000)
	got, found, err := m.log.OffsetForTimestamp(ms, end)
	want := slices.IndexFunc(m.records[start:], func(r modelKeyed) bool { return r.timestamp >= ms })
	for want >= 0 && !(there[start+int64(want)] && m.records[start+int64(want)].timestamp >= ms) {
		if want++; start+int64(want) >= end {
			want = -1
		}
	}
	if err != nil || found != (want >= 0) || found && got != start+int64(want) {
		m.fatalf("timestamp %d: offset %d, %v, %v, want %d", ms, got, found, err, start+int64(want))
	}
	return there
}

func (m *compactModel) step() bool {
	m.now.Add(int64(m.rng.IntN(300)))
	var err error
	what := m.rng.IntN(20)
	switch {
	case what < 10:
		err = m.append()
	case what < 14:
		err = m.compact(m.rng.IntN(2) == 0)
	case what == 14:
		m.log.checkpoint()
		err = m.ix.flush()
	case what == 15:
		m.epoch++
		err = m.log.BeginEpoch(m.epoch)
	case what == 16:
		to := m.log.StartOffset()
		if m.rng.IntN(3) == 0 {
			to += m.rng.Int64N(m.log.DurableEnd() - to + 1)
		}
		m.start, m.hw = max(m.start, to), max(m.hw, to)
		m.note("advance start to %d", to)
		if err = m.log.AdvanceStart(to); err == nil {
			m.rare["start advanced"]++
		}
	case what == 17: // above what was compacted
		end := m.log.WrittenEnd()
		if max(m.hw, m.log.StartOffset()) > end {
			m.fatalf("the log [%d, %d) ends below what was compacted, %d", m.log.StartOffset(), end, m.hw)
		}
		to := end - m.rng.Int64N(end-max(m.hw, m.log.StartOffset())+1)
		m.note("truncate %d to %d", end, to)
		if to < end {
			m.synced = min(m.synced, m.records[to].base) // its batch goes as a whole
		}
		if _, err = m.log.TruncateTo(to); err == nil {
			m.records = m.records[:m.log.WrittenEnd()]
			m.synced = m.log.WrittenEnd()
			m.hw = min(m.hw, m.synced) // the batch that held it may be gone as a whole
			m.rare["truncated"]++
		}
	case what == 18:
		m.fs.SetRoom(int64(m.rng.IntN(2000)))
		if err = m.compact(true); errors.Is(err, ErrDiskNearlyFull) {
			m.rare["disk full"]++
			err = nil
		}
		m.fs.SetRoom(-1)
	default:
		m.verify()
	}
	m.log.bg.Wait()
	if err != nil && !m.fs.Crashed() {
		m.fatalf("step %d: %v", what, err)
	}
	return err == nil
}

// append appends some batches, mostly of few keys, and syncs them.
func (m *compactModel) append() error {
	var batches []Batch
	for range 1 + m.rng.IntN(3) {
		var p *Producer
		producer := int64(NoProducer)
		if m.rng.IntN(4) == 0 {
			producer = int64(1 + m.rng.IntN(3))
			p = &Producer{ID: producer, Epoch: 2, BaseSequence: int32(m.next)}
		}
		var b BatchBuilder
		base := int64(len(m.records))
		for range 1 + m.rng.IntN(6) {
			r := modelKeyed{key: m.key(), value: []byte(fmt.Sprintf("v%d-%s", m.next, bytes.Repeat([]byte("x"), m.rng.IntN(60)))),
				timestamp: 1_000 + int64(m.rng.IntN(10_000)), epoch: m.epoch, producer: producer, header: byte(m.next), base: base}
			switch m.rng.IntN(12) {
			case 0, 1, 2:
				r.value = nil
			case 3:
				r.value = []byte{}
			case 4:
				r.key = nil // from before the topic was compacted
			}
			m.next++
			m.records = append(m.records, r)
			b.Append(&Record{Key: r.key, Value: r.value, Timestamp: r.timestamp, Headers: []Header{{Key: []byte("h"), Value: []byte{r.header}}}})
		}
		sealed, err := b.Seal([]Compression{CompressionNone, CompressionNone, CompressionGzip, CompressionZstd}[m.rng.IntN(4)], p)
		if err != nil {
			m.fatalf("seal: %v", err)
		}
		batches = append(batches, sealed)
	}
	st, err := m.log.Stage(batches, m.epoch)
	if err == nil {
		m.note("append [%d, %d)", st.BaseOffset, st.EndOffset)
		if err = m.log.Sync(st); err == nil {
			m.synced = st.EndOffset
		}
	}
	return err
}

func (m *compactModel) key() []byte {
	n := m.rng.IntN(9)
	if n == 0 {
		return bytes.Repeat([]byte{byte('a' + m.rng.IntN(2))}, 200)
	}
	if n == 1 {
		return []byte{}
	}
	return fmt.Appendf(nil, "k%d", n)
}

func (m *compactModel) compact(atOnce bool) error {
	hw := m.log.DurableEnd()
	if m.rng.IntN(3) == 0 {
		hw = m.hw + m.rng.Int64N(hw-m.hw+1)
	}
	m.hw = max(m.hw, hw)
	keep := m.rng.IntN(4) == 0
	due := m.log.Compactable(hw, keep)
	if due.Due && due.DirtyBytes == 0 {
		m.rare["horizon due"]++
	}
	limit := compactMapBytes
	if m.rng.IntN(3) == 0 {
		limit = minKeySlots*keySlotBytes + 3
	}
	m.log.compactMapBytes = limit
	res, err := m.log.Compact(context.Background(), CompactOptions{HighWatermark: hw, AtOnce: atOnce, KeepTombstones: keep})
	m.note("compact below %d, at once %v, keeping %v: %+v %v", hw, atOnce, keep, res, err)
	if m.fs.Crashed() {
		m.rare["crash in compaction"]++
		return err
	}
	if err != nil {
		return err
	}
	count := func(what string, happened bool) {
		if happened {
			m.rare[what]++
		}
	}
	count("compacted", res.SegmentsBefore > 0)
	count("replaced", res.Replaced > 0)
	count("tombstone gone", res.Tombstones > 0)
	count("keyless gone", res.Keyless > 0)
	count("merged", res.SegmentsAfter < res.SegmentsBefore)
	if plan := m.log.Compactable(hw, true); atOnce && plan.DirtyBytes > 0 {
		m.rare["map full"]++
		if limit == compactMapBytes && m.cfg.MinCompactionLag == 0 {
			m.fatalf("dirty after a compaction: %+v", plan)
		}
	}
	m.checkProducers()
	return nil
}

// checkProducers: each producer's last batch is there, with its last sequence number (R92).
func (m *compactModel) checkProducers() {
	lastOf := map[int64]int64{}
	for data := rawLog(m.t, m.log); len(data) > 0; {
		b, rest, err := ParseBatch(data)
		if err != nil {
			m.fatalf("batch: %v", err)
		}
		if b.ProducerID() != NoProducer {
			lastOf[b.ProducerID()] = b.LastOffset()
			if b.RecordCount() == 0 {
				m.rare["emptied producer"]++
			}
		}
		data = rest
	}
	for o := m.log.StartOffset(); o < m.log.WrittenEnd(); o++ {
		if id := m.records[o].producer; id != NoProducer && lastOf[id] < o {
			m.fatalf("producer %d has appended offset %d; the last that is known of it is %d", id, o, lastOf[id])
		}
	}
}

func (m *compactModel) crash() {
	if m.log != nil {
		m.fs.Stop()
		m.log.discard()
		m.log = nil
	}
	mode := m.rng.IntN(vfs.CrashModes)
	m.note("crash, mode %d", mode)
	fs := m.fs.Crash(mode)
	if m.rng.IntN(2) == 0 {
		fs.CrashAt(1 + m.rng.IntN(30))
	}
	ix := newMemIndex(fs)
	switch n := m.rng.IntN(6); {
	case n == 0:
		m.rare["index lost"]++
		m.note("index lost")
	case n == 1 && mode == vfs.CrashKeepsAll:
		ix.durable = cloneIndexed(m.ix.current)
	default:
		ix.durable = cloneIndexed(m.ix.durable)
	}
	ix.current = cloneIndexed(ix.durable)
	m.fs, m.ix = fs, ix
	m.records = slices.Clone(m.records)
}
