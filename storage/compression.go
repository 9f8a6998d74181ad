package storage

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is Kafka's codec number of a batch.
type Compression int8

// The codecs that Highwater writes and reads.
const (
	CompressionNone Compression = 0
	CompressionGzip Compression = 1
	CompressionZstd Compression = 4
)

// String is Kafka's name of the codec.
func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionGzip:
		return "gzip"
	case CompressionZstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", int8(c))
}

// compress appends the compressed form of src to dst.
func (c Compression) compress(dst, src []byte) ([]byte, error) {
	switch c {
	case CompressionGzip:
		out := bytes.NewBuffer(dst)
		w := gzip.NewWriter(out)
		if _, err := w.Write(src); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return out.Bytes(), nil
	case CompressionZstd:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		defer w.Close()
		return w.EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("storage: cannot write %s", c)
}

// decompress returns the plain form of src, at most limit bytes of it.
func (c Compression) decompress(src []byte, limit int64) ([]byte, error) {
	var r io.Reader
	switch c {
	case CompressionGzip:
		gz, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, err
		}
		r = gz
	case CompressionZstd:
		z, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("storage: cannot read %s", c)
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(plain)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return plain, nil
}
