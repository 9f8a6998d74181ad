package handlers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

// site is a page and its files, held in memory in the form in which they are
// sent. It is immutable.
type site struct {
	files  map[string]*staticFile
	policy []string // Content-Security-Policy of its answers
}

// staticFile is one file. A file that is worth it is kept gzipped only; a client
// that takes no gzip gets it unpacked on the way.
type staticFile struct {
	mediaType string
	plain     []byte // nil when gzipped is set
	gzipped   []byte
	tag       string // of its content, without quotes
}

// indexFile is the page itself.
const indexFile = "index.html"

// newSite reads all files of fsys; x.gz stands for x. The files are compiled into
// the binary, so that one which can't be read is a broken build.
func newSite(fsys fs.FS, policy string) *site {
	s := &site{files: map[string]*staticFile{}, policy: []string{policy}}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		plainName, isGzip := strings.CutSuffix(name, ".gz")
		f := newStaticFile(plainName, data)
		if isGzip {
			f.plain, f.gzipped = nil, data
		}
		s.files[plainName] = f
		return nil
	})
	if err != nil {
		panic(fmt.Sprint("handlers: embedded files: ", err))
	}
	return s
}

func newStaticFile(name string, data []byte) *staticFile {
	sum := sha256.Sum256(data)
	return &staticFile{mediaType: mediaTypeOf(name), plain: data, tag: base64.RawURLEncoding.EncodeToString(sum[:12])}
}

// mediaTypeOf knows the kinds that are embedded, as the system's own table may
// differ.
func mediaTypeOf(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json":
		return typeJSON
	case "", ".txt", ".md":
		return "text/plain; charset=utf-8"
	default:
		return mime.TypeByExtension(ext)
	}
}

// serve answers with the file called name, or 40404.
func (s *site) serve(w http.ResponseWriter, r *http.Request, name string) error {
	f := s.files[name]
	if f == nil {
		return &requestError{code: codeNotFound, detail: "There is no file " + shown(name) + " here.",
			fix: "The pages are " + baseURL(r) + "/docs/ and " + baseURL(r) + "/console/"}
	}
	w.Header()["Content-Security-Policy"] = s.policy
	return f.serve(w, r)
}

// servePage answers with the page. Its links are relative to a path that ends in
// a slash; for a client that asked without it they get mount, the path's last
// segment, in front: no redirect, and it works under any path prefix.
func (s *site) servePage(w http.ResponseWriter, r *http.Request, mount string) error {
	f := s.files[indexFile]
	if !strings.HasSuffix(r.URL.Path, "/") {
		page := bytes.ReplaceAll(f.plain, []byte(`="./`), []byte(`="`+mount+`/`))
		page = bytes.ReplaceAll(page, []byte(`="../`), []byte(`="./`))
		f = &staticFile{mediaType: f.mediaType, plain: page, tag: f.tag + "-" + mount}
	}
	h := w.Header()
	h["Content-Security-Policy"] = s.policy
	h["Referrer-Policy"] = []string{"no-referrer"}
	return f.serve(w, r)
}

// serve answers with the file, its ETag's 304, or a part of it.
func (f *staticFile) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h["Content-Type"] = []string{f.mediaType}
	// Held by the client, but asked for again each time: a new binary shows at once.
	h["Cache-Control"] = []string{"no-cache"}
	body, tag := f.plain, f.tag
	if f.gzipped != nil {
		h["Vary"] = []string{"Accept-Encoding"}
		if takesGzip(r) {
			body, tag = f.gzipped, f.tag+"-gz"
			h["Content-Encoding"] = []string{"gzip"}
			r = withoutRange(r)
		} else {
			plain, err := unpack(f.gzipped)
			if err != nil {
				return err
			}
			body = plain
		}
	}
	h["Etag"] = []string{`"` + tag + `"`}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	return nil
}

// takesGzip says that the client names gzip among what it decodes, and not with
// q=0.
func takesGzip(r *http.Request) bool {
	for _, line := range r.Header["Accept-Encoding"] {
		for part := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(strings.ToLower(part), ";")
			if strings.TrimSpace(name) != "gzip" {
				continue
			}
			_, q, ok := strings.Cut(parameters, "q=")
			return !ok || parseQuality(strings.TrimSpace(q)) > 0
		}
	}
	return false
}

// withoutRange: a range of an encoded body would be a range of the gzip stream.
func withoutRange(r *http.Request) *http.Request {
	if r.Header.Get("Range") == "" {
		return r
	}
	r2 := r.Clone(r.Context())
	r2.Header.Del("Range")
	return r2
}

func unpack(gzipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(gzipped))
	if err != nil {
		return nil, fmt.Errorf("handlers: embedded file: %w", err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("handlers: embedded file: %w", err)
	}
	return plain, nil
}
