package storage

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkFollowerAppend compares a follower's append of answers of 1 MiB with a
// leader's append of the same batches; both wait for the fsync, or for the write.
func BenchmarkFollowerAppend(b *testing.B) {
	var batches []Batch
	var raw []byte
	for i := range 47 {
		batches = append(batches, makeBatch(b, CompressionNone, i*100, 100, 170, steady))
		batches[i].stamp(int64(i)*100, 1)
		raw = append(raw, batches[i]...)
	}
	for _, mode := range []Fsync{FsyncNever, FsyncCommit} {
		for _, follower := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/%s", mode, map[bool]string{false: "leader", true: "follower"}[follower]), func(b *testing.B) {
				l := benchLog(b, mode)
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					fresh, base := slices.Clone(raw), l.StagedEnd()
					cut := make([]Batch, 0, len(batches))
					for rest := fresh; len(rest) > 0; {
						n := Batch(rest).Size()
						Batch(rest).stamp(base, 1)
						base = Batch(rest).NextOffset()
						cut, rest = append(cut, Batch(rest[:n:n])), rest[n:]
					}
					b.StartTimer()
					var st Staged
					var err error
					if follower {
						st, err = l.StageReplica(fresh, 1)
					} else {
						st, err = l.Stage(cut, 1)
					}
					if err == nil {
						err = l.Sync(st)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkServeFollower compares what it takes to bring a segment's bytes into a
// socket (P10): Log.Read with its checks, and http.ServeContent, which is sendfile.
func BenchmarkServeFollower(b *testing.B) {
	s := openTestStore(b, b.TempDir(), func(o *Options) { o.Fsync = FsyncNever })
	b.Cleanup(func() { must(b, s.Close()) })
	l := openTestLog(b, s, LogConfig{})
	for i := range 12_000 {
		sealed := makeBatch(b, CompressionNone, i*100, 100, 170, steady)
		st, err := l.Stage([]Batch{sealed}, 1)
		must(b, err)
		must(b, l.Write(st))
	}
	end := l.WrittenEnd()
	path := filepath.Join(l.dir, segmentName(0))
	size := l.SizeBytes()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	const page = 1 << 20
	mux := http.NewServeMux()
	mux.HandleFunc("/content", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			panic(err)
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, f)
	})
	var buf []byte // one request at a time
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		var offset int64
		_, _ = fmt.Sscan(r.URL.RawQuery, &offset)
		res, err := l.Read(offset, end, page, buf)
		if err != nil {
			panic(err)
		}
		buf = res.Data
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(res.Data)))
		_, _ = w.Write(res.Data)
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 256 << 10, WriteBufferSize: 64 << 10}}
	into := make([]byte, 256<<10)
	get := func(b *testing.B, url, ranges string) int64 {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+listener.Addr().String()+url, nil)
		must(b, err)
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		res, err := client.Do(req)
		must(b, err)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{res.Body}, into)
		must(b, err)
		must(b, res.Body.Close())
		return n
	}
	batch := size / 12_000
	b.Run("sendfile", func(b *testing.B) {
		n, pos := int64(0), int64(0)
		for b.Loop() {
			n += get(b, "/content", fmt.Sprintf("bytes=%d-%d", pos, min(pos+page, size)-1))
			if pos += page; pos >= size-page {
				pos = 0
			}
		}
		b.SetBytes(n / int64(b.N))
	})
	b.Run("read", func(b *testing.B) {
		n, offset := int64(0), int64(0)
		for b.Loop() {
			got := get(b, fmt.Sprintf("/read?%d", offset), "")
			n += got
			if offset += got / batch * 100; offset >= end-5000 {
				offset = 0
			}
		}
		b.SetBytes(n / int64(b.N))
	})
	b.Run("read without a socket", func(b *testing.B) {
		n, offset := int64(0), int64(0)
		for b.Loop() {
			res, err := l.Read(offset, end, page, buf)
			must(b, err)
			n += int64(len(res.Data))
			if offset += int64(len(res.Data)) / batch * 100; offset >= end-5000 {
				offset = 0
			}
			buf = res.Data
		}
		b.SetBytes(n / int64(b.N))
	})
}
