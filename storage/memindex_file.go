package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"
	"path/filepath"
	"time"

	"highwater/storage/vfs"
)

// memIndexFileName is the file of a memIndex:
//
//	generation u64 8 | log count uvarint |
//	{ topic 16 | partition 4 | meta length uvarint, 0: none | meta, see appendMeta |
//	  offset entry count uvarint | { offset varint | segment varint | position varint }* |
//	  time entry count uvarint   | { max timestamp varint | offset varint }*
//	  state length uvarint | state
//	  run count uvarint | { class varint | first offset varint | next offset varint | length uvarint | run }* }*
//	CRC32C 4
const memIndexFileName = "index.mem"

// memStoreIndex is a Store's index on a file system that bbolt can't use.
type memStoreIndex struct {
	*memIndex
	fs         vfs.FS
	path       string
	generation uint64
	syncNames  func() error
	onWrite    func(time.Duration)
}

// openMemIndex is openIndex for such a file system.
func openMemIndex(fs vfs.FS, cfg indexConfig) (ix *memStoreIndex, stored uint64, rebuilt bool, err error) {
	ix = &memStoreIndex{fs: fs, path: filepath.Join(cfg.dir, memIndexFileName), syncNames: cfg.syncNames, onWrite: cfg.onWrite}
	ix.memIndex = newMemoryIndex(ix.write)
	data, err := vfs.ReadFile(fs, ix.path)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, 0, false, fmt.Errorf("storage: %w", err)
	}
	logs, stored, err := parseMemIndex(data)
	if err != nil || checkGeneration(stored, cfg.generation) != nil {
		return ix, 0, true, nil
	}
	ix.generation, ix.durable, ix.current = stored, logs, cloneIndexed(logs)
	return ix, stored, false, nil
}

// write is memIndex.save.
func (ix *memStoreIndex) write(logs map[PartitionID]*memIndexed) error {
	began := time.Now()
	err := ix.syncNames()
	if err == nil {
		err = vfs.WriteFile(ix.fs, ix.path, appendMemIndex(nil, ix.generation, logs))
	}
	if err != nil && !isDiskFull(err) {
		return &FailedError{Cause: fmt.Errorf("index: %w", err)}
	} else if err != nil {
		return err
	}
	ix.onWrite(time.Since(began))
	return nil
}

// run writes what is noted every indexInterval until ctx ends.
func (ix *memStoreIndex) run(ctx context.Context) error { return every(ctx, indexInterval, ix.flush) }

func (ix *memStoreIndex) setGeneration(generation uint64, _ bool) error {
	ix.saving <- struct{}{}
	ix.generation = generation
	ix.changes.Add(1)
	<-ix.saving
	return ix.flush()
}

func (ix *memStoreIndex) close() error { return nil }

func appendMemIndex(dst []byte, generation uint64, logs map[PartitionID]*memIndexed) []byte {
	dst = binary.BigEndian.AppendUint64(dst, generation)
	dst = binary.AppendUvarint(dst, uint64(len(logs)))
	for id, l := range logs {
		key := appendLogKey(nil, id)
		dst = append(dst, key...)
		var meta []byte
		if l.meta != nil {
			meta = appendMeta(nil, key, l.meta)
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(meta))), meta...)
		dst = binary.AppendUvarint(dst, uint64(len(l.offsets)))
		for _, e := range l.offsets {
			dst = appendVarints(dst, e.Offset, e.Segment, e.Position)
		}
		dst = binary.AppendUvarint(dst, uint64(len(l.times)))
		for _, e := range l.times {
			dst = appendVarints(dst, e.MaxTimestamp, e.Offset)
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(l.state))), l.state...)
		dst = binary.AppendUvarint(dst, uint64(len(l.runs)))
		for k, run := range l.runs {
			dst = appendVarints(dst, int64(k.class), k.first, k.next)
			dst = append(binary.AppendUvarint(dst, uint64(len(run))), run...)
		}
	}
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst, castagnoli))
}

func parseMemIndex(data []byte) (logs map[PartitionID]*memIndexed, generation uint64, err error) {
	if len(data) < 8+checksumSize {
		return nil, 0, errEntryDamaged
	}
	payload := data[:len(data)-checksumSize]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(data[len(payload):]) {
		return nil, 0, errEntryDamaged
	}
	logs = map[PartitionID]*memIndexed{}
	f := fields{rest: payload[8:]}
	for range f.count(logKeySize) {
		if len(f.rest) < logKeySize {
			return nil, 0, errEntryDamaged
		}
		key := f.rest[:logKeySize]
		id := PartitionID{Topic: TopicID(key[:16]), Partition: int32(binary.BigEndian.Uint32(key[16:]))}
		f.rest = f.rest[logKeySize:]
		l := &memIndexed{}
		if meta := f.text(); meta != "" {
			m, err := parseMeta(key, []byte(meta))
			if err != nil {
				return nil, 0, err
			}
			l.meta = &m
		}
		for range f.count(3) {
			l.offsets = append(l.offsets, indexEntry{f.number(), f.number(), f.number()})
		}
		for range f.count(2) {
			l.times = append(l.times, timeEntry{f.number(), f.number()})
		}
		if state := f.text(); state != "" {
			l.state = []byte(state)
		}
		l.runs = map[runKey][]byte{}
		for range f.count(4) {
			k := runKey{uint8(f.number()), f.number(), f.number()}
			l.runs[k] = []byte(f.text())
		}
		logs[id] = l
	}
	return logs, binary.BigEndian.Uint64(payload), f.end()
}
