package sim

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
	"highwater/storage/vfs"
)

// readPartition reads to the end as a consumer does.
func readPartition(fetch func(context.Context, replication.FetchRequest) (replication.FetchResult, error), num int32, from int64) (all []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for next := from; ; {
		res, err := fetch(ctx, replication.FetchRequest{Topic: "t", Partition: num, Offset: next, MaxBytes: 1 << 20, Patience: 10 * time.Second})
		if err != nil {
			return nil, err
		}
		if len(res.Data) == 0 {
			return all, nil
		}
		all = append(all, res.Data...)
		if err := eachRecord(res.Data, func(offset int64, _ string) { next = offset + 1 }); err != nil {
			return nil, err
		}
	}
}

// readDisk reads a replica's whole log off a disk that no process uses.
func readDisk(disk *vfs.Mem, node int32, id storage.PartitionID, ids *idLoad) (data []byte, err error) {
	s, err := storage.Open(storage.Options{Dir: dataDir, FS: disk, Fsync: storage.FsyncCommit, NodeID: node, Now: time.Now, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	cfg := storage.LogConfig{SegmentBytes: 4096}
	if ids != nil {
		cfg.DedupeAge, cfg.DedupeCount = ids.age, ids.most
	}
	l, err := s.OpenLog(id, cfg, func() {})
	if err != nil {
		return nil, err
	}
	if ids != nil {
		if err := recomputed(l); err != nil {
			return nil, err
		}
	}
	for at := l.StartOffset(); at < l.WrittenEnd(); {
		r, err := l.Read(at, l.WrittenEnd(), 1<<20, nil)
		if err != nil {
			return nil, err
		}
		data = append(data, r.Data...)
		if err := eachRecord(r.Data, func(offset int64, _ string) { at = offset + 1 }); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// controllerTopic is the topic as the run knew it in the end.
func controllerTopic(c *cluster) *controller.Topic {
	s := c.newestState()
	if s == nil {
		return nil
	}
	t, _ := s.Topic("t")
	return t
}

// memoryDir is a directory of the test's that costs no real disk an fsync, where
// the system has such a place.
func memoryDir(t *testing.T) string {
	if dir, err := os.MkdirTemp("/dev/shm", "highwater-sim-"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// leftBehind fails unless the goroutines that outlive a run are those whose
// question to raft was still in its queue when raft was shut down: it never
// answers them, and nothing can end them (V35).
func leftBehind(t *testing.T, r any) {
	buf := make([]byte, 16<<20)
	left := 0
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if !strings.Contains(head, "synctest bubble") {
			continue
		}
		if left++; !strings.Contains(g, "hashicorp/raft.(*deferError).Error") {
			t.Errorf("V35: left behind: %s", g)
		}
	}
	if left == 0 {
		panic(r)
	}
}
