package handlers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"highwater/openapi"
)

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	plain, err := io.ReadAll(z)
	must(t, err)
	return plain
}

func TestOpenAPIDocumentIsServed(t *testing.T) {
	b := startBroker(t)
	plain := b.get("/openapi.json").want(http.StatusOK)
	if !bytes.Equal(plain.body, openapi.Document) {
		t.Error("the document differs from the embedded one")
	}
	if ct := plain.header.Get("Content-Type"); ct != typeJSON {
		t.Errorf("Content-Type %q", ct)
	}
	packed := b.get("/openapi.json", header("Accept-Encoding", "br, gzip;q=0.8")).want(http.StatusOK)
	if packed.header.Get("Content-Encoding") != "gzip" || !bytes.Equal(gunzip(t, packed.body), openapi.Document) {
		t.Errorf("Content-Encoding %q, %d bytes", packed.header.Get("Content-Encoding"), len(packed.body))
	}
	if plain.header.Get("Etag") == packed.header.Get("Etag") || plain.header.Get("Vary") != "Accept-Encoding" {
		t.Error("two encodings under one ETag, or no Vary")
	}
	for _, a := range []answer{plain, packed} {
		again := b.get("/openapi.json", header("If-None-Match", a.header.Get("Etag")), header("Accept-Encoding", encodingOf(a)))
		if again.want(http.StatusNotModified); len(again.body) != 0 {
			t.Error("a 304 with a body")
		}
	}
	if none := b.get("/openapi.json", header("Accept-Encoding", "gzip;q=0")); none.header.Get("Content-Encoding") != "" {
		t.Error("gzip for a client that refuses it")
	}
}

func encodingOf(a answer) string {
	if e := a.header.Get("Content-Encoding"); e != "" {
		return e
	}
	return "identity"
}

// The document leads back to where it was loaded from.
func TestH59_ServersFollowTheAdvertisedURL(t *testing.T) {
	for advertised, want := range map[string]string{
		"":                               "/",
		"http://127.0.0.1:9999":          "/",
		"https://example.org/":           "/",
		"https://example.org/hw":         "/hw",
		"https://example.org/a/b%20c/":   "/a/b%20c",
		"http://[::1]:8080/highwater///": "/highwater",
	} {
		var doc struct {
			Servers []struct {
				URL string `json:"url"`
			} `json:"servers"`
			Paths map[string]any `json:"paths"`
		}
		f := newDocument(advertised)
		must(t, json.Unmarshal(gunzip(t, f.gzipped), &doc))
		if len(doc.Servers) != 1 || doc.Servers[0].URL != want || len(doc.Paths) == 0 {
			t.Errorf("advertised as %q: servers %v, %d paths; want %q", advertised, doc.Servers, len(doc.Paths), want)
		}
	}
}

// A change of the server's URL changes nothing else.
func TestDocumentAtCopiesExactly(t *testing.T) {
	doc := []byte(`{"a":9007199254740993,"servers":[{"url":"/"}],"x":{"url":"/","b":1.0}}`)
	got, err := documentAt(doc, "/p/")
	must(t, err)
	var compact bytes.Buffer
	must(t, json.Compact(&compact, got))
	if want := `{"a":9007199254740993,"servers":[{"url":"/p"}],"x":{"url":"/","b":1.0}}`; compact.String() != want {
		t.Errorf("got %s, want %s", &compact, want)
	}
}

func TestPages(t *testing.T) {
	b := startBroker(t)
	for _, page := range []struct{ path, policy string }{{"/docs/", docsPolicy}, {"/console/", consolePolicy}} {
		a := b.get(page.path).want(http.StatusOK)
		h := a.header
		if h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Content-Security-Policy") != page.policy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", page.path, h)
		}
		if bytes.Contains(a.body, []byte("http://")) || bytes.Contains(a.body, []byte("https://")) {
			t.Errorf("%s names an outside address", page.path)
		}
		if bytes.Contains(bytes.ToLower(a.body), []byte("<script>")) || bytes.Contains(a.body, []byte(" style=")) {
			t.Errorf("%s holds an inline script or style", page.path)
		}
		for _, link := range linksOf(string(a.body)) {
			if !strings.HasPrefix(link, "./") && !strings.HasPrefix(link, "../") {
				t.Errorf("%s: link %q is not relative", page.path, link)
			}
		}
		// Each link of the page leads to something, with the slash and without.
		for _, from := range []string{page.path, strings.TrimSuffix(page.path, "/")} {
			for _, link := range linksOf(string(b.get(from).want(http.StatusOK).body)) {
				b.get(resolve(t, from, link)).want(http.StatusOK)
			}
		}
	}
}

func resolve(t *testing.T, from, link string) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://h"+from, nil)
	must(t, err)
	u, err := r.URL.Parse(link)
	must(t, err)
	return u.Path
}

func linksOf(page string) []string {
	var out []string
	for _, attribute := range []string{`href="`, `src="`} {
		for rest := page; ; {
			_, after, ok := strings.Cut(rest, attribute)
			if !ok {
				break
			}
			link, tail, _ := strings.Cut(after, `"`)
			out, rest = append(out, link), tail
		}
	}
	return out
}

func TestStaticFiles(t *testing.T) {
	b := startBroker(t)
	bundle := b.get("/docs/swagger-ui-bundle.js", header("Accept-Encoding", "gzip"), header("Range", "bytes=0-9")).want(http.StatusOK)
	if bundle.header.Get("Content-Encoding") != "gzip" || bundle.header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("bundle: %v", bundle.header)
	}
	if plain := b.get("/docs/swagger-ui-bundle.js").want(http.StatusOK); !bytes.Equal(plain.body, gunzip(t, bundle.body)) {
		t.Error("the bundle differs with its encoding")
	}
	if part := b.get("/docs/init.js", header("Range", "bytes=0-1")).want(http.StatusPartialContent); string(part.body) != "//" {
		t.Errorf("range gave %q", part.body)
	}
	head := b.do(http.MethodHead, "/console/main.js", nil).want(http.StatusOK)
	if len(head.body) != 0 || head.header.Get("Etag") == "" {
		t.Errorf("HEAD: %d bytes, %v", len(head.body), head.header)
	}
	for _, path := range []string{"/docs/nope.js", "/docs/CHECKSUMS/x", "/docs/%2e%2e/openapi.json", "/docs/..%2fopenapi.go", "/console/vendor", "/console//main.js"} {
		if a := b.get(path); a.status != http.StatusNotFound && a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	b.post("/docs/", "x").problem(40501)
}
