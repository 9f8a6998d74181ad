package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage/vfs"
)

// The simulator's replicas, and how they die and come back.

// simReplica is one of them.
type simReplica struct {
	sim    *dedupeSim
	number int
	fs     *vfs.Mem
	ix     *memIndex
	log    *Log
	skew   int64
	inSync bool
	// inEpoch is the newest in which it fetched, or led.
	inEpoch int32
	synced  int64 // must be there
	told    int64 // what RemembersBelow was before a cut that is under way
	harmed  bool  // there is damage that isn't dropped yet
	// exact: below it the memory lacks what had expired where the log that it comes from ended.
	exact int64

	// history are all batches that its log got, with what no compaction and no retention took.
	history []*simBatch
	// memory is what it has to remember: what batches said, or an import, in order, up to
	// remembered; imported is up to where an import told it.
	memory   []*simBatch
	imported int64
	// resetting and importing are under way, at an offset; -1: they aren't.
	resetting, importing int64
	imports              []*simBatch
}

func (r *simReplica) end() int64 { return r.log.WrittenEnd() }

// now is the replica's clock.
func (r *simReplica) now() int64 { return r.sim.now + r.skew }

func (r *simReplica) disk() *disk {
	d := newDisk(r.fs, "/d", r.ix, Options{Fsync: FsyncCommit, Now: func() time.Time { return time.UnixMilli(r.now()) }, Logger: zerolog.New(r)})
	d.syncs = make(chan struct{}, 1)
	return d
}

// Write takes the log lines of the replica.
func (r *simReplica) Write(line []byte) (int, error) {
	r.sim.mu.Lock()
	defer r.sim.mu.Unlock()
	r.sim.log = append(r.sim.log, fmt.Sprintf("replica %d: %s", r.number, line))
	return len(line), nil
}

func (r *simReplica) open() {
	for {
		l, err := openLog(r.disk(), testID, r.sim.cfg, nil)
		if err == nil {
			r.log = l
			break
		}
		if !r.fs.Crashed() {
			r.sim.fatalf("replica %d: open: %v", r.number, err)
		}
		r.sim.rare["crash in recovery"]++
		r.log = nil
		r.nextFS()
	}
}

// try notes how an operation ended; it may only fail in a crash.
func (r *simReplica) try(what string, err error) bool {
	if err != nil && !r.fs.Crashed() {
		r.sim.fatalf("replica %d: %s: %v", r.number, what, err)
	}
	return err == nil
}

// nextFS is what the disk has after a crash.
func (r *simReplica) nextFS() {
	s := r.sim
	fs := r.fs.Crash(s.rng.IntN(vfs.CrashModes))
	if !s.calm && s.rng.IntN(4) == 0 {
		fs.CrashAt(1 + s.rng.IntN(30))
	}
	ix := newMemIndex(fs)
	ix.durable = cloneIndexed(r.ix.durable)
	ix.current = cloneIndexed(ix.durable)
	r.fs, r.ix = fs, ix
}

// crash ends the process, and begins the next one on what the disk has.
func (r *simReplica) crash() {
	s := r.sim
	s.rare["crash"]++
	if r == s.leader {
		s.rare["crash of the leader"]++
	}
	r.fs.Stop()
	r.log.discard()
	r.nextFS()
	lost := !r.harmed && r.resetting < 0 && r.importing < 0 && !s.unclean && s.rng.IntN(10) == 0 && r.log.StartOffset() < r.synced
	if lost {
		s.rare["index lost"]++
		r.ix.durable, r.ix.current = map[PartitionID]*memIndexed{}, map[PartitionID]*memIndexed{}
	}
	r.open()
	r.reopened(lost)
}

func (r *simReplica) closeCleanly() {
	s := r.sim
	if r.fs.Crashed() || r.log.StagedEnd() > r.end() {
		return
	}
	if r.try("close", errors.Join(r.log.close(), r.ix.flush())) {
		s.rare["clean close"]++
		r.synced = r.end()
		r.open()
		r.reopened(false)
	}
}

// reopened looks what is there.
func (r *simReplica) reopened(lost bool) {
	s := r.sim
	start, end := r.log.StartOffset(), r.end()
	s.note("replica %d is back: [%d, %d), must have %d, index lost %v", r.number, start, end, r.synced, lost)
	if r.importing >= 0 {
		s.rare["crash in import"]++
		if r.log.imported == r.importing {
			r.wasImported()
		}
		r.importing = -1
	}
	if r.resetting >= 0 {
		s.rare["crash in reset"]++
		if start == r.resetting && end == r.resetting {
			r.wasReset(r.resetting)
		}
		r.resetting = -1
	}
	if end < r.synced && r.resetting < 0 {
		s.fatalf("replica %d ends at %d after a crash, must have %d", r.number, end, r.synced)
	}
	if lost {
		r.imported = 0
		r.memory = r.readMemory()
	} else if to := r.log.RemembersBelow(); to < max(r.imported, r.told) && !r.harmed {
		// A cut was under way, and nobody knows how far it came.
		s.rare["crash in a cut below what was imported"]++
		memory := slices.DeleteFunc(slices.Clone(r.memory), func(b *simBatch) bool { return b.next > to })
		for _, b := range r.readMemory() {
			if rest := b.from(to); rest != nil {
				memory = append(memory, rest)
			}
		}
		r.memory, r.imported = memory, min(r.imported, to)
	}
	r.told = 0
	if r.harmed && start == end && r.log.memory == nil {
		r.memory, r.imported = nil, 0 // all was damaged, and the log began anew
	}
	r.cut(end)
	if r.harmed && !r.fs.Crashed() {
		r.dropDamage()
	}
	if r == s.leader {
		// Another may lead now; if not, it goes on in a new epoch.
		s.lead(r)
	}
}

// readMemory is what the log on disk says.
func (r *simReplica) readMemory() (memory []*simBatch) {
	var fr factsReader
	for from, end := r.log.StartOffset(), r.end(); from < end; {
		res, err := r.log.Read(from, end, 1<<20, nil)
		if err != nil {
			r.sim.fatalf("read: %v", err)
		}
		for rest := res.Data; len(rest) > 0; {
			b := Batch(rest[:Batch(rest).Size()])
			rest, from = rest[len(b):], b.NextOffset()
			f, err := fr.batch(b)
			if err != nil {
				r.sim.fatalf("batch: %v", err)
			}
			if f != nil {
				memory = append(memory, &simBatch{base: f.Base, next: f.Next, facts: f})
			}
		}
	}
	return memory
}

// cut takes from history and memory what the log lost behind an offset.
func (r *simReplica) cut(end int64) {
	above := func(at int64) func(b *simBatch) bool { return func(b *simBatch) bool { return b.next > at } }
	r.history = slices.DeleteFunc(slices.Clone(r.history), above(end))
	r.memory = slices.DeleteFunc(slices.Clone(r.memory), above(max(end, r.imported)))
	r.synced = min(r.synced, end)
}

func (r *simReplica) wasReset(to int64) {
	r.imported, r.memory, r.synced = 0, nil, to
	r.history = nil
	for _, b := range r.sim.leader.history {
		if b.next <= to {
			r.history = append(r.history, b)
		}
	}
}

func (r *simReplica) wasImported() {
	for _, b := range r.memory {
		if rest := b.from(r.importing); rest != nil {
			r.imports = append(r.imports, rest)
		}
	}
	r.memory, r.imported = r.imports, r.importing
}

// append notes batches that the log got.
func (r *simReplica) append(b *simBatch) {
	r.history = append(r.history, b)
	if b.facts != nil {
		if rest := b.from(r.imported); rest != nil {
			r.memory = append(r.memory, rest)
		}
	}
}

// agreed is up to where the log is the leader's.
func (r *simReplica) agreed() int64 {
	leader := r.sim.leader.history
	at := int64(0)
	for i := 0; i < len(r.history) && i < len(leader) && r.history[i] == leader[i]; i++ {
		at = r.history[i].next
	}
	return at
}
