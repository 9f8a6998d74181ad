package handlers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"highwater/openapi"
)

// docsPolicy: everything from this broker. Swagger UI writes style attributes and
// carries its icons as data URLs.
const docsPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'"

func (a *api) docsRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/openapi.json", handle: a.getOpenAPI},
		{method: http.MethodGet, pattern: "/docs", handle: a.getDocs},
		{method: http.MethodGet, pattern: "/docs/*", handle: a.getDocsFile, hidden: true},
	}
}

// getOpenAPI answers GET /openapi.json.
//
//	@ID				getOpenAPI
//	@Summary		This document
//	@Description	The OpenAPI 3.0.3 document of this broker. Its server URL is the path prefix of `--advertise-url`.
//	@Tags			about
//	@Success		200	{object}	schema.OpenAPI	"The document."
//	@Header			200	{string}	ETag			"Changes with the document."
//	@Success		304	"Not modified: the ETag in `If-None-Match` is the current one."
//	@Router			/openapi.json [get]
func (a *api) getOpenAPI(w http.ResponseWriter, r *http.Request) error {
	return a.document.serve(w, r)
}

// getDocs answers GET /docs/, with or without the slash.
//
//	@ID				getDocs
//	@Summary		API docs page
//	@Description	Swagger UI on this document. It loads nothing from elsewhere, and its "Try it out" talks to this broker.
//	@Tags			about
//	@Success		200	{string}	string	"The page."
//	@Header			200	{string}	ETag	"Changes with the page."
//	@Success		304	"Not modified: the ETag in `If-None-Match` is the current one."
//	@x-media-200	{"text/html":"text"}
//	@Router			/docs [get]
func (a *api) getDocs(w http.ResponseWriter, r *http.Request) error {
	return a.docs.servePage(w, r, "docs")
}

func (a *api) getDocsFile(w http.ResponseWriter, r *http.Request) error {
	return a.docs.serve(w, r, pathSegment(r, "*"))
}

// newDocument is the OpenAPI document as this broker serves it: its server's URL
// is the path at which clients reach it (H59).
func newDocument(advertiseURL string) *staticFile {
	doc, err := documentAt(openapi.Document, pathPrefix(advertiseURL))
	if err != nil {
		panic(err) // the embedded document is no JSON
	}
	f := newStaticFile("openapi.json", doc)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(doc); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	f.plain, f.gzipped = nil, packed.Bytes()
	return f
}

// pathPrefix is the path of the URL at which clients reach the broker, with a
// slash at its end.
func pathPrefix(advertiseURL string) string {
	u, err := url.Parse(advertiseURL)
	if err != nil {
		return "/"
	}
	return strings.TrimRight(u.EscapedPath(), "/") + "/"
}

// documentAt returns doc with prefix in place of its server's URL. It copies
// token by token, so that nothing else changes.
func documentAt(doc []byte, prefix string) ([]byte, error) {
	if prefix == "/" {
		return doc, nil
	}
	prefix = strings.TrimSuffix(prefix, "/") // clients join it with paths that begin with one
	in := jsontext.NewDecoder(bytes.NewReader(doc))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, jsontext.WithIndent(" "))
	for in.PeekKind() != 0 {
		token, err := in.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("handlers: openapi document: %w", err)
		}
		if in.StackPointer() == "/servers/0/url" && token.Kind() == '"' && token.String() == "/" {
			token = jsontext.String(prefix)
		}
		if err := enc.WriteToken(token); err != nil {
			return nil, fmt.Errorf("handlers: openapi document: %w", err)
		}
	}
	return out.Bytes(), nil
}
