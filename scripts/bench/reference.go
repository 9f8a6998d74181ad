package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"highwater/handlers"
)

// The reference process serves what the broker is compared with. It is a process
// of its own like the broker, with the broker's GC setting, so that each side
// has the same room beside the load generator.
//
//	POST /noop   net/http; the body is read and thrown away
//	POST /parse  net/http; the broker's own parser and encoder, nothing stored
//	GET  /page   net/http; pread of a known range of a file and one write
//	GET  /content http.ServeContent of the first file: sendfile
//	POST /files  the files that /page and the raw socket read, one path a line
//
// and on a second port, without net/http, the floor of P9: a bare loop that
// reads a request, preads and writes.
type reference struct {
	buffers sync.Pool // of *[]byte, for page

	mu    sync.RWMutex // guards files
	files []*os.File
}

// runReference is the body of `bench reference <http address> <raw address>`.
func runReference(httpAddr, rawAddr string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(referenceGCPercent)
	}
	ref := &reference{buffers: sync.Pool{New: func() any { return new([]byte) }}}
	raw, err := net.Listen("tcp4", rawAddr)
	if err != nil {
		return err
	}
	go ref.serveRaw(raw)
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("/noop", handlers.NewNoop())
	mux.Handle("/parse", handlers.NewParseOnly())
	mux.HandleFunc("/page", ref.page)
	mux.HandleFunc("/content", ref.content)
	mux.HandleFunc("/files", ref.open)
	return http.ListenAndServe(httpAddr, mux)
}

// referenceGCPercent is what the broker sets for itself at start-up.
const referenceGCPercent = 400

// open replaces the files that the page sides read.
func (ref *reference) open(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ref.mu.Lock()
	defer ref.mu.Unlock()
	for _, f := range ref.files {
		_ = f.Close()
	}
	ref.files = nil
	for name := range strings.FieldsSeq(string(body)) {
		f, err := os.Open(name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		ref.files = append(ref.files, f)
	}
}

// place is a known range of bytes on disk.
type place struct {
	file   int
	at     int64
	length int
}

func (p place) query() string { return fmt.Sprintf("%d,%d,%d", p.file, p.at, p.length) }

func parsePlace(s string) (p place, err error) {
	_, err = fmt.Sscanf(s, "%d,%d,%d", &p.file, &p.at, &p.length)
	return p, err
}

func (ref *reference) read(p place, buf []byte) error {
	ref.mu.RLock()
	defer ref.mu.RUnlock()
	if p.file >= len(ref.files) {
		return errors.New("no such file")
	}
	_, err := ref.files[p.file].ReadAt(buf[:p.length], p.at)
	return err
}

// content serves a file as net/http does it best.
func (ref *reference) content(w http.ResponseWriter, r *http.Request) {
	ref.mu.RLock()
	defer ref.mu.RUnlock()
	if len(ref.files) == 0 {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	f, err := os.Open(ref.files[0].Name())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
}

// page reads a known range and writes it: what a fetch would cost if there were
// nothing to look up and nothing to render.
func (ref *reference) page(w http.ResponseWriter, r *http.Request) {
	p, err := parsePlace(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	buf := ref.buffers.Get().(*[]byte)
	defer ref.buffers.Put(buf)
	*buf = grown(*buf, p.length)
	if err := ref.read(p, *buf); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(p.length))
	_, _ = w.Write((*buf)[:p.length])
}

// serveRaw answers `GET <place>` lines with pread and write, one goroutine a
// connection and nothing else.
func (ref *reference) serveRaw(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			if err := ref.rawLoop(c); !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "raw side:", err)
			}
		}()
	}
}

// rawLoop serves one connection until it ends, which is io.EOF.
func (ref *reference) rawLoop(c net.Conn) error {
	in := make([]byte, 4096)
	var out []byte
	for have := 0; ; {
		n, err := c.Read(in[have:])
		if err != nil {
			return err
		}
		have += n
		if !bytes.HasSuffix(in[:have], []byte("\r\n\r\n")) {
			continue
		}
		line, _, _ := bytes.Cut(in[:have], []byte(" HTTP/1.1"))
		have = 0
		p, err := parsePlace(strings.TrimPrefix(string(line), "GET /"))
		if err != nil {
			return err
		}
		out = fmt.Appendf(out[:0], "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", p.length)
		head := len(out)
		out = grown(out, head+p.length)
		if err := ref.read(p, out[head:]); err != nil {
			return err
		}
		if _, err := c.Write(out[:head+p.length]); err != nil {
			return err
		}
	}
}

// grown gives a slice of n bytes that begins with b's.
func grown(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	g := make([]byte, n)
	copy(g, b)
	return g
}
