package storage

import (
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

// crashSeedsEnv raises the number of seeds that TestF48_CrashModel runs.
const crashSeedsEnv = "HIGHWATER_CRASH_SEEDS"

// crashSeedEnv runs one seed only.
const crashSeedEnv = "HIGHWATER_CRASH_SEED"

// TestF48_CrashModel drives a log over a file system that crashes at any operation,
// again and again, and compares what is there afterwards with what was promised:
// every record below the last successful Sync is there once, in order and equal;
// nothing else is there but a prefix of what was appended behind it (F41, F44,
// F48, F51, V27, V28).
func TestF48_CrashModel(t *testing.T) {
	first, seeds := uint64(1), uint64(200)
	if raceDetector {
		seeds = 40
	}
	if s, err := strconv.ParseUint(os.Getenv(crashSeedsEnv), 10, 32); err == nil {
		seeds = s
	}
	if s, err := strconv.ParseUint(os.Getenv(crashSeedEnv), 10, 64); err == nil {
		first, seeds = s, 1
	}
	rare := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		m := newCrashModel(t, seed)
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
		// A run in which none of these happened proves little.
		for _, k := range []string{"crash", "crash in recovery", "torn tail cut", "unsynced tail kept", "index lost", "index older", "truncated", "start advanced", "retained", "disk full", "clean close", "nothing scanned",
			"replicated", "reset", "reset by recovery", "mended", "damage dropped", "crash with damage", "flushed", "memory compared", "found below the start", "forgotten below the start"} {
			if rare[k] == 0 {
				t.Errorf("%q never happened", k)
			}
		}
	}
}

// crashModel is what must be in the log, and what may be.
type crashModel struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	fs   *vfs.Mem
	ix   *memIndex
	log  *Log
	cfg  LogConfig
	mode Fsync
	now  atomic.Int64 // ms

	records []modelRecord // by offset; what may be there
	synced  int64         // what must be there, exclusive
	start   int64         // the largest start ever asked for
	next    int           // number for the next record
	epoch   int32
	old     map[PartitionID]*memIndexed // an older copy of the index
	raw     map[int64]Batch             // every batch ever given to the log, by base offset
	// resetting: a ResetTo to that offset was begun, and nobody knows how it ended.
	resetting *int64
	emptyAt   int64 // where the log was, when it was last seen empty; -1: it wasn't
	remembers bool  // batches have message ids and producers
	harmed    bool  // bytes were flipped and not repaired yet
	// indexLost: at some crash, so that the log may say that it is lossy.
	indexLost bool
	rare      map[string]int
	history   []string
}

type modelRecord struct {
	number int
	base   int64 // of its batch
	epoch  int32
	id     string // of the message; empty: it has none
}

func newCrashModel(t *testing.T, seed uint64) *crashModel {
	rng := rand.New(rand.NewPCG(seed, 0x68777772))
	m := &crashModel{t: t, seed: seed, rng: rng, mode: FsyncCommit, epoch: 1, rare: map[string]int{}, raw: map[int64]Batch{}}
	m.cfg = LogConfig{SegmentBytes: []int64{400, 1000, 6000, 60000}[rng.IntN(4)], RetentionBytes: -1, RetentionAge: -1}
	if rng.IntN(3) == 0 {
		m.cfg.RetentionBytes = 5000
	}
	if rng.IntN(4) == 0 {
		m.cfg.SegmentAge = time.Second
	}
	if rng.IntN(5) == 0 {
		m.mode = []Fsync{FsyncInterval, FsyncNever}[rng.IntN(2)]
	}
	if m.remembers = rng.IntN(2) == 0; m.remembers {
		m.cfg.DedupeAge = time.Hour
	}
	m.now.Store(1_000_000)
	m.fs = vfs.NewMem(rng, "/d", "/d/partitions")
	m.fs.SetNow(func() time.Time { return time.UnixMilli(m.now.Load()) })
	m.ix = newMemIndex(m.fs)
	return m
}

func (m *crashModel) fatalf(format string, args ...any) {
	m.t.Helper()
	for _, h := range m.history {
		m.t.Log(h)
	}
	m.t.Fatalf("seed %d (%s=%d): %s", m.seed, crashSeedEnv, m.seed, fmt.Sprintf(format, args...))
}

func (m *crashModel) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *crashModel) run() {
	for range 2 + m.rng.IntN(4) {
		m.fs.CrashAt(0)
		if m.rng.IntN(8) > 0 {
			m.fs.CrashAt(1 + m.rng.IntN(60))
		}
		m.open()
		for range m.rng.IntN(40) {
			if m.fs.Crashed() || !m.step() {
				break
			}
		}
		m.crash()
	}
	m.fs.CrashAt(0)
	m.open()
	m.verify()
	if err := m.log.close(); err != nil {
		m.fatalf("close: %v", err)
	}
}

// open recovers the log, crashing as often as the crash point asks for.
func (m *crashModel) open() {
	for {
		d := newDisk(m.fs, "/d", m.ix, Options{Fsync: m.mode, Now: func() time.Time { return time.UnixMilli(m.now.Load()) }, Logger: zerolog.Nop()})
		d.syncs = make(chan struct{}, 1)
		scans := m.fs.Ops()
		l, err := openLog(d, testID, m.cfg, nil)
		if err == nil {
			m.log = l
			if scans == m.fs.Ops() {
				m.rare["nothing scanned"]++
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

// verify compares the whole log with the model and takes its end for granted.
func (m *crashModel) verify() {
	l := m.log
	if m.resetting != nil {
		if l.StartOffset() == *m.resetting && l.WrittenEnd() == *m.resetting {
			m.wasReset()
			m.rare["reset by recovery"]++
		}
		m.resetting = nil
	}
	if m.harmed {
		m.rare["crash with damage"]++
		if err := m.repair(); err != nil {
			if !m.fs.Crashed() {
				m.fatalf("repair: %v", err)
			}
			return
		}
	}
	start, end := l.StartOffset(), l.WrittenEnd()
	switch {
	case end < m.synced:
		m.fatalf("the log ends at %d, and %d was synced", end, m.synced)
	case end > int64(len(m.records)):
		m.fatalf("the log ends at %d, and only %d were appended", end, len(m.records))
	case start > m.start:
		m.fatalf("the log starts at %d, asked for was %d", start, m.start)
	case len(l.damage) > 0 || l.Lossy() && !m.indexLost:
		m.fatalf("lossy: %s", l.whyLossy())
	case l.DurableEnd() != end || l.StagedEnd() != end:
		m.fatalf("durable %d written %d staged %d", l.DurableEnd(), end, l.StagedEnd())
	}
	if end > m.synced {
		m.rare["unsynced tail kept"]++
	}
	if end < int64(len(m.records)) {
		m.rare["torn tail cut"]++
	}
	if l.Lossy() && m.rng.IntN(2) == 0 {
		l.tellLoss()
		l.forgetLoss()
		m.rare["loss told"]++
		if l.Lossy() {
			m.fatalf("still lossy: %s", l.whyLossy())
		}
	}
	m.records, m.synced = m.records[:end], end
	if m.emptyAt = -1; start == end {
		m.emptyAt = end
	}
	m.readAll(start, end, []int{1, 700, 1 << 20}[m.rng.IntN(3)])
	m.checkMemory()
	epochs := l.Epochs()
	for i, e := range epochs {
		if e.StartOffset > end || i > 0 && (epochs[i-1].Epoch >= e.Epoch || epochs[i-1].StartOffset >= e.StartOffset) {
			m.fatalf("epochs %v of a log that ends at %d", epochs, end)
		}
	}
	for o := start; o < end; o++ {
		i := len(epochs) - 1
		for i >= 0 && epochs[i].StartOffset > o {
			i--
		}
		if i < 0 || epochs[i].Epoch != m.records[o].epoch {
			m.fatalf("offset %d is of epoch %d, the epochs are %v", o, m.records[o].epoch, epochs)
		}
	}
}

func (m *crashModel) readAll(offset, end int64, maxBytes int) {
	for offset < end {
		res, err := m.log.Read(offset, end, maxBytes, nil)
		if err != nil {
			m.fatalf("read at %d of [%d, %d): %v", offset, m.log.StartOffset(), end, err)
		}
		next := offset
		for _, r := range decodeAll(m.t, res.Data) {
			if r.Offset < offset {
				continue
			}
			if r.Offset != next || number(m.t, r) != m.records[r.Offset].number {
				m.fatalf("offset %d: found %d at %d, want %d", next, number(m.t, r), r.Offset, m.records[next].number)
			}
			next++
		}
		if next == offset {
			m.fatalf("read at %d returned nothing", offset)
		}
		offset = next
	}
}

// step does one thing to the log; false: it failed, as it may only in a crash.
func (m *crashModel) step() bool {
	m.now.Add(int64(m.rng.IntN(400)))
	var err error
	what := m.rng.IntN(26)
	if m.remembers && m.rng.IntN(5) == 0 {
		what = 26
	}
	switch {
	case what < 8:
		err = m.append()
	case what < 15:
		err = m.replicate()
	case what == 15:
		m.log.checkpoint()
	case what == 16:
		err = m.ix.flush()
		if m.rng.IntN(2) == 0 {
			m.old = cloneIndexed(m.ix.durable)
		}
	case what == 17:
		to := m.log.StartOffset() + m.rng.Int64N(m.log.DurableEnd()-m.log.StartOffset()+1)
		m.start, m.old = max(m.start, to), nil // an older index would miss the first segments
		m.note("advance start to %d", to)
		if err = m.log.AdvanceStart(to); err == nil {
			m.rare["start advanced"]++
		}
	case what == 18:
		m.start, m.old = max(m.start, m.log.DurableEnd()), nil // at most; verify only asks for a bound
		before := m.log.StartOffset()
		if _, err = m.log.Retain(m.log.DurableEnd()); err == nil && m.log.StartOffset() > before {
			m.rare["retained"]++
		}
	case what == 19:
		m.epoch++
		err = m.log.BeginEpoch(m.epoch)
	case what == 20:
		err = m.truncate()
	case what == 21:
		err = m.log.syncDirty()
		if err == nil {
			m.synced = m.log.WrittenEnd()
		}
	case what == 22:
		o := m.log.StartOffset()
		if end := m.log.WrittenEnd(); end > o {
			o += m.rng.Int64N(end - o)
			m.readAll(o, min(o+3, end), 1)
		}
	case what == 23:
		m.fs.SetRoom(int64(m.rng.IntN(3000)))
		if m.rng.IntN(2) == 0 {
			err = m.append()
		} else {
			err = m.replicate()
		}
		m.fs.SetRoom(-1)
		if errors.Is(err, ErrDiskNearlyFull) {
			m.rare["disk full"]++
			err = nil
		}
	case what == 24 && m.rng.IntN(2) == 0:
		err = m.reset()
	case what == 25:
		err = m.harm()
	case what == 26:
		m.flush()
	}
	m.log.bg.Wait() // or the order of operations would not be the seed's alone
	if err != nil && !m.fs.Crashed() {
		m.fatalf("step %d: %v", what, err)
	}
	if what >= 17 && err == nil && !m.fs.Crashed() && m.log.StagedEnd() == m.log.WrittenEnd() && !m.harmed {
		m.checkMemory()
	}
	return err == nil
}

// append appends with the meaning of acks 0, 1 or -1.
func (m *crashModel) append() error {
	var batches []Batch
	from := m.log.StagedEnd()
	if from != int64(len(m.records)) {
		m.fatalf("the next offset is %d, want %d", from, len(m.records))
	}
	for range 1 + m.rng.IntN(3) {
		n := 1 + m.rng.IntN(12)
		c := []Compression{CompressionNone, CompressionNone, CompressionNone, CompressionGzip, CompressionZstd}[m.rng.IntN(5)]
		b, ids := m.makeBatch(c, m.next, n, m.rng.IntN(1+m.rng.IntN(900)))
		batches = append(batches, b)
		base := int64(len(m.records))
		for i := range n {
			m.records = append(m.records, modelRecord{m.next + i, base, m.epoch, ids[i]})
		}
		m.next += n
	}
	st, err := m.log.Stage(batches, m.epoch)
	if err != nil {
		return err
	}
	acks := m.rng.IntN(3)
	m.note("append [%d, %d) acks step %d", st.BaseOffset, st.EndOffset, acks)
	switch acks {
	case 0:
	case 1:
		err = m.log.Write(st)
	case 2:
		if err = m.log.Sync(st); err == nil && m.mode == FsyncCommit {
			m.synced = st.EndOffset
			if m.log.DurableEnd() < st.EndOffset {
				m.fatalf("durable end %d after Sync of %d", m.log.DurableEnd(), st.EndOffset)
			}
		}
	}
	for _, b := range batches {
		m.keep(b)
	}
	if errors.Is(err, ErrDiskNearlyFull) {
		m.refused(from, st)
	}
	return err
}

func (m *crashModel) truncate() error {
	if err := m.log.syncDirty(); err != nil {
		return err
	}
	start, end := m.log.StartOffset(), m.log.WrittenEnd()
	m.synced = end
	to := start + m.rng.Int64N(end-start+1)
	want := to
	if to < end {
		want = m.records[to].base
	}
	m.note("truncate [%d, %d) to %d", start, end, to)
	m.synced, m.old = min(m.synced, want), nil
	if want < start {
		// All goes, and the log begins anew at its start. Should a crash in the
		// middle of that take the index too, nothing tells where that was.
		want, m.synced = start, 0
	}
	got, err := m.log.TruncateTo(to)
	if err != nil {
		return err
	}
	if got > to || got != want && m.records[to].base >= start {
		m.fatalf("truncated to %d, want %d", got, want)
	}
	if got < to && got == start { // the batch that held the start is gone as a whole
		m.note("truncated to the start, %d", got)
	}
	m.records, m.synced = m.records[:got], got
	m.rare["truncated"]++
	return nil
}

// crash ends the process in some way and makes what the next one finds.
func (m *crashModel) crash() {
	clean := false
	if m.log != nil {
		if !m.fs.Crashed() && m.rng.IntN(3) == 0 {
			end := m.log.StagedEnd()
			if err := errors.Join(m.log.close(), m.ix.flush()); err == nil {
				clean, m.synced = true, end
				m.rare["clean close"]++
			} else if !m.fs.Crashed() {
				m.fatalf("close: %v", err)
			}
		}
		m.fs.Stop() // or goroutines of the dead process would go on
		m.log.discard()
		m.log = nil
	}
	m.rare["crash"]++
	mode := m.rng.IntN(vfs.CrashModes)
	m.note("crash, mode %d, clean %v", mode, clean)
	fs := m.fs.Crash(mode)
	if m.rng.IntN(3) == 0 {
		fs.CrashAt(1 + m.rng.IntN(40))
	}
	ix := newMemIndex(fs)
	switch n := m.rng.IntN(8); {
	case m.harmed:
		// A flipped bit and a lost index are more than a log can tell from a torn tail.
		ix.durable = cloneIndexed(m.ix.durable)
	case n == 0:
		m.rare["index lost"]++
		m.indexLost = true
		m.note("index lost")
		if m.resetting != nil || m.synced == m.emptyAt {
			// Nothing tells that the files there are shall go, or where an empty log was.
			m.synced = 0
		}
	case n == 1 && m.old != nil:
		m.rare["index older"]++
		m.indexLost = true // it may be from before the log
		m.note("index older")
		ix.durable = cloneIndexed(m.old)
	case n < 4 && mode == vfs.CrashKeepsAll:
		ix.durable = cloneIndexed(m.ix.current)
	default:
		ix.durable = cloneIndexed(m.ix.durable)
	}
	ix.current = cloneIndexed(ix.durable)
	m.fs, m.ix = fs, ix
	m.records = slices.Clone(m.records)
}
