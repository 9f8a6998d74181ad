// Package segment reads the logs in a stopped broker's data directory. It knows
// only the published layout (docs/FORMAT.md) and shares no code with the broker.
package segment

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Batch is one record batch as its bytes say.
type Batch struct {
	Base   int64
	Last   int64 // offset of the last record
	Epoch  int32
	Sum    [sha256.Size]byte // of all bytes
	Bad    error             // nil: sound
	Values [][]byte          // of the records, if sound
	File   string            // the segment
	At     int64             // position in it
	Size   int               // bytes
}

// Log is one partition's log.
type Log struct {
	Topic     string // id
	Partition int
	Batches   []Batch
}

// headBytes is how much of a batch lies before its records.
const headBytes = 61

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Read reads every log of a data directory. Logs of partitions that are being
// removed are left out.
func Read(dataDir string) ([]Log, error) {
	dirs, err := os.ReadDir(filepath.Join(dataDir, "partitions"))
	if err != nil {
		return nil, err
	}
	var logs []Log
	for _, d := range dirs {
		at := strings.LastIndexByte(d.Name(), '-')
		if at < 0 || strings.Contains(d.Name(), ".") {
			continue
		}
		n, err := strconv.Atoi(d.Name()[at+1:])
		if err != nil {
			return nil, fmt.Errorf("segment: %s: %w", d.Name(), err)
		}
		l := Log{Topic: d.Name()[:at], Partition: n}
		if l.Batches, err = ReadLog(filepath.Join(dataDir, "partitions", d.Name())); err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// ReadLog reads one partition's log.
func ReadLog(dir string) (batches []Batch, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names) // the offset in the name has leading zeros
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		got := parse(data)
		for i := range got {
			got[i].File = name
		}
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 64)
		if err == nil && len(got) > 0 && got[0].Base != base {
			got[0].Bad = errors.Join(got[0].Bad, fmt.Errorf("the segment is named %d", base))
		}
		batches = append(batches, got...)
	}
	return batches, nil
}

// parse takes a segment apart. What can't be a batch is one bad batch, up to the
// segment's end.
func parse(data []byte) (batches []Batch) {
	for at := int64(0); len(data) > 0; {
		if len(data) < headBytes {
			return append(batches, bad(batches, fmt.Errorf("%d bytes at the end are no batch", len(data))))
		}
		size := int64(binary.BigEndian.Uint32(data[8:])) + 12
		if size < headBytes || size > int64(len(data)) {
			return append(batches, bad(batches, fmt.Errorf("a batch of %d bytes in a rest of %d", size, len(data))))
		}
		b := parseBatch(data[:size])
		b.At, b.Size = at, int(size)
		batches = append(batches, b)
		data, at = data[size:], at+size
	}
	return batches
}

func bad(before []Batch, err error) Batch {
	b := Batch{Bad: err}
	if len(before) > 0 {
		b.Base = before[len(before)-1].Last + 1
		b.Epoch = before[len(before)-1].Epoch
	}
	b.Last = b.Base
	return b
}

func parseBatch(data []byte) Batch {
	b := Batch{Base: int64(binary.BigEndian.Uint64(data)), Epoch: int32(binary.BigEndian.Uint32(data[12:])), Sum: sha256.Sum256(data)}
	b.Last = b.Base + int64(int32(binary.BigEndian.Uint32(data[23:])))
	count := int(int32(binary.BigEndian.Uint32(data[57:])))
	switch {
	case data[16] != 2:
		b.Bad = fmt.Errorf("magic %d", data[16])
	case crc32.Checksum(data[21:], castagnoli) != binary.BigEndian.Uint32(data[17:]):
		b.Bad = errors.New("its CRC does not match")
	case int64(count) != b.Last-b.Base+1:
		b.Bad = fmt.Errorf("%d records for offsets %d to %d", count, b.Base, b.Last)
	default:
		b.Values, b.Bad = values(data[headBytes:], binary.BigEndian.Uint16(data[21:])&7, count)
	}
	return b
}

// values are those of a batch's records.
func values(data []byte, codec uint16, count int) (out [][]byte, err error) {
	switch codec {
	case 0:
	case 1:
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		if data, err = io.ReadAll(r); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("codec %d is not one that a chaos run uses", codec)
	}
	for i := range count {
		size, n := binary.Varint(data)
		if n <= 0 || size < 0 || size > int64(len(data)-n) {
			return nil, fmt.Errorf("record %d has no room", i)
		}
		value, err := valueOf(data[n:n+int(size)], int64(i))
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
		out = append(out, value)
		data = data[n+int(size):]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last record", len(data))
	}
	return out, nil
}

// valueOf takes a record apart: attributes, timestamp delta, offset delta, key,
// value, headers.
func valueOf(data []byte, delta int64) ([]byte, error) {
	f := fields{data: data[min(1, len(data)):]}
	f.varint()
	if d := f.varint(); d != delta {
		return nil, fmt.Errorf("offset delta %d", d)
	}
	f.bytes()
	value := f.bytes()
	for range f.varint() {
		f.bytes()
		f.bytes()
	}
	if f.short || len(f.data) > 0 {
		return nil, errors.New("malformed")
	}
	return value, nil
}

type fields struct {
	data  []byte
	short bool
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.data)
	if n <= 0 {
		f.short, f.data = true, nil
		return 0
	}
	f.data = f.data[n:]
	return v
}

// bytes is a field with its length before it; -1 is nil.
func (f *fields) bytes() []byte {
	size := f.varint()
	if size < 0 {
		return nil
	}
	if size > int64(len(f.data)) {
		f.short, f.data = true, nil
		return nil
	}
	b := f.data[:size]
	f.data = f.data[size:]
	return b
}
