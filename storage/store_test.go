package storage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/storage"
)

// logBuffer collects what a store logs.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// warnings returns the lines of level warn and above, and forgets all lines.
func (b *logBuffer) warnings(t *testing.T) []string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for line := range strings.Lines(b.buf.String()) {
		var entry struct{ Level string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if entry.Level == "warn" || entry.Level == "error" {
			found = append(found, line)
		}
	}
	b.buf.Reset()
	return found
}

func openStore(t *testing.T, dir string) (*storage.Store, *logBuffer) {
	t.Helper()
	logs := &logBuffer{}
	s, err := storage.Open(storage.Options{Dir: dir, Fsync: storage.FsyncCommit, Logger: zerolog.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, logs
}

func closeStore(t *testing.T, s *storage.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// treeOf lists everything below dir with sizes and times, for before and after.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d %v\n", path, info.Mode(), info.Size(), info.ModTime())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestH45_SecondProcessOnTheSameFolder opens a held directory again, by its name,
// by a symlink and by a detour. An flock knows no processes, only open files, so
// one process can play both parts.
func TestH45_SecondProcessOnTheSameFolder(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	first, _ := openStore(t, dir)
	link := filepath.Join(parent, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	before := treeOf(t, dir)
	for _, other := range []string{dir, link, filepath.Join(dir, "partitions", "..")} {
		_, err := storage.Open(storage.Options{Dir: other})
		if !errors.Is(err, storage.ErrLocked) {
			t.Fatalf("%s: got %v", other, err)
		}
		locked := (*storage.LockedError)(nil)
		if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Path != filepath.Join(other, "LOCK") {
			t.Fatalf("%s: error doesn't name lock and holder: %v", other, err)
		}
		if !strings.Contains(err.Error(), locked.Path) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
			t.Fatalf("message doesn't name lock and holder: %v", err)
		}
	}
	if after := treeOf(t, dir); after != before {
		t.Fatalf("the second one touched something:\n%s\nbefore:\n%s", after, before)
	}
	closeStore(t, first)
	again, _ := openStore(t, link)
	closeStore(t, again)
}

// TestH45_LockFileThatIsALink: following it would lock another file than others do.
func TestH45_LockFileThatIsALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open(storage.Options{Dir: dir}); err == nil {
		t.Fatal("a LOCK that is a symlink was followed")
	}
}

// TestF36_F37_DirectoryOfAnotherNodeOrCluster: refused, and nothing touched.
func TestF36_F37_DirectoryOfAnotherNodeOrCluster(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	if err := s.SetIdentity("", 2); err != nil {
		t.Fatal(err)
	}
	if err := s.SetIdentity("cluster-a", 0); err != nil {
		t.Fatal(err)
	}
	mismatch := (*storage.IdentityError)(nil)
	if err := s.SetIdentity("cluster-b", 2); !errors.As(err, &mismatch) {
		t.Fatalf("got %v", err)
	}
	want := s.Identity()
	closeStore(t, s)
	if want.ClusterID != "cluster-a" || want.NodeID != 2 || uuid.Validate(want.DirectoryID) != nil {
		t.Fatalf("identity is %+v", want)
	}

	before := treeOf(t, dir)
	for field, opts := range map[string]storage.Options{
		"node":    {Dir: dir, NodeID: 3, ClusterID: "cluster-a"},
		"cluster": {Dir: dir, NodeID: 2, ClusterID: "cluster-b"},
	} {
		_, err := storage.Open(opts)
		if mismatch = nil; !errors.As(err, &mismatch) || mismatch.Field != field {
			t.Fatalf("%s: got %v", field, err)
		}
	}
	// Naming the holder is the one thing that happens before the look at meta.json.
	if after := treeOf(t, dir); withoutLock(after) != withoutLock(before) {
		t.Fatalf("a refused directory was touched:\n%s\nbefore:\n%s", after, before)
	}
	s, _ = openStore(t, dir)
	if got := s.Identity(); got != want {
		t.Fatalf("identity is %+v, was %+v", got, want)
	}
}

func withoutLock(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.Contains(line, "LOCK") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestIdentityFileOfANewerVersionOrDamaged(t *testing.T) {
	for name, content := range map[string]string{
		"newer":   `{"format_version":2,"directory_id":"6f9619ff-8b86-4d01-b42d-00cf4fc964ff"}`,
		"empty":   ``,
		"garbage": `{"format_version":`,
		"zeros":   "\x00\x00\x00\x00",
		"no id":   `{"format_version":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, _ := openStore(t, dir)
			closeStore(t, s)
			path := filepath.Join(dir, "meta.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := storage.Open(storage.Options{Dir: dir})
			newer, corrupt := (*storage.FormatVersionError)(nil), (*storage.CorruptError)(nil)
			if name == "newer" && (!errors.As(err, &newer) || newer.Version != 2) || name != "newer" && !errors.As(err, &corrupt) {
				t.Fatalf("got %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != content {
				t.Fatalf("meta.json is now %q, %v", got, err)
			}
		})
	}
}

// TestR71_CleanShutdownMarker: a run is clean only if it was closed, and the
// marker is gone as soon as the next one has begun.
func TestR71_CleanShutdownMarker(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "clean-shutdown")
	s, _ := openStore(t, dir)
	if s.CleanStart() {
		t.Fatal("a new directory counts as closed cleanly")
	}
	s.SetBrokerEpoch(77)
	closeStore(t, s)

	s, _ = openStore(t, dir)
	if epoch, ok := s.PreviousBrokerEpoch(); !s.CleanStart() || !ok || epoch != 77 {
		t.Fatalf("clean %v, epoch %d %v", s.CleanStart(), epoch, ok)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the marker is still there during a run: %v", err)
	}
	crashed := copyDir(t, dir) // what a kill -9 would leave now
	closeStore(t, s)

	s, _ = openStore(t, crashed)
	if _, ok := s.PreviousBrokerEpoch(); s.CleanStart() || ok {
		t.Fatal("a killed run counts as clean")
	}
	closeStore(t, s)

	// A marker put back from another run proves nothing.
	old, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, dir)
	crashed = copyDir(t, dir)
	closeStore(t, s)
	if err := os.WriteFile(filepath.Join(crashed, "clean-shutdown"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _ = openStore(t, crashed); s.CleanStart() {
		t.Fatal("an older marker was believed")
	}
}

// copyDir copies a data directory, as a kill at this moment would leave it.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestR86_DeletedLogsAreRenamedFirst(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	keep := storage.PartitionID{Topic: uuid.New(), Partition: 0}
	gone := storage.PartitionID{Topic: uuid.New(), Partition: 7}
	for _, id := range []storage.PartitionID{keep, gone} {
		appendRecords(t, mustOpenLog(t, s, id), 0, 3)
	}
	if err := s.DeleteLog(gone); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteLog(gone); err != nil {
		t.Fatalf("deleting it again: %v", err)
	}
	check := func() {
		t.Helper()
		if ids, err := s.LogsOnDisk(); err != nil || len(ids) != 1 || ids[0] != keep {
			t.Fatalf("logs on disk: %v, %v", ids, err)
		}
	}
	check()
	dir = copyDir(t, dir) // killed before the index forgot the log
	closeStore(t, s)

	// Run of any later store removes what is left.
	s, _ = openStore(t, dir)
	check()
	stop := runStore(t, s)
	waitFor(t, func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "partitions", "*deleted*"))
		return err == nil && len(left) == 0
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestLogsOnDiskIgnoresWhatIsNoLog(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	id := storage.PartitionID{Topic: uuid.New(), Partition: 2147483647}
	for _, name := range []string{id.String(), id.String() + "x", "..." + id.String(), id.Topic.String() + "-01", id.Topic.String() + "-+1",
		id.Topic.String() + "--1", id.Topic.String() + "-2147483648", strings.ToUpper(id.String()), "lost+found", id.Topic.String()} {
		if err := os.Mkdir(filepath.Join(dir, "partitions", name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	file := storage.PartitionID{Topic: uuid.New()}
	if err := os.WriteFile(filepath.Join(dir, "partitions", file.String()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.LogsOnDisk(); err != nil || len(ids) != 1 || ids[0] != id {
		t.Fatalf("got %v, %v", ids, err)
	}
}

func TestStoreAfterClose(t *testing.T) {
	s, _ := openStore(t, t.TempDir())
	closeStore(t, s)
	if _, err := s.OpenLog(storage.PartitionID{Topic: uuid.New()}, storage.LogConfig{}, nil); !errors.Is(err, storage.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing again: %v", err)
	}
}

// TestFsyncInterval: the store's loop fsyncs what was written, without anybody asking.
func TestFsyncInterval(t *testing.T) {
	var fsyncs atomic.Int64
	s, err := storage.Open(storage.Options{Dir: t.TempDir(), Fsync: storage.FsyncInterval, FsyncInterval: time.Millisecond,
		Logger: zerolog.Nop(), OnFsync: func(time.Duration) { fsyncs.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t, s)
	l := mustOpenLog(t, s, storage.PartitionID{Topic: uuid.New()})
	for n := range int64(3) {
		before := fsyncs.Load()
		appendRecords(t, l, n, n+1)
		if l.DurableEnd() != n+1 {
			t.Fatalf("a written record doesn't count as durable: %d", l.DurableEnd())
		}
		waitFor(t, func() bool { return fsyncs.Load() > before })
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	if st.Fsyncs != fsyncs.Load() || st.Logs != 1 || st.LogBytes != l.SizeBytes() || st.LogBytes == 0 || st.FreeBytes <= 0 || st.DiskNearlyFull {
		t.Fatalf("stats are %+v after %d fsyncs", st, fsyncs.Load())
	}
	closeStore(t, s)
}
