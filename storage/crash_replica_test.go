package storage

import (
	"errors"
	"slices"

	"highwater/storage/vfs"
)

// The crash model's part of a follower: appends of the leader's bytes, resets, and
// damage that is mended or dropped.

// replicate appends batches as a leader's answer brings them: of one or more epochs.
func (m *crashModel) replicate() error {
	from := m.log.StagedEnd()
	if from != int64(len(m.records)) {
		m.fatalf("the next offset is %d, want %d", from, len(m.records))
	}
	var raw []byte
	for range 1 + m.rng.IntN(4) {
		if m.rng.IntN(4) == 0 {
			m.epoch += 1 + int32(m.rng.IntN(2))
		}
		n := 1 + m.rng.IntN(9)
		b, ids := m.makeBatch(CompressionNone, m.next, n, m.rng.IntN(1+m.rng.IntN(600)))
		base := int64(len(m.records))
		b.stamp(base, m.epoch)
		raw = append(raw, b...)
		m.keep(b)
		for i := range n {
			m.records = append(m.records, modelRecord{m.next + i, base, m.epoch, ids[i]})
		}
		m.next += n
	}
	st, err := m.log.StageReplica(raw, m.epoch+int32(m.rng.IntN(2)))
	if err != nil {
		return err
	}
	m.note("replicate [%d, %d) epoch %d", st.BaseOffset, st.EndOffset, m.epoch)
	m.rare["replicated"]++
	switch m.rng.IntN(3) {
	case 0:
		err = m.log.Write(st)
	default:
		if err = m.log.Sync(st); err == nil && m.mode == FsyncCommit {
			m.synced = st.EndOffset
		}
	}
	if errors.Is(err, ErrDiskNearlyFull) {
		m.refused(from, st)
	}
	return err
}

// keep remembers a batch as it is in the log.
func (m *crashModel) keep(b Batch) { m.raw[b.BaseOffset()] = slices.Clone(b) }

// refused: what found no room is nowhere; what was staged before it and not yet
// written may have gone with it.
func (m *crashModel) refused(from int64, st Staged) {
	end := m.log.StagedEnd()
	if end > from || end < m.synced {
		m.fatalf("the log ends at %d after refusing [%d, %d), synced %d", end, st.BaseOffset, st.EndOffset, m.synced)
	}
	m.records = m.records[:end]
}

// reset begins the log anew somewhere (R90).
func (m *crashModel) reset() error {
	if err := m.log.syncDirty(); err != nil {
		return err
	}
	start, end := m.log.StartOffset(), m.log.WrittenEnd()
	to := m.rng.Int64N(end + 30)
	m.note("reset [%d, %d) to %d", start, end, to)
	// Until it is done, the log is the old one or the new one.
	m.synced, m.old, m.resetting = end, nil, &to
	m.start = max(m.start, to)
	if err := m.log.ResetTo(to); err != nil {
		return err
	}
	m.wasReset()
	m.rare["reset"]++
	return nil
}

// wasReset takes the reset for done.
func (m *crashModel) wasReset() {
	to := *m.resetting
	m.records = m.records[:min(to, int64(len(m.records)))]
	for int64(len(m.records)) < to {
		m.records = append(m.records, modelRecord{number: -1})
	}
	m.synced, m.resetting, m.harmed = to, nil, false
}

// harm flips a byte of what the index knows to be on the disk; readers find it.
func (m *crashModel) harm() error {
	indexed := m.ix.durable[testID]
	if indexed == nil || indexed.meta == nil || m.log.Lossy() {
		return nil
	}
	for _, s := range indexed.meta.Segments {
		path := "/d/partitions/" + testID.String() + "/" + segmentName(s.Base)
		data := m.fs.Content(path)
		size := min(s.Size, int64(len(data)))
		if size == 0 || m.rng.IntN(3) > 0 || !slices.ContainsFunc(m.log.segments, func(g *segment) bool { return g.base == s.Base }) {
			continue
		}
		from := int64(0) // below the log start nobody would find it
		for from < size && Batch(data[from:]).NextOffset() <= m.log.StartOffset() {
			from += int64(Batch(data[from:]).Size())
		}
		if from >= size {
			continue
		}
		at := from + m.rng.Int64N(size-from)
		for pos := from; pos <= at; pos += int64(Batch(data[pos:]).Size()) {
			if in := at - pos; in >= offLeaderEpoch && in < offMagic {
				at = pos // a damaged epoch isn't found without the index; see TestV26
			}
		}
		m.note("flip byte %d of segment %d", at, s.Base)
		data[at] ^= 1 << m.rng.IntN(8)
		m.fs.SetContent(path, data)
		m.harmed = true
		return m.repair()
	}
	return nil
}

// repair has readers find the damage, and mends or drops it. It may leave some
// when it meets a crash.
func (m *crashModel) repair() error {
	start, end := m.log.StartOffset(), m.log.WrittenEnd()
	for o := start; o < end; o++ {
		_, _ = m.log.Read(o, end, 1, nil) // finds it
	}
	if m.fs.Crashed() { // while the copy was made
		return vfs.ErrCrashed
	}
	drop := m.rng.IntN(3) == 0
	for range 50 {
		damage := m.log.Damage()
		if len(damage) == 0 {
			m.harmed = false
			return nil
		}
		d := damage[m.rng.IntN(len(damage))]
		m.note("damage %v", damage)
		if !drop {
			var raw []byte
			for o := d.From; o < d.To && (len(raw) == 0 || m.rng.IntN(3) > 0); {
				raw = append(raw, m.raw[o]...)
				o = m.raw[o].NextOffset()
			}
			err := m.log.Mend(raw)
			var misfit *ReplicaBatchError
			if err == nil {
				m.rare["mended"]++
				continue
			}
			if !errors.As(err, &misfit) {
				return err
			}
			m.fatalf("mending [%d, %d): %v", d.From, d.To, err)
		}
		to := damage[0].From
		m.synced, m.old = min(m.synced, to), nil
		if to < start { // the log begins anew there
			m.synced = 0
		}
		got, err := m.log.DropDamage()
		if err != nil {
			return err
		}
		m.note("dropped: [%d, %d)", m.log.StartOffset(), got)
		m.records, m.synced = m.records[:got], got
		m.rare["damage dropped"]++
	}
	m.fatalf("damage without end: %v", m.log.Damage())
	return nil
}
