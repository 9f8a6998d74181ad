package storage

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"
)

// rawLog is all of a log's bytes, as its followers get them.
func rawLog(t testing.TB, l *Log) []byte {
	t.Helper()
	var raw []byte
	for offset, end := l.StartOffset(), l.WrittenEnd(); offset < end; {
		res, err := l.Read(offset, end, 1<<20, nil)
		if err != nil {
			t.Fatalf("read at %d: %v", offset, err)
		}
		raw = append(raw, res.Data...)
		for data := res.Data; len(data) > 0; {
			b, rest, err := ParseBatch(data)
			if err != nil {
				t.Fatal(err)
			}
			offset, data = b.NextOffset(), rest
		}
	}
	return raw
}

// stamped is a batch as a leader of that epoch has it at that offset.
func stamped(t testing.TB, base int64, n int, epoch int32) Batch {
	b := makeBatch(t, CompressionNone, int(base), n, 20, steady)
	b.stamp(base, epoch)
	return b
}

func mustReplicate(t testing.TB, l *Log, raw []byte, epoch int32) Staged {
	t.Helper()
	s, err := l.StageReplica(raw, epoch)
	if err == nil {
		err = l.Sync(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestV23_FollowerAppendKeepsTheLeadersBytes (R17, R18, V23, V26, V27): batches of
// several epochs keep offsets, epochs and timestamps, over a restart too.
func TestV23_FollowerAppendKeepsTheLeadersBytes(t *testing.T) {
	leader, follower := newMemStore(t, LogConfig{SegmentBytes: 900, LogAppendTime: true}), newMemStore(t, LogConfig{SegmentBytes: 2000})
	for epoch := int32(3); epoch < 9; epoch += 2 {
		if err := leader.log.BeginEpoch(epoch); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			s, err := leader.log.Stage([]Batch{makeBatch(t, CompressionNone, int(leader.log.StagedEnd()), 3, 50, steady)}, epoch)
			if err == nil {
				err = leader.log.Sync(s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		raw := rawLog(t, leader.log)
		old := len(rawLog(t, follower.log))
		s := mustReplicate(t, follower.log, slices.Clone(raw[old:]), epoch)
		if s.EndOffset != leader.log.WrittenEnd() || follower.log.DurableEnd() != s.EndOffset {
			t.Fatalf("staged up to %d, durable %d, the leader has %d", s.EndOffset, follower.log.DurableEnd(), leader.log.WrittenEnd())
		}
	}
	same := func() {
		t.Helper()
		if !bytes.Equal(rawLog(t, leader.log), rawLog(t, follower.log)) {
			t.Fatal("the follower's bytes differ from the leader's")
		}
		if l, f := leader.log.Epochs(), follower.log.Epochs(); !reflect.DeepEqual(l, f) {
			t.Fatalf("epochs %v, the leader's are %v", f, l)
		}
	}
	same()
	follower.kill()
	follower.open()
	same()
	follower.kill()
	follower.loseIndex()
	follower.open()
	same()
}

// TestR17_FollowerAppendRefusals: whatever doesn't go on exactly where the log
// ends leaves the log as it was, and the error names the offset.
func TestR17_FollowerAppendRefusals(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	mustReplicate(t, s.log, slices.Concat(stamped(t, 0, 3, 2), stamped(t, 3, 2, 4)), 4)
	before, epochs := rawLog(t, s.log), s.log.Epochs()
	flip := func(b Batch, at int) Batch { b[at] ^= 4; return b }
	for name, c := range map[string]struct {
		raw     []byte
		epoch   int32
		offset  int64
		corrupt bool
	}{
		"gap":                       {stamped(t, 6, 1, 4), 4, 5, false},
		"overlap":                   {stamped(t, 3, 4, 4), 4, 5, false},
		"again":                     {stamped(t, 3, 2, 4), 4, 5, false},
		"epoch goes back":           {stamped(t, 5, 1, 3), 4, 5, false},
		"no epoch":                  {stamped(t, 5, 1, -1), 4, 5, false},
		"epoch above the leader's":  {stamped(t, 5, 1, 5), 4, 5, false},
		"gap in the middle":         {slices.Concat(stamped(t, 5, 2, 4), stamped(t, 8, 2, 4)), 4, 7, false},
		"epoch back in the middle":  {slices.Concat(stamped(t, 5, 2, 6), stamped(t, 7, 2, 5)), 6, 7, false},
		"flipped bit":               {flip(stamped(t, 5, 2, 4), 80), 4, 5, true},
		"flipped bit in the second": {slices.Concat(stamped(t, 5, 2, 4), flip(stamped(t, 7, 2, 4), 90)), 4, 7, true},
		"flipped length":            {flip(stamped(t, 5, 2, 4), offBatchLength+3), 4, 5, true},
		"cut off":                   {stamped(t, 5, 2, 4)[:70], 4, 5, true},
		"bytes behind":              {slices.Concat(stamped(t, 5, 2, 4), []byte{0}), 4, 7, true},
	} {
		_, err := s.log.StageReplica(c.raw, c.epoch)
		var refused *ReplicaBatchError
		if !errors.As(err, &refused) || refused.Offset != c.offset || refused.Corrupt != c.corrupt {
			t.Errorf("%s: %v", name, err)
		}
		if s.log.StagedEnd() != 5 || !slices.Equal(s.log.Epochs(), epochs) {
			t.Errorf("%s: log ends at %d, epochs %v", name, s.log.StagedEnd(), s.log.Epochs())
		}
	}
	mustReplicate(t, s.log, stamped(t, 5, 1, 4), 7)
	if got := rawLog(t, s.log); !bytes.Equal(got[:len(before)], before) || s.log.WrittenEnd() != 6 {
		t.Error("the log isn't what it was")
	}
}

// TestR36_EpochsWithoutRecordsGiveWay: a replica that led without records in an
// epoch nobody else knows cuts the entry at its end and goes on in the older one
// (F4, KAFKA-10706).
func TestR36_EpochsWithoutRecordsGiveWay(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	mustReplicate(t, s.log, stamped(t, 0, 3, 2), 2)
	if err := s.log.BeginEpoch(4); err != nil {
		t.Fatal(err)
	}
	next := stamped(t, 3, 1, 3)
	if _, err := s.log.StageReplica(next, 5); err == nil {
		t.Fatal("an epoch went back")
	}
	if end, err := s.log.TruncateTo(3); err != nil || end != 3 {
		t.Fatal(end, err)
	}
	mustReplicate(t, s.log, next, 5)
	want := []EpochEntry{{2, 0}, {3, 3}}
	if got := s.log.Epochs(); !slices.Equal(got, want) {
		t.Fatalf("epochs %v, want %v", got, want)
	}
}

// TestF46_FollowerAppendOnAFullDisk: what found no room is nowhere, nor is its
// epoch, and the same bytes are taken later.
func TestF46_FollowerAppendOnAFullDisk(t *testing.T) {
	s := newMemStore(t, LogConfig{})
	mustReplicate(t, s.log, stamped(t, 0, 3, 2), 2)
	more := slices.Concat(stamped(t, 3, 2, 4), stamped(t, 5, 2, 6), stamped(t, 7, 2, 8))
	s.fs.SetFault(func(op, _ string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	st, err := s.log.StageReplica(slices.Clone(more), 8)
	if err == nil {
		err = s.log.Sync(st)
	}
	if !errors.Is(err, ErrDiskNearlyFull) {
		t.Fatal(err)
	}
	s.fs.SetFault(nil)
	if end := s.log.StagedEnd(); end != 3 {
		t.Fatalf("the log ends at %d", end)
	}
	mustReplicate(t, s.log, more, 8)
	want := []EpochEntry{{2, 0}, {4, 3}, {6, 5}, {8, 7}}
	if got := s.log.Epochs(); !slices.Equal(got, want) {
		t.Fatalf("epochs %v, want %v", got, want)
	}
}

// TestD3_AppendTimeGoesOnBehindTheLeaders: a follower that comes to lead stamps no
// append time below one that the log holds.
func TestD3_AppendTimeGoesOnBehindTheLeaders(t *testing.T) {
	s := newMemStore(t, LogConfig{LogAppendTime: true})
	ahead := time.UnixMilli(1_000_000).Add(time.Hour).UnixMilli() // the test's clock stands still
	b := stamped(t, 0, 2, 1)
	b.stampAppendTime(ahead)
	mustReplicate(t, s.log, b, 1)
	if st := mustAppend(t, s.log, makeBatch(t, CompressionNone, 2, 1, 5, steady)); st.AppendTime != ahead {
		t.Fatalf("append time %d, want %d", st.AppendTime, ahead)
	}
}

// TestV26_FlippedLeaderEpoch: no checksum covers a batch's leader epoch. With the
// index every reader gets the right one; without it, the batches around tell it,
// if there are enough of the same epoch.
func TestV26_FlippedLeaderEpoch(t *testing.T) {
	p := newPair(t)
	whole := rawLog(t, p.leader.log)
	var bases []int64
	for raw := whole; len(raw) > 0; raw = raw[Batch(raw).Size():] {
		bases = append(bases, Batch(raw).BaseOffset())
	}
	for i, base := range bases {
		for bit := range 6 {
			s := p.follower
			var segment, pos int64
			for _, g := range s.log.segments {
				if g.base <= base {
					segment = g.base
				}
			}
			for data := s.fs.Content(s.path(segment)); Batch(data[pos:]).BaseOffset() < base; {
				pos += int64(Batch(data[pos:]).Size())
			}
			flip := func() {
				s.edit(segment, func(d []byte) []byte { d[pos+offLeaderEpoch+3] ^= 1 << bit; return d })
			}
			flip()
			if !bytes.Equal(rawLog(t, s.log), whole) {
				t.Fatalf("bit %d of the epoch at %d reaches readers", bit, base)
			}
			s.kill()
			if i%3 == 0 {
				s.loseIndex()
			}
			s.open()
			s.log.tellLoss()
			s.log.forgetLoss()
			lost := i%3 == 0
			few := i%7 <= 1 || i%7 == 6 || i == len(bases)-1 // at its epoch's begin or end
			if !(lost && few) && !bytes.Equal(rawLog(t, s.log), whole) {
				t.Fatalf("bit %d of the epoch at %d reaches readers after a restart, index lost %v; epochs %v", bit, base, lost, s.log.Epochs())
			}
			flip()
			s.kill()
			s.loseIndex()
			s.open()
			s.log.tellLoss()
			s.log.forgetLoss()
			p.wantEqual(t)
		}
	}
}
