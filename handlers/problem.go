package handlers

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// problem is an error as a client sees it: RFC 9457 plus the dialect's
// error_code and message, Kafka's name, and what to do next.
type problem struct {
	*class
	kafka   string // overrides the class's
	detail  string
	fix     string
	faults  []fault
	members []member
	// unknown: on a route that writes, the request may have been done.
	unknown bool
	// results, if set, is a rendered "offsets" array: the fate of each record.
	results []byte
}

func newProblem(c code, detail, fix string) *problem {
	return &problem{class: classOf(c), kafka: classOf(c).kafka, detail: detail, fix: fix}
}

// maxShownFaults bounds the list of a validation error: enough to mend a
// template, small enough to read.
const maxShownFaults = 100

// append renders the body of section 8 of the contract.
func (p *problem) append(dst []byte, writes bool) []byte {
	dst = append(dst, `{"type":"/problems/`...)
	dst = append(dst, p.slug...)
	dst = append(dst, `","title":`...)
	dst = appendString(dst, p.title)
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.code.status()), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendString(dst, p.detail)
	dst = append(dst, `,"error_code":`...)
	dst = strconv.AppendInt(dst, int64(p.code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, p.detail)
	dst = append(dst, `,"kafka_error":`...)
	dst = appendString(dst, p.kafka)
	dst = append(dst, `,"retriable":`...)
	dst = strconv.AppendBool(dst, p.retriable)
	dst = append(dst, `,"fix":`...)
	dst = appendString(dst, p.fixText())
	if writes {
		dst = append(dst, `,"outcome":"`...)
		dst = append(dst, outcome(p.unknown)...)
		dst = append(dst, '"')
	}
	for _, m := range p.members {
		dst = append(dst, `,"`...)
		dst = append(dst, m.name...)
		dst = append(dst, `":`...)
		dst = strconv.AppendInt(dst, m.value, 10)
	}
	if len(p.faults) > 0 {
		dst = append(dst, `,"errors":[`...)
		for i, f := range p.faults[:min(len(p.faults), maxShownFaults)] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"pointer":`...)
			dst = appendString(dst, f.pointer)
			dst = append(dst, `,"detail":`...)
			dst = appendString(dst, f.detail)
			if f.code != 0 {
				dst = append(dst, `,"error_code":`...)
				dst = strconv.AppendInt(dst, int64(f.code), 10)
			}
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	if p.results != nil {
		dst = append(dst, `,"offsets":`...)
		dst = append(dst, p.results...)
	}
	return append(dst, '}', '\n')
}

func (p *problem) fixText() string {
	if p.fix != "" {
		return p.fix
	}
	if p.retriable {
		return "Send the same request again after a pause."
	}
	return "Correct the request as the detail says, then send it again."
}

func outcome(unknown bool) string {
	if unknown {
		return "unknown"
	}
	return "not_written"
}

// answered is an error whose problem is already made.
type answered struct{ *problem }

func (e answered) Error() string { return "handlers: " + e.detail }

// fail answers with err's problem. When a part of the answer is out already, or
// the client is gone, it only ends the connection.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	x := w.(*exchange)
	if x.status != 0 {
		x.err = errors.Join(errAborted, err)
		return
	}
	var p *problem
	var done answered
	if errors.As(err, &done) {
		p = done.problem
	} else {
		p = explain(err, a.where(r))
	}
	if p.code.status() >= http.StatusInternalServerError && !errors.Is(err, errPanicked) {
		x.err = err
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	h.Del("Etag")
	h["Content-Type"] = []string{problemType(r)}
	h["Cache-Control"] = []string{"no-store"}
	if s := p.code.status(); p.retriable && (s == http.StatusServiceUnavailable || s == http.StatusTooManyRequests) {
		h["Retry-After"] = []string{strconv.Itoa(int(retryAfter / time.Second))}
	}
	body := p.append(make([]byte, 0, 1024), x.writes)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	linger := a.prepareRefusal(x, r, p.code)
	w.WriteHeader(p.code.status())
	_, _ = w.Write(body) // a client that left gets no answer
	if linger {
		a.lingerOnBody(x, r)
	}
}

const (
	// keepAliveBody is how much of an unread body net/http itself reads away to
	// keep the connection. A refused request with more is the connection's last.
	keepAliveBody = 256 << 10
	// lingerPart of the patience with slow bodies is how long a refused body is
	// read away, so that a client that sends all before it reads gets to read the
	// refusal (H22): 10 s.
	lingerPart = 3
	// lingerPartHTTP2 is the same for HTTP/2, whose clients read while they send
	// but may wait for the stream's end: 0.3 s, for the answer to overtake a reset.
	lingerPartHTTP2 = 100
)

// prepareRefusal decides what becomes of a request body that a refusal leaves
// unread, all of it under a deadline: a body that never comes must not hold the
// refusal back (H17). It reports whether lingerOnBody must follow the answer.
func (a *api) prepareRefusal(x *exchange, r *http.Request, c code) bool {
	if r.Body == nil || r.Body == http.NoBody || x.drained {
		return false
	}
	if !x.touched && strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return false // the client hasn't sent it and won't; net/http closes
	}
	rc := http.NewResponseController(x.ResponseWriter)
	switch {
	case r.ProtoMajor > 1:
		// Left unread the stream would be reset, which some clients (curl 7.88) take
		// for a failure even after a whole answer.
		return c != codeSlowRequest
	case c == codeSlowRequest:
		x.Header()["Connection"] = closeConnection
		_ = rc.SetReadDeadline(time.Unix(1, 0)) // long ago: nothing more is waited for
		return false
	case r.ContentLength >= 0 && r.ContentLength <= keepAliveBody:
		_ = rc.SetReadDeadline(time.Now().Add(a.patience / lingerPart))
		return false
	}
	x.Header()["Connection"] = closeConnection
	return rc.EnableFullDuplex() == nil
}

// lingerOnBody sends the refusal and reads on for a bounded time.
func (a *api) lingerOnBody(x *exchange, r *http.Request) {
	rc := http.NewResponseController(x.ResponseWriter)
	patience := a.patience / lingerPart
	if r.ProtoMajor > 1 {
		patience = a.patience / lingerPartHTTP2
	}
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
}

// problemType labels error bodies. They are JSON whatever Accept says (H13).
func problemType(r *http.Request) string {
	if named := dialectType(r); named != "" {
		return named
	}
	return "application/problem+json"
}

// appendString appends s as a JSON string; bytes that are no UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	return appendJSONString(dst, strings.ToValidUTF8(s, "\uFFFD"))
}

// maxShownBytes bounds what an error text quotes of a request.
const maxShownBytes = 64

// shown quotes a name of the request for an error text, cut to a bounded length.
func shown(s string) string {
	cut := ""
	if len(s) > maxShownBytes {
		s, cut = s[:maxShownBytes], "…"
		for len(s) > 0 && !utf8.ValidString(s[len(s)-1:]) && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	return strconv.Quote(strings.ToValidUTF8(s, "\uFFFD")) + cut
}

// baseURL is the broker as this client reaches it: what the setting says, else where
// the request came in.
func (a *api) baseURL(r *http.Request) string {
	if a.cfg.PublicURL != "" {
		return a.cfg.PublicURL
	}
	return baseURL(r)
}

func baseURL(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	for i := range len(r.Host) {
		// A host that is more than host characters would be pasted into a shell.
		if c := r.Host[i]; !unreserved(c) && c != ':' && c != '[' && c != ']' {
			return scheme + "localhost"
		}
	}
	if r.Host == "" {
		return scheme + "localhost"
	}
	return scheme + r.Host
}

// splitPath is the decoded segments of a canonical path, for error texts.
func splitPath(r *http.Request) []string {
	return strings.Split(strings.Trim(r.URL.Path, "/"), "/")
}
