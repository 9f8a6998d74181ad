package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// dedupeSeedsEnv sets the number of seeds that TestV29_DedupeSim runs, dedupeSeedEnv runs one only.
const (
	dedupeSeedsEnv = "HIGHWATER_DEDUPE_SEEDS"
	dedupeSeedEnv  = "HIGHWATER_DEDUPE_SEED"
)

// dedupeRare are the events without any of which a run proves little.
var dedupeRare = []string{
	"duplicate", "duplicate in flight", "reused", "same id twice in an offer", "producer duplicate", "sequence gap", "fenced", "unknown producer", "epoch bump",
	"expired id again", "stale", "leader change", "truncated", "staged and lost", "start advanced", "id of a record that is gone", "compacted", "id of a record compacted away", "reset",
	"wiped", "import", "import above the log's end", "crash", "crash in reset", "crash of the leader", "index lost", "clean close",
	"flush", "merge", "runs dropped", "ids let go", "cut below what was flushed", "skewed clock", "damage dropped",
}

// dedupeRarest are those that need more seeds.
var dedupeRarest = []string{"cut below what was imported", "led before what was imported came", "crash in import", "producer old duplicate", "unclean election", "crash in recovery"}

// TestV29_DedupeSim drives replicated logs with message ids and producers at random:
// offers that are repeated, reused, or leave gaps; followers that append the leader's
// bytes; leaders that change, logs that are cut, retained, compacted, damaged, and begun anew with an
// import; crashes, and lost indexes. Whatever comes: every replica remembers exactly
// what its log says, and what it was told of what the log can't say any more (I5, D2,
// D11, V29); no live id is stored twice, and every verdict is right.
func TestV29_DedupeSim(t *testing.T) {
	first, seeds := uint64(1), uint64(100)
	if raceDetector {
		seeds = 10
	}
	if n, err := strconv.ParseUint(os.Getenv(dedupeSeedsEnv), 10, 32); err == nil {
		seeds = n
	}
	if n, err := strconv.ParseUint(os.Getenv(dedupeSeedEnv), 10, 64); err == nil {
		first, seeds = n, 1
	}
	rare := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		newDedupeSim(t, seed, rare).run()
	}
	t.Logf("what happened in %d seeds: %v", seeds, rare)
	for _, k := range dedupeRare {
		if seeds >= 100 && rare[k] == 0 {
			t.Errorf("%q never happened", k)
		}
	}
	for _, k := range dedupeRarest {
		if seeds >= 1000 && rare[k] == 0 {
			t.Errorf("%q never happened", k)
		}
	}
}

// dedupeSim are the replicas of one partition.
type dedupeSim struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	cfg  LogConfig
	now  int64 // ms
	rare map[string]int
	mu   sync.Mutex // guards log: what happened
	log  []string

	replicas []*simReplica
	leader   *simReplica
	epoch    int32
	hw       int64
	sent     []*simOffer // by clients that may send them again
	pending  []*simPending
	next     int  // number of the next value
	calm     bool // nothing crashes any more
	wasFull  bool // the leader's disk was full once
	// producers are what clients go on with: of each, epoch and next sequence number.
	producers [4]Producer

	// What a seed has, so that what is to be expected is exact:
	skewed  bool // brokers' clocks differ, and a log's times may go back
	unclean bool // leaders may lack what was committed; nothing expires or goes otherwise
}

func newDedupeSim(t *testing.T, seed uint64, rare map[string]int) *dedupeSim {
	s := &dedupeSim{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x64656475)), now: 1_000_000, rare: rare}
	s.skewed, s.unclean = s.rng.IntN(3) == 0, s.rng.IntN(5) == 0
	age := []time.Duration{-1, -1, 20 * time.Second, 60 * time.Second, 60 * time.Second, 10 * time.Minute}[s.rng.IntN(6)]
	if s.rng.IntN(25) == 0 {
		age = 0
	}
	s.cfg = LogConfig{
		SegmentBytes: []int64{600, 2000, 20_000}[s.rng.IntN(3)], RetentionBytes: -1, RetentionAge: -1,
		DedupeAge: age, DedupeCount: []int64{0, -1, 6, 40}[s.rng.IntN(4)], ProducerAge: []time.Duration{0, -1, time.Minute}[s.rng.IntN(3)],
		Compact: s.rng.IntN(3) == 0,
	}
	s.skewed = s.skewed || age == 0 // what only moves the log's time leaves nothing else behind then
	if s.unclean {
		s.cfg.DedupeAge, s.cfg.DedupeCount, s.cfg.ProducerAge = -1, -1, -1
	}
	for i := range 2 + s.rng.IntN(2) {
		r := &simReplica{sim: s, number: i, fs: newMemFS(seed*10 + uint64(i)), inSync: true, resetting: -1, importing: -1}
		r.ix = newMemIndex(r.fs)
		if s.skewed {
			r.skew = s.rng.Int64N(6000) - 3000
		}
		s.replicas = append(s.replicas, r)
		r.open()
	}
	for i := range s.producers {
		s.producers[i] = Producer{ID: int64(100 + i)}
	}
	s.lead(s.replicas[0])
	return s
}

func (s *dedupeSim) fatalf(format string, args ...any) {
	s.t.Helper()
	for _, line := range s.log {
		s.t.Log(line)
	}
	s.t.Fatalf("seed %d (%s=%d), %+v, skewed %v, unclean %v: %s", s.seed, dedupeSeedEnv, s.seed, s.cfg, s.skewed, s.unclean, fmt.Sprintf(format, args...))
}

func (s *dedupeSim) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *dedupeSim) any() *simReplica { return s.replicas[s.rng.IntN(len(s.replicas))] }

func (s *dedupeSim) run() {
	for range 150 + s.rng.IntN(150) {
		s.noticeLost()
		s.step()
		for _, r := range s.replicas {
			r.log.bg.Wait() // or the order of operations would not be the seed's alone
			if r.fs.Crashed() {
				r.crash()
			}
		}
		if s.rng.IntN(12) == 0 {
			s.any().compare()
		}
	}
	s.calm = true
	for _, r := range s.replicas {
		r.fs.CrashAt(0)
		if r.fs.Crashed() { // once more, as it came back from a crash in the last step
			r.crash()
		}
	}
	for _, r := range s.replicas {
		if r != s.leader {
			for range 400 {
				if !r.fetch() {
					break
				}
			}
			if r.end() != s.leader.log.WrittenEnd() {
				s.fatalf("replica %d ends at %d, the leader at %d", r.number, r.end(), s.leader.log.WrittenEnd())
			}
		}
	}
	for _, r := range s.replicas {
		r.compare()
		if err := r.log.close(); err != nil {
			s.fatalf("close: %v", err)
		}
	}
}

func (s *dedupeSim) step() {
	if s.skewed || len(s.pending) == 0 { // or the log's times would go back
		if s.rng.IntN(3) == 0 {
			s.now += s.rng.Int64N(4000)
		}
		if s.rng.IntN(60) == 0 {
			s.now += 40_000
		}
	}
	if s.rng.IntN(40) == 0 {
		s.any().fs.CrashAt(1 + s.rng.IntN(60))
	}
	switch p := s.rng.IntN(100); {
	case p < 38:
		s.offer()
	case p < 70:
		if r := s.any(); r.inSync || !s.unclean || s.rng.IntN(6) == 0 { // or nobody would lack what is committed
			r.fetch()
		}
	case p < 74:
		s.stagePending()
	case p < 80:
		s.any().flush()
	case p < 84:
		s.moveHW()
	case p < 87:
		s.elect()
	case p < 90:
		s.advanceStart()
	case p < 93:
		s.any().compact()
	case p < 94:
		r := s.any()
		r.fs.Stop()
	case p < 95:
		s.any().closeCleanly()
	case p < 97:
		s.wipe()
	case p < 98:
		s.diskFull()
	case p < 99:
		s.any().damage()
	default:
		s.any().find()
	}
}

// lead makes r the leader of a new epoch.
func (s *dedupeSim) lead(r *simReplica) {
	s.epoch++
	s.leader, s.pending = r, nil
	s.note("replica %d leads epoch %d from %d", r.number, s.epoch, r.end())
	if err := r.log.syncDirty(); err != nil && !r.fs.Crashed() {
		s.fatalf("sync: %v", err)
	}
	if r.fs.Crashed() {
		r.crash()
	}
	if r.imported > r.end() && s.unclean { // the first offer does that too
		s.rare["led before what was imported came"]++
		if !r.try("forget", r.log.forgetAhead()) {
			r.crash()
			return
		}
		r.imported = r.end()
		r.cut(r.end())
	}
	if err := r.log.BeginEpoch(s.epoch); err != nil {
		s.fatalf("begin epoch: %v", err)
	}
}

// elect lets another replica lead: one that has all that is committed, but in an unclean election.
func (s *dedupeSim) elect() {
	var can []*simReplica
	unclean := s.unclean && s.rng.IntN(2) == 0
	for _, r := range s.replicas {
		if r != s.leader && r.inSync != unclean {
			can = append(can, r)
		}
	}
	if len(can) == 0 {
		return
	}
	r := can[s.rng.IntN(len(can))]
	s.rare["leader change"]++
	if has := r.agreed(); has < s.hw {
		if !unclean {
			s.fatalf("replica %d is in sync and has [0, %d), below %d", r.number, has, s.hw)
		}
		s.rare["unclean election"]++
		s.hw = has
	}
	s.lead(r)
	for _, o := range s.replicas {
		o.inSync = o.inSync && o.agreed() >= s.hw || o == r
	}
}

// moveHW commits what all in-sync replicas have.
func (s *dedupeSim) moveHW() {
	l := s.leader
	if l.fs.Crashed() {
		return
	}
	hw := l.log.DurableEnd()
	for _, r := range s.replicas {
		if r == l {
			continue
		}
		switch end := r.agreed(); {
		case r.inSync:
			hw = min(hw, end)
		case !r.harmed && end >= s.hw && end > 0 && r.inEpoch == s.epoch:
			r.inSync = true
			hw = min(hw, end)
		}
		if r.inSync && s.rng.IntN(4) == 0 { // it is slow, and leaves
			r.inSync = false
		}
	}
	if hw > s.hw {
		s.hw = hw
		s.note("high watermark %d", hw)
	}
	l.log.CheckpointHighWatermark(s.hw)
}

func (s *dedupeSim) advanceStart() {
	l := s.leader
	to := l.log.StartOffset()
	if s.unclean || s.hw <= to || s.rng.IntN(2) == 0 {
		return
	}
	to += s.rng.Int64N(s.hw - to + 1)
	if s.skewed {
		for _, r := range s.replicas { // an import from below what was flushed is exact only while clocks don't go back
			to = min(to, r.end())
		}
		if to <= l.log.StartOffset() {
			return
		}
	}
	s.note("start %d", to)
	s.rare["start advanced"]++
	l.try("advance start", l.log.AdvanceStart(to))
}

// wipe loses a follower's disk.
func (s *dedupeSim) wipe() {
	r := s.any()
	if r == s.leader || s.skewed && !s.cfg.Compact && s.leader.log.StartOffset() > 0 || s.rng.IntN(2) == 0 {
		return
	}
	s.rare["wiped"]++
	s.note("replica %d is wiped", r.number)
	r.fs.Stop()
	r.log.discard()
	r.fs = newMemFS(s.rng.Uint64())
	r.ix = newMemIndex(r.fs)
	r.inSync, r.synced, r.imported = false, 0, 0
	r.history, r.memory, r.harmed = nil, nil, false
	r.open()
}

// diskFull has the leader's disk full for an offer.
func (s *dedupeSim) diskFull() {
	l := s.leader
	l.fs.SetRoom(int64(s.rng.IntN(300)))
	s.offer()
	l.fs.SetRoom(-1)
	s.wasFull = true
}

// noticeLost looks whether a writer of the leader's own, which nobody waits for, found no room.
func (s *dedupeSim) noticeLost() {
	l := s.leader
	end := l.log.StagedEnd()
	if n := len(l.history); l.fs.Crashed() || n == 0 || l.history[n-1].next <= end {
		return
	}
	if !s.wasFull {
		s.fatalf("replica %d lost what it had staged from %d on", l.number, end)
	}
	s.note("no room in the background: the log ends at %d", end)
	l.cut(end)
}
