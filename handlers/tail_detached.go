package handlers

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// detached is a tail that has taken its HTTP/1.1 connection over from net/http.
// Below a handler an idle connection holds three buffers, the parsed request and
// two goroutines, one with a deep stack: 34 KiB, and 10,000 idle tails are nothing
// unusual. Taken over, it is a socket, a shallow stack and the tail.
//
// Config.Streams counts its two goroutines: the tail's own, until finish, and one
// that reads, to notice that the client has left.
type detached struct {
	tail
	conn    net.Conn
	ctx     context.Context // ends when the client leaves
	cancel  context.CancelFunc
	release func() // gives back what the tail holds of the broker's limits

	// For the log line at the end.
	x              exchange
	method, remote string
}

// detach makes t a stream of its own, if it can, and then returns when t has
// caught up with the log for the first time. It can't over HTTP/2, which shares
// the connection, over HTTP/1.0, which has no chunks, where nobody waits for
// streams, and in a broker that drains already.
func (t *tail) detach(r *http.Request, release func()) bool {
	a := t.api
	if a.cfg.Streams == nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || a.draining() {
		return false
	}
	// Counted while the server still knows the connection: its Shutdown waits for
	// no other, and nobody may be counted for the first time once Wait has begun.
	a.cfg.Streams.Add(1)
	conn, _, err := t.rc.Hijack()
	if err != nil {
		a.cfg.Streams.Done()
		return false // a transport without connections
	}
	x := t.w.(*exchange)
	x.status, x.detached = http.StatusOK, true
	d := &detached{tail: *t, conn: conn, release: release,
		x:      exchange{id: x.id, route: x.route, frequent: x.frequent, start: x.start, status: http.StatusOK},
		method: r.Method, remote: r.RemoteAddr}
	// Nothing of the request may stay: neither its context nor its writer.
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.w, d.rc = nil, nil
	d.send = d.sendChunk
	head := responseHead(t.w.Header(), a.cfg.Now())
	a.cfg.Streams.Go(d.watch)
	over := d.guarded(func() (bool, error) {
		// The deep stack that reading and rendering need is this request's own here.
		if err := d.sendRaw(head); err != nil {
			return true, err
		}
		return d.open(d.ctx)
	})
	if !over {
		go d.guarded(func() (bool, error) { return true, d.follow(d.ctx) })
	}
	return true
}

// guarded runs a step of the tail's life and ends the stream when it is over. A
// panic ends this stream, not the process.
func (d *detached) guarded(step func() (over bool, err error)) (over bool) {
	defer func() {
		if p := recover(); p != nil {
			d.api.logPanic(&d.x, p)
			over = true
			d.finish(errPanicked)
		}
	}()
	over, err := step()
	if over {
		d.finish(err)
	}
	return over
}

// finish ends the stream: in order, or by a cut that the client can't take for
// its end.
func (d *detached) finish(err error) {
	if err == nil {
		err = d.sendRaw([]byte("0\r\n\r\n"))
	}
	if err != nil && d.ctx.Err() == nil { // not because the client had left
		d.x.err = errors.Join(errAborted, err)
	}
	_ = d.conn.Close() // nothing is on its way any more
	d.cancel()
	d.close()
	d.release()
	d.api.metrics.inFlight.Dec()
	d.api.observe(&d.x, d.method, d.remote, time.Since(d.x.start))
	d.api.cfg.Streams.Done()
}

// watch reads until the client leaves or finish closes the connection. What a
// client sends into a stream is thrown away.
func (d *detached) watch() {
	var scrap [64]byte
	for {
		if _, err := d.conn.Read(scrap[:]); err != nil {
			d.cancel()
			return
		}
	}
}

// sendChunk sends p as one chunk of the body.
func (d *detached) sendChunk(p []byte) error {
	if len(p) == 0 {
		return nil // an empty chunk would be the end
	}
	buf := d.api.buffers.get()
	buf = strconv.AppendInt(buf, int64(len(p)), 16)
	buf = append(buf, "\r\n"...)
	buf = append(buf, p...)
	buf = append(buf, "\r\n"...)
	err := d.sendRaw(buf)
	d.api.buffers.put(buf)
	if err == nil {
		d.x.bytes += int64(len(p))
	}
	return err
}

// sendRaw gives the client Config.WriteTimeout to take p. The deadline stands until the
// next one: it concerns nothing but writes.
func (d *detached) sendRaw(p []byte) error {
	if err := d.conn.SetWriteDeadline(time.Now().Add(d.api.cfg.WriteTimeout)); err != nil {
		return err
	}
	_, err := d.conn.Write(p)
	return err
}

// responseHead is what net/http would have sent before the body.
func responseHead(h http.Header, now time.Time) []byte {
	var out bytes.Buffer
	out.WriteString("HTTP/1.1 200 OK\r\nDate: ")
	out.WriteString(now.UTC().Format(http.TimeFormat))
	// The connection can't be net/http's again, so it ends with the stream.
	out.WriteString("\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n")
	_ = h.WriteSubset(&out, map[string]bool{"Date": true, "Transfer-Encoding": true, "Connection": true, "Content-Length": true}) // a buffer takes everything
	out.WriteString("\r\n")
	return out.Bytes()
}
