package storage

import (
	"bytes"
	"fmt"
	"io"
	"sync"

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

// codecs are encoders and decoders that wait to be used again: making one costs
// far more than a batch. They keep nothing of what they were used for.
var codecs struct {
	gzipWriters, gzipReaders, zstdWriters, zstdReaders sync.Pool
}

// compress appends the compressed form of src to dst.
func (c Compression) compress(dst, src []byte) ([]byte, error) {
	switch c {
	case CompressionGzip:
		out := bytes.NewBuffer(dst)
		w, ok := codecs.gzipWriters.Get().(*gzip.Writer)
		if ok {
			w.Reset(out)
		} else {
			w = gzip.NewWriter(out)
		}
		defer codecs.gzipWriters.Put(w)
		if _, err := w.Write(src); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return out.Bytes(), nil
	case CompressionZstd:
		w, ok := codecs.zstdWriters.Get().(*zstd.Encoder)
		if !ok {
			var err error
			if w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
				return nil, fmt.Errorf("zstd: %w", err)
			}
		}
		defer codecs.zstdWriters.Put(w)
		return w.EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("storage: cannot write %s", c)
}

// maxUncompressed bounds the plain form of a batch's records in bytes, whatever
// its compressed form claims.
const maxUncompressed = MaxBatchSize

// decompress returns the plain form of src.
func (c Compression) decompress(src []byte) ([]byte, error) {
	switch c {
	case CompressionGzip:
		r, ok := codecs.gzipReaders.Get().(*gzip.Reader)
		if !ok {
			r = new(gzip.Reader)
		}
		defer codecs.gzipReaders.Put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		plain, err := io.ReadAll(io.LimitReader(r, maxUncompressed+1))
		if err == nil && len(plain) > maxUncompressed {
			err = fmt.Errorf("more than %d bytes", maxUncompressed)
		}
		return plain, err
	case CompressionZstd:
		r, ok := codecs.zstdReaders.Get().(*zstd.Decoder)
		if !ok {
			var err error
			if r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUncompressed)); err != nil {
				return nil, err
			}
		}
		defer codecs.zstdReaders.Put(r)
		return r.DecodeAll(src, nil)
	}
	return nil, fmt.Errorf("storage: cannot read %s", c)
}
