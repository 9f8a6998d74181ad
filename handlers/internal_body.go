package handlers

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"highwater/replication/wire"
)

const (
	// maxControlMessage bounds a message without records, in bytes: a full fetch or
	// watch of a hundred thousand partitions fits.
	maxControlMessage = 16 << 20
	// internalBodyPatience is how long another broker may take to send a request.
	internalBodyPatience = 30 * time.Second
	// firstInternalRead is how much is allocated for a body before any of it came.
	firstInternalRead = 64 << 10
)

// receive reads a request's message; its body is at most so large. release gives
// back what it counts as, and must be called once the message is no longer used.
func (in *Internal) receive(w http.ResponseWriter, r *http.Request, most int64, m wire.Message) (release func(), err error) {
	if ids := r.Header[wire.HeaderClusterID]; len(ids) > 0 {
		if c := in.controller.Load(); c != nil {
			if id := c.State().ClusterID; id != "" && (len(ids) != 1 || ids[0] != id) {
				return nil, errOtherCluster
			}
		}
	}
	// Nothing that a page in a browser can send without asking first.
	if types := r.Header["Content-Type"]; len(types) != 1 || types[0] != wire.ContentType || len(r.Header["Content-Encoding"]) > 0 {
		return nil, &requestError{code: codeUnsupportedType, detail: "Brokers send " + wire.ContentType + "."}
	}
	length := r.ContentLength
	switch {
	case length < 0:
		return nil, &requestError{code: codeMalformed, detail: "The request doesn't tell its length."}
	case length > most:
		return nil, bodyTooLarge(most)
	case !in.bodies.take(length):
		return nil, &overloadedError{what: "bytes of other brokers' requests"}
	}
	body, err := readInternalBody(w, r, length)
	if err == nil {
		err = wire.DecodeBody(body, m)
	}
	if err != nil {
		in.bodies.give(length)
		return nil, err
	}
	return func() { in.bodies.give(length) }, nil
}

// readInternalBody reads so many bytes. Memory grows with what came, not with what
// was promised.
func readInternalBody(w http.ResponseWriter, r *http.Request, length int64) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(internalBodyPatience)) // a transport without deadlines has no slow sender
	body := make([]byte, 0, min(length, firstInternalRead))
	for int64(len(body)) < length {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(4*int64(len(body)), length))
			copy(grown, body)
			body = grown
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil && int64(len(body)) < length {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, &requestError{code: codeMalformed, detail: "The request ended early: " + err.Error() + "."}
		}
	}
	// To the end: from here on r.Context ends when the sender leaves.
	_, _ = r.Body.Read(make([]byte, 1))
	_ = rc.SetReadDeadline(time.Time{})
	return body, nil
}

// answer sends a message.
func (in *Internal) answer(w http.ResponseWriter, m wire.Message) error {
	head := wire.AppendFrame(in.buffers.get(), m)
	defer func() { in.buffers.put(head) }()
	payload := m.Payload()
	length := len(head)
	for _, p := range payload {
		length += len(p)
	}
	h := w.Header()
	h["Content-Type"] = octets
	h["Content-Length"] = []string{strconv.Itoa(length)}
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, p := range payload {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the next answer sets its own
	return nil
}

var octets = []string{wire.ContentType}

// served is a control call: JSON in, JSON out.
func served[Q, A any](in *Internal, w http.ResponseWriter, r *http.Request, serve func(req *Q) *A) error {
	req := &wire.JSON[Q]{}
	release, err := in.receive(w, r, maxControlMessage, req)
	if err != nil {
		return err
	}
	res := serve(req.V)
	release()
	return in.answer(w, &wire.JSON[A]{V: res})
}
