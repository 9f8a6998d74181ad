package sim

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
	"highwater/storage/vfs"
)

// readPartition reads to the end as a consumer does.
func readPartition(fetch func(context.Context, replication.FetchRequest) (replication.FetchResult, error), num int32) (all []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for next := int64(0); ; {
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
func readDisk(disk *vfs.Mem, node int32, id storage.PartitionID) (data []byte, err error) {
	s, err := storage.Open(storage.Options{Dir: dataDir, FS: disk, Fsync: storage.FsyncCommit, NodeID: node, Now: time.Now, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	l, err := s.OpenLog(id, storage.LogConfig{SegmentBytes: 4096}, func() {})
	if err != nil {
		return nil, err
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
