package storage_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/storage"
)

// partition is the log of a topic with that number.
func partition(topic byte) storage.PartitionID {
	return storage.PartitionID{Topic: uuid.UUID{15: topic}, Partition: int32(topic)}
}

func segmentPath(dir string, id storage.PartitionID, base string) string {
	return filepath.Join(dir, "partitions", id.String(), strings.Repeat("0", 20-len(base))+base+".log")
}

// heldBy maps each log that Held tells of to why it is lossy.
func heldBy(t *testing.T, s *storage.Store) map[storage.PartitionID]string {
	t.Helper()
	held, err := s.Held(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	why := map[storage.PartitionID]string{}
	for _, h := range held {
		if h.Lossy != (h.Reason != "") {
			t.Errorf("%v: lossy %v for the reason %q", h.ID, h.Lossy, h.Reason)
		}
		why[h.ID] = h.Reason
	}
	return why
}

// crashed is what a kill -9 leaves of a store that runs on dir: a copy.
func crashed(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestR73_F33_F45_HeldTellsWhatIsThere (R34, R72): what a broker says of its
// logs when it registers, and that it says so again after a crash, until the
// controller knows.
func TestR73_F33_F45_HeldTellsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	for topic := range byte(6) {
		l := mustOpenLog(t, s, partition(topic))
		if topic == 5 {
			continue // never appended to
		}
		appendRecords(t, l, 0, 40)
		if topic == 1 {
			l.CheckpointHighWatermark(1000) // F45: ahead of the log
		}
	}
	closeStore(t, s)
	if err := os.RemoveAll(filepath.Join(dir, "partitions", partition(2).String())); err != nil {
		t.Fatal(err)
	}
	damaged := segmentPath(dir, partition(3), "0")
	data, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(damaged, append(data, 0), 0o640); err != nil { // longer: it is scanned
		t.Fatal(err)
	}
	if err := os.Truncate(segmentPath(dir, partition(4), "0"), 100); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		s, _ = openStore(t, dir)
		held := heldBy(t, s)
		if _, there := held[partition(2)]; there || len(held) != 5 {
			t.Fatalf("start %d: held %v", round, held)
		}
		for id, reason := range held {
			if lossy := id == partition(1) || id == partition(3) || id == partition(4); lossy != (reason != "") {
				t.Errorf("start %d: partition %v is lossy for the reason %q", round, id, reason)
			}
		}
		if round == 0 {
			closeStore(t, s)
		}
	}
	s.SetBrokerEpoch(7)
	closeStore(t, s)
	s, _ = openStore(t, dir)
	for id, reason := range heldBy(t, s) {
		if lossy := id == partition(3) || id == partition(4); lossy != (reason != "") {
			t.Errorf("after the controller knew: partition %v is lossy for the reason %q", id, reason)
		}
	}
}

// TestR72_LogsWithoutIndexProveNothing: when the index is gone, flushed records may
// be too; logs that were in it are still proved after a plain kill.
func TestR72_LogsWithoutIndexProveNothing(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	// Two logs whose first append wasn't followed by any checkpoint.
	appendRecords(t, mustOpenLog(t, s, partition(1)), 0, 9)
	if st, err := mustOpenLog(t, s, partition(2)).StageReplica(replicaBatch(t), 1); err != nil {
		t.Fatal(err)
	} else if err := mustOpenLog(t, s, partition(2)).Sync(st); err != nil {
		t.Fatal(err)
	}
	mustOpenLog(t, s, partition(3))
	killed, lost := crashed(t, dir), crashed(t, dir)
	k, _ := openStore(t, killed)
	if held := heldBy(t, k); len(held) != 3 || held[partition(1)]+held[partition(2)]+held[partition(3)] != "" || !k.DurableStart() {
		t.Errorf("after a kill: durable %v, held %v", k.DurableStart(), held)
	}
	if err := os.Remove(filepath.Join(lost, "index.db")); err != nil {
		t.Fatal(err)
	}
	l, _ := openStore(t, lost)
	if held := heldBy(t, l); len(held) != 3 || slices.Contains(slices.Collect(maps.Values(held)), "") {
		t.Errorf("without the index: held %v", held)
	}
}

func replicaBatch(t *testing.T) []byte {
	t.Helper()
	b := storage.NewBatchBuilder(nil)
	b.Append(&storage.Record{Timestamp: 1, Value: []byte("v")})
	batch, err := b.Seal(storage.CompressionNone, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch[15] = 1 // leader epoch 1, offset 0
	copy(batch[12:15], []byte{0, 0, 0})
	return batch
}

// TestR72_DurableStart: only runs that fsynced what they reported, on a disk that
// never failed, prove anything, and a crash on the way doesn't wash one clean.
func TestR72_DurableStart(t *testing.T) {
	dir := t.TempDir()
	start := func(mode storage.Fsync, want bool) *storage.Store {
		t.Helper()
		s, err := storage.Open(storage.Options{Dir: dir, Fsync: mode, Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if s.DurableStart() != want {
			t.Fatalf("durable start %v, want %v", s.DurableStart(), want)
		}
		return s
	}
	s := start(storage.FsyncCommit, true)
	appendRecords(t, mustOpenLog(t, s, partition(1)), 0, 5)
	closeStore(t, s)
	s = start(storage.FsyncNever, true)
	s.SetBrokerEpoch(2)
	closeStore(t, s)
	s = start(storage.FsyncCommit, false) // the run before didn't fsync
	closeStore(t, s)
	s = start(storage.FsyncCommit, false) // and the last one never told anybody
	s.SetBrokerEpoch(3)
	closeStore(t, s)
	s = start(storage.FsyncCommit, true)
	closeStore(t, s)
	if err := os.WriteFile(filepath.Join(dir, "disk-failed"), []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	s = start(storage.FsyncCommit, false)
	if _, err := os.Lstat(filepath.Join(dir, "disk-failed")); !os.IsNotExist(err) {
		t.Errorf("the mark is still there: %v", err)
	}
	s.SetBrokerEpoch(4)
	closeStore(t, s)
	closeStore(t, start(storage.FsyncCommit, true))
}

// TestHeldLogsAreHandedOut: OpenLog gives out what Held recovered, with the
// caller's configs and callback; a log that nobody asks for can be set aside.
func TestHeldLogsAreHandedOut(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	appendRecords(t, mustOpenLog(t, s, partition(1)), 0, 20)
	appendRecords(t, mustOpenLog(t, s, partition(2)), 0, 20)
	closeStore(t, s)
	s, _ = openStore(t, dir)
	if held := heldBy(t, s); len(held) != 2 {
		t.Fatalf("held %v", held)
	}
	var told atomic.Int64
	l, err := s.OpenLog(partition(1), storage.LogConfig{SegmentBytes: 300, RetentionBytes: -1, RetentionAge: -1}, func() { told.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	appendRecords(t, l, 20, 60)
	checkRecords(t, l, 0, 60)
	if told.Load() == 0 {
		t.Error("the callback was never called")
	}
	if segments, err := os.ReadDir(filepath.Join(dir, "partitions", partition(1).String())); err != nil || len(segments) < 4 {
		t.Errorf("%d segments, %v: not the caller's segment size", len(segments), err)
	}
	if err := s.SetAside(partition(2)); err != nil {
		t.Fatal(err)
	}
	if held := heldBy(t, s); len(held) != 1 {
		t.Errorf("held %v after one was set aside", held)
	}
}

// TestFirstAppendsShareAnIndexTransaction: a follower of many new partitions gets
// its first records for all of them one after the other, and the index must know
// each before that, which may not cost a transaction each.
func TestFirstAppendsShareAnIndexTransaction(t *testing.T) {
	s, _ := openStore(t, t.TempDir())
	var logs []*storage.Log
	for topic := range byte(200) {
		logs = append(logs, mustOpenLog(t, s, partition(topic)))
	}
	before := s.Stats().IndexTransactions
	for _, l := range logs {
		st, err := l.StageReplica(replicaBatch(t), 1)
		if err == nil {
			err = l.Write(st)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Stats().IndexTransactions - before; n < 1 || n > 20 {
		t.Errorf("%d transactions for the first appends to %d logs", n, len(logs))
	}
}
