package main

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	// maxHeaderBytes bounds a response head; the broker's are a few hundred bytes.
	maxHeaderBytes = 64 << 10
	// keptBodyBytes is how much of a refused request's answer is kept to show why.
	keptBodyBytes = 1024
)

// bodyState says where in a body a response stands.
type bodyState int

const (
	inHead bodyState = iota
	inFixed
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
	inStream // no length: an answer that ends with the connection
)

// response takes one HTTP/1.1 answer apart as far as a load generator must: its
// status and its end. The body is counted and thrown away; only of a failed
// request the beginning is kept. The zero value is ready for an answer, and
// again after feed said done.
type response struct {
	state  bodyState
	head   []byte // unfinished head, or unfinished chunk-size line
	left   int64  // bytes left of a fixed body or a chunk
	status int
	body   int64 // bytes of body so far
	kept   []byte
}

func (r *response) reset() { *r = response{head: r.head[:0], kept: r.kept[:0]} }

// feed takes the next bytes from the connection and reports whether the answer
// is whole. Bytes after its end are an error: requests are not pipelined.
func (r *response) feed(data []byte) (done bool, err error) {
	for len(data) > 0 {
		switch r.state {
		case inHead:
			if data, done, err = r.feedHead(data); done || err != nil {
				return done, err
			}
		case inFixed, inChunk:
			data = r.take(data)
			if r.left > 0 {
				return false, nil
			}
			if r.state == inFixed {
				return r.finish(data)
			}
			r.state = inChunkEnd
		case inStream:
			r.body += int64(len(data))
			r.keep(data)
			return false, nil
		default:
			line, rest, whole := r.feedLine(data)
			if !whole {
				return false, nil
			}
			data = rest
			if done, err = r.chunkLine(line); done {
				return r.finish(data)
			} else if err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

func (r *response) finish(rest []byte) (bool, error) {
	if len(rest) > 0 {
		return false, fmt.Errorf("%d bytes after the end of the answer", len(rest))
	}
	return true, nil
}

func (r *response) take(data []byte) []byte {
	n := min(int64(len(data)), r.left)
	r.left -= n
	r.body += n
	r.keep(data[:n])
	return data[n:]
}

func (r *response) keep(data []byte) {
	if r.status >= 300 && len(r.kept) < keptBodyBytes {
		r.kept = append(r.kept, data[:min(len(data), keptBodyBytes-len(r.kept))]...)
	}
}

// feedHead collects the head; rest is what follows it.
func (r *response) feedHead(data []byte) (rest []byte, done bool, err error) {
	before := len(r.head)
	r.head = append(r.head, data...)
	end := bytes.Index(r.head[max(0, before-3):], []byte("\r\n\r\n"))
	if end < 0 {
		if len(r.head) > maxHeaderBytes {
			return nil, false, fmt.Errorf("response head above %d bytes", maxHeaderBytes)
		}
		return nil, false, nil
	}
	end += max(0, before-3) + 4
	rest = data[end-before:]
	head := r.head[:end]
	r.head = r.head[:0]
	if err := r.parseHead(head); err != nil {
		return nil, false, err
	}
	if r.state == inFixed && r.left == 0 {
		done, err = r.finish(rest)
	}
	return rest, done, err
}

func (r *response) parseHead(head []byte) error {
	if len(head) < len("HTTP/1.1 200") || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return fmt.Errorf("no HTTP/1.1 status line: %.60q", head)
	}
	status, err := strconv.Atoi(string(head[9:12]))
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	r.status = status
	r.state, r.left = inStream, 0
	if status == 204 || status == 304 {
		r.state = inFixed
		return nil
	}
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if r.left, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return fmt.Errorf("content length: %w", err)
			}
			r.state = inFixed
		case bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(value, []byte("chunked")):
			r.state = inChunkSize
		}
	}
	return nil
}

// feedLine collects a line of the chunked framing, without its line end.
func (r *response) feedLine(data []byte) (line, rest []byte, whole bool) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		r.head = append(r.head, data...)
		return nil, nil, false
	}
	line = append(r.head, data[:end]...)
	r.head = line[:0]
	return bytes.TrimRight(line, "\r"), data[end+1:], true
}

func (r *response) chunkLine(line []byte) (done bool, err error) {
	switch r.state {
	case inChunkEnd:
		r.state = inChunkSize
	case inTrailer:
		return len(line) == 0, nil
	default:
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(size), 16, 64)
		if err != nil {
			return false, fmt.Errorf("chunk size: %w", err)
		}
		r.left, r.state = n, inChunk
		if n == 0 {
			r.state = inTrailer
		}
	}
	return false, nil
}
