package storage

import (
	"context"
	"errors"
)

// The simulator's followers, and what logs do for themselves.

// fetch gets what the leader has more; false: nothing.
func (r *simReplica) fetch() bool {
	s, l := r.sim, r.sim.leader
	if r == l || r.fs.Crashed() || l.fs.Crashed() {
		return false
	}
	if err := l.log.syncDirty(); err != nil { // a leader's writer doesn't wait for followers
		l.try("sync", err)
		return false
	}
	if err := r.log.syncDirty(); err != nil { // it may have led, and makes all durable before it follows
		r.try("sync", err)
		return false
	}
	// With a new leader, epochs without records go too.
	if to := r.agreed(); (to < r.end() || r.inEpoch != s.epoch && to == r.end()) && to >= r.log.StartOffset() {
		if !r.truncate(to) {
			return false
		}
	}
	r.inEpoch = s.epoch
	if r.end() >= l.end() && r.agreed() == r.end() {
		r.follow()
		return false
	}
	start := l.log.StartOffset()
	res, err := l.log.Read(max(start, r.end()), l.end(), 1+s.rng.IntN(2000), nil)
	if !l.try("read", err) {
		return false
	}
	first := start // where its first batch begins, which may be below its start
	if len(res.Data) > 0 {
		first = Batch(res.Data).BaseOffset()
	}
	empty := r.log.StartOffset() == r.end()
	if r.end() < min(first, start) || r.agreed() < r.end() && !empty || empty && first < r.end() {
		return r.reset(first)
	}
	if len(res.Data) == 0 {
		r.follow()
		return false
	}
	if below := r.needs(res.Data); below > r.log.RemembersBelow() {
		return r.importFrom(l, below)
	}
	return r.replicate(res.Data)
}

func (r *simReplica) truncate(to int64) bool {
	s, end := r.sim, r.end()
	judged := int64(0)
	if r.log.memory != nil {
		judged = r.log.memory.Judged()
	}
	told := r.log.RemembersBelow()
	r.told = told
	got, err := r.log.TruncateTo(to)
	s.note("replica %d is cut from %d to %d: %d %v", r.number, end, to, got, err)
	r.synced = min(r.synced, to)
	if s.unclean && s.cfg.Compact { // the batch around it goes as a whole
		r.synced = min(r.synced, got)
	}
	if !r.try("truncate", err) {
		return false
	}
	r.told = 0
	if got > to || got != to && !s.cfg.Compact { // batches that became one go as one
		s.fatalf("cut to %d, want %d", got, to)
	}
	to = got
	r.inSync = r.inSync && (to >= s.hw || !s.unclean) // after an unclean election it wasn't, and what was compacted goes as a whole
	if to < end {
		s.rare["truncated"]++
	}
	if to < end && judged > to {
		s.rare["cut below what was flushed"]++
	}
	if to < end && to < told {
		s.rare["cut below what was imported"]++
	}
	if to < end {
		r.imported = min(r.imported, to)
	}
	r.cut(to)
	return true
}

func (r *simReplica) reset(to int64) bool {
	r.crashSoon()
	r.resetting, r.synced, r.inSync = to, 0, false
	err := r.log.ResetTo(to)
	r.sim.note("replica %d is reset to %d: %v", r.number, to, err)
	if r.try("reset", err) {
		r.wasReset(to)
		r.resetting = -1
		r.sim.rare["reset"]++
		return true
	}
	return false
}

// crashSoon has one in three of the rarest steps end in a crash.
func (r *simReplica) crashSoon() {
	if !r.sim.calm && r.sim.rng.IntN(3) == 0 {
		r.fs.CrashAt(1 + r.sim.rng.IntN(4))
	}
}

// needs is up to where the leader's bytes don't tell all.
func (r *simReplica) needs(raw []byte) (below int64) {
	if end := r.end(); end > 0 && r.log.StartOffset() == end {
		below = end
	}
	for len(raw) > 0 {
		b := Batch(raw[:Batch(raw).Size()])
		if b.Sparse() {
			below = max(below, b.NextOffset())
		}
		raw = raw[len(b):]
	}
	return below
}

func (r *simReplica) importFrom(l *simReplica, below int64) bool {
	s := r.sim
	if s.cfg.Compact {
		below = max(below, s.hw)
	}
	if l.log.memory != nil {
		r.exact = max(r.exact, l.exact, l.log.memory.Judged())
	}
	export, err := l.log.ExportDedupe(below)
	if !l.try("export", err) {
		return false
	}
	r.imports = nil
	for _, b := range l.memory {
		if part := b.upTo(below); part != nil {
			r.imports = append(r.imports, part)
		}
	}
	if below > r.end() {
		s.rare["import above the log's end"]++
	}
	r.crashSoon()
	r.importing = below
	err = r.log.ImportDedupe(export)
	s.note("replica %d [%d, %d) imports below %d: %v", r.number, r.log.StartOffset(), r.end(), below, err)
	if !r.try("import", err) {
		return false
	}
	r.wasImported()
	r.importing = -1
	s.rare["import"]++
	return true
}

func (r *simReplica) replicate(raw []byte) bool {
	s, l := r.sim, r.sim.leader
	from := r.end()
	st, err := r.log.StageReplica(raw, s.epoch)
	if !r.try("stage", err) {
		return false
	}
	for _, b := range l.history {
		if b.base >= from && b.next <= st.EndOffset {
			r.append(b)
		}
	}
	err = r.log.Sync(st)
	s.note("replica %d has [%d, %d): %v", r.number, from, st.EndOffset, err)
	if !r.try("sync", err) {
		return false
	}
	r.synced = st.EndOffset
	r.follow()
	return true
}

// follow takes over high watermark and log start.
func (r *simReplica) follow() {
	s := r.sim
	hw := min(s.hw, r.end())
	r.log.CheckpointHighWatermark(hw)
	if start := min(s.leader.log.StartOffset(), hw); start > r.log.StartOffset() {
		r.try("advance start", r.log.AdvanceStart(start))
	}
}

func (r *simReplica) flush() {
	if r.fs.Crashed() || r.log.memory == nil {
		return
	}
	r.log.CheckpointHighWatermark(min(r.sim.hw, r.agreed()))
	before := len(r.log.memory.Runs())
	keep := max(r.sim.rng.IntN(60)-20, 0)
	r.log.flushMemory(keep)
	r.sim.rare["flush"]++
	flushed := len(r.log.memory.Runs())
	r.log.mergeRuns()
	switch after := len(r.log.memory.Runs()); {
	case flushed >= 4 && after < flushed && after > 0:
		r.sim.rare["merge"]++
	case after < before:
		r.sim.rare["runs dropped"]++
	}
	if flushed == before && keep > 0 && r.log.memory.Judged() > r.log.memory.Covered() {
		r.sim.rare["ids let go"]++
	}
	r.sim.note("replica %d flushes but for %d: %d runs, %d after, covered %d, judged by %d", r.number, keep, flushed, len(r.log.memory.Runs()), r.log.memory.Covered(), r.log.memory.Judged())
	if r.sim.rng.IntN(2) == 0 {
		r.try("index", r.ix.flush())
	}
}

func (r *simReplica) compact() {
	s := r.sim
	if !s.cfg.Compact || r.fs.Crashed() || r.log.StagedEnd() > r.end() || s.hw == 0 {
		return
	}
	res, err := r.log.Compact(context.Background(), CompactOptions{HighWatermark: min(s.hw, r.agreed()), AtOnce: true})
	s.note("replica %d compacts: %+v %v", r.number, res, err)
	if r.try("compact", err) && res.Replaced > 0 {
		s.rare["compacted"]++
	}
}

// damage flips a byte of what a follower has on disk; what is behind it goes, and is fetched again.
func (r *simReplica) damage() {
	s := r.sim
	if r == s.leader || s.skewed || r.fs.Crashed() || r.log.StagedEnd() > r.end() || r.end() == r.log.StartOffset() {
		return
	}
	if !r.try("sync", r.log.syncDirty()) || !r.try("index", r.ix.flush()) {
		return
	}
	offset := r.log.StartOffset() + s.rng.Int64N(r.end()-r.log.StartOffset())
	base, pos, err := r.log.batchAt(offset)
	if err != nil || base < r.log.StartOffset() {
		return
	}
	r.log.mu.Lock()
	g, _ := r.log.segmentAt(base)
	r.log.mu.Unlock()
	path := "/d/partitions/" + testID.String() + "/" + segmentName(g.base)
	data := r.fs.Content(path)
	at := pos + offMagic + s.rng.Int64N(int64(Batch(data[pos:]).Size())-offMagic)
	data[at] ^= 1 << s.rng.IntN(8)
	r.fs.SetContent(path, data)
	s.note("replica %d is damaged at %d", r.number, base)
	r.harmed, r.inSync, r.synced = true, false, 0
	r.dropDamage()
}

// dropDamage has a reader find the damage, and cuts the log before it; a crash may come
// between.
func (r *simReplica) dropDamage() {
	s := r.sim
	for o := r.log.StartOffset(); o < r.end(); o++ {
		_, _ = r.log.Read(o, r.end(), 1, nil) // finds it
	}
	judged := int64(0)
	if r.log.memory != nil {
		judged = r.log.memory.Judged()
	}
	r.exact = max(r.exact, judged)
	for len(r.log.Damage()) > 0 {
		end, err := r.log.DropDamage()
		s.note("replica %d drops damage: [%d, %d) %v", r.number, r.log.StartOffset(), end, err)
		if !r.try("drop damage", err) {
			return
		}
		r.wasDropped(end)
		s.rare["damage dropped"]++
	}
	if r.fs.Crashed() {
		return
	}
	r.harmed = false
	if judged > r.end() {
		s.rare["cut below what was flushed"]++
	}
}

func (r *simReplica) wasDropped(end int64) {
	if r.log.memory == nil {
		r.imported, r.memory = 0, nil // it begins anew
	}
	r.imported = min(r.imported, end)
	r.cut(end)
	r.synced = end
}

// find looks an id up.
func (r *simReplica) find() {
	s := r.sim
	if r.fs.Crashed() || s.cfg.DedupeAge == 0 || r.end() < r.exact {
		return
	}
	id := s.id()
	want, live := newSimMemory(r).find(id)
	offset, found, err := r.log.FindMessage([]byte(id))
	if errors.Is(err, ErrClosed) || !r.try("find", err) {
		return
	}
	if found != live || found && offset != want.offset {
		s.fatalf("replica %d: found %v %d, want %v %d", r.number, found, offset, live, want.offset)
	}
}
