package storage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"highwater/storage"
)

// replaceIndexFile is what a test does to index.db between two runs. older is a
// copy of the file from an earlier moment.
type replaceIndexFile struct {
	name    string
	replace func(t *testing.T, path string, older []byte)
}

func indexDamages() []replaceIndexFile {
	rewrite := func(change func(data []byte) []byte) func(*testing.T, string, []byte) {
		return func(t *testing.T, path string, _ []byte) {
			t.Helper()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []replaceIndexFile{
		{"half", rewrite(func(d []byte) []byte { return d[:len(bytes.TrimRight(d, "\x00"))/2] })}, // the end is sparse
		{"cut inside the pages in use", rewrite(func(d []byte) []byte { return d[:3*4096+17] })},
		{"zeros", rewrite(func(d []byte) []byte { clear(d); return d })},
		{"ones", rewrite(func(d []byte) []byte { return bytes.Repeat([]byte{0xff}, len(d)) })},
		{"0 bytes", rewrite(func([]byte) []byte { return nil })},
		{"1 byte", rewrite(func(d []byte) []byte { return d[:1] })},
		{"meta pages zeroed", rewrite(func(d []byte) []byte { clear(d[:2*4096]); return d })},
		{"all but the meta pages zeroed", rewrite(func(d []byte) []byte { clear(d[2*4096:]); return d })},
		{"another program's file", rewrite(func([]byte) []byte { return bytes.Repeat([]byte("not a database\n"), 10_000) })},
		{"deleted", func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
		{"older copy", func(t *testing.T, path string, older []byte) {
			t.Helper()
			if err := os.WriteFile(path, older, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// TestH42_IndexFileDamaged: whatever happens to the index, the next start needs
// no hands, every record is there with its value, the ends are not lower, and
// the log says so once.
func TestH42_IndexFileDamaged(t *testing.T) {
	const records = 10_000
	for _, stop := range []string{"closed", "killed"} {
		dir := t.TempDir()
		index := filepath.Join(dir, "index.db")
		id := storage.PartitionID{Topic: uuid.New(), Partition: 3}

		s, _ := openStore(t, dir)
		appendRecords(t, mustOpenLog(t, s, id), 0, records/2)
		closeStore(t, s)
		older, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		s, _ = openStore(t, dir)
		l := mustOpenLog(t, s, id)
		appendRecords(t, l, records/2, records)
		l.CheckpointHighWatermark(records)
		if stop == "killed" {
			dir = copyDir(t, dir)
		}
		closeStore(t, s)

		for _, damage := range indexDamages() {
			t.Run(stop+"/"+damage.name, func(t *testing.T) {
				dir := copyDir(t, dir)
				damage.replace(t, filepath.Join(dir, "index.db"), older)
				s, logs := openStore(t, dir)
				if s.CleanStart() {
					t.Fatal("the index was damaged and the start counts as clean")
				}
				checkRecords(t, mustOpenLog(t, s, id), 0, records)
				if w := logs.warnings(t); len(w) != 1 {
					t.Fatalf("%d warnings instead of one: %v", len(w), w)
				}
				appendRecords(t, mustOpenLog(t, s, id), records, records+10)
				closeStore(t, s)

				s, logs = openStore(t, dir) // and the time after that is like any other
				if !s.CleanStart() {
					t.Fatal("not clean after a clean close")
				}
				checkRecords(t, mustOpenLog(t, s, id), 0, records+10)
				if w := logs.warnings(t); len(w) != 0 {
					t.Fatalf("warnings: %v", w)
				}
			})
		}
	}
}

// TestOlderIndexIsNeverTaken puts back the index of every earlier moment at which
// a copy could be taken with the store closed.
func TestOlderIndexIsNeverTaken(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, "index.db")
	id := storage.PartitionID{Topic: uuid.New()}
	var copies [][]byte
	end := int64(0)
	for range 5 {
		s, _ := openStore(t, dir)
		appendRecords(t, mustOpenLog(t, s, id), end, end+100)
		end += 100
		closeStore(t, s)
		data, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		copies = append(copies, data)
	}
	for n, older := range copies {
		dir := copyDir(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "index.db"), older, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _ := openStore(t, dir)
		if want := n == len(copies)-1; s.CleanStart() != want {
			t.Fatalf("copy %d: clean start is %v", n, s.CleanStart())
		}
		checkRecords(t, mustOpenLog(t, s, id), 0, end)
		closeStore(t, s)
	}
}

// TestDamagedIndexFilesAreKept: the newest two stay for whoever wants to look.
func TestDamagedIndexFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	for n := range 5 {
		s, _ := openStore(t, dir)
		closeStore(t, s)
		if err := os.WriteFile(filepath.Join(dir, "index.db"), bytes.Repeat([]byte{byte(n)}, 100+n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := openStore(t, dir)
	closeStore(t, s)
	kept, err := filepath.Glob(filepath.Join(dir, "index.db.damaged-*"))
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	for i, name := range []string{"index.db.damaged-4", "index.db.damaged-5"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != int64(103+i) {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
	}
}

// TestIndexHeldByAnotherProgram: someone looks into the file with a bbolt tool.
// That is no damage: the store must neither wait for ever nor move it aside.
func TestIndexHeldByAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	closeStore(t, s)
	path := filepath.Join(dir, "index.db")
	tool, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Open(storage.Options{Dir: dir}); err == nil {
		t.Fatal("opened an index that another program holds")
	}
	if err := tool.Close(); err != nil {
		t.Fatal(err)
	}
	if moved, err := filepath.Glob(path + ".damaged*"); err != nil || len(moved) != 0 {
		t.Fatalf("moved aside: %v, %v", moved, err)
	}
}

// TestF52_KilledDuringTheFirstCreation opens a directory in every state that the
// first Open leaves behind when it is killed.
func TestF52_KilledDuringTheFirstCreation(t *testing.T) {
	whole := t.TempDir()
	s, _ := openStore(t, whole)
	closeStore(t, s)
	index, err := os.ReadFile(filepath.Join(whole, "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	mkdir := func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, "partitions"), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	steps := []func(*testing.T, string){ // what Open does, in its order, each step begun or done
		write("LOCK", nil), write("LOCK", []byte("12")), write("LOCK", []byte("12345\n")), mkdir,
		write("ballast", make([]byte, 10_000)),
		write("index.db.tmp", nil), write("index.db.tmp", index[:100]), write("index.db.tmp", index[:2*4096]), write("index.db.tmp", index[:4*4096+9]),
		write("index.db.tmp", index), write("index.db", index),
		write("meta.json.tmp", nil), write("meta.json.tmp", []byte(`{"format_ver`)),
	}
	for n := range len(steps) + 1 {
		dir := t.TempDir()
		for _, step := range steps[:n] {
			step(t, dir)
		}
		s, _ := openStore(t, dir)
		if s.CleanStart() {
			t.Fatalf("step %d: counts as clean", n)
		}
		id := storage.PartitionID{Topic: uuid.New()}
		appendRecords(t, mustOpenLog(t, s, id), 0, 20)
		closeStore(t, s)
		s, logs := openStore(t, dir)
		checkRecords(t, mustOpenLog(t, s, id), 0, 20)
		if w := logs.warnings(t); len(w) != 0 || !s.CleanStart() {
			t.Fatalf("step %d: clean %v, warnings %v", n, s.CleanStart(), w)
		}
		closeStore(t, s)
	}
}
