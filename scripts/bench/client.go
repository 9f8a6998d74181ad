package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readBufferBytes is read at once from a connection: a page of P9 in few calls.
	readBufferBytes = 256 << 10
	// timerIndex marks the client's timer among the epoll events.
	timerIndex = -1
	// stallLimit is how long no connection may say anything before a measurement
	// is given up as stuck. It guards the bench; it is no target.
	stallLimit = 30 * time.Second
)

var (
	errStalled = errors.New("no answer for 30 s")
	errHungUp  = errors.New("the server closed the connection")
)

// client is a set of keep-alive HTTP/1.1 connections served by ONE thread with
// raw non-blocking sockets and epoll. It writes prebuilt requests and parses
// nothing but status and length, so that on two cores it takes as little as it
// can from the server it measures, and the same from each side.
type client struct {
	epoll  int
	timer  int
	conns  []*conn
	events []unix.EpollEvent
	buf    []byte
	begun  time.Time
}

// conn is one connection; it has at most one request on its way.
type conn struct {
	index  int
	fd     int
	unsent []byte // rest of a request that the socket buffer had no room for
	answer response
	sentAt time.Duration // since client.begun; in an open loop the intended time
}

// dial opens n connections to addr.
func dial(addr netip.AddrPort, n int) (*client, error) {
	c := &client{events: make([]unix.EpollEvent, 256), buf: make([]byte, readBufferBytes), begun: time.Now(), timer: -1}
	var err error
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for range n {
		if err := c.add(addr); err != nil {
			c.close()
			return nil, fmt.Errorf("connection %d of %d: %w", len(c.conns)+1, n, err)
		}
	}
	return c, nil
}

func (c *client) add(addr netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	cn := &conn{index: len(c.conns), fd: fd}
	err = errors.Join(
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(fd, true),
		unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(cn.index)}))
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	c.conns = append(c.conns, cn)
	return nil
}

func (c *client) close() {
	for _, cn := range c.conns {
		_ = unix.Close(cn.fd)
	}
	if c.timer >= 0 {
		_ = unix.Close(c.timer)
	}
	_ = unix.Close(c.epoll)
}

// now is the time on the client's own clock.
func (c *client) now() time.Duration { return time.Since(c.begun) }

// send starts a request on a connection that has none on its way.
func (c *client) send(cn *conn, request []byte) error {
	cn.answer.reset()
	cn.unsent = request
	return c.push(cn)
}

func (c *client) push(cn *conn) error {
	for len(cn.unsent) > 0 {
		n, err := unix.Write(cn.fd, cn.unsent)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return c.want(cn, unix.EPOLLIN|unix.EPOLLOUT)
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("send: %w", err)
		}
		cn.unsent = cn.unsent[n:]
	}
	return nil
}

func (c *client) want(cn *conn, events uint32) error {
	return unix.EpollCtl(c.epoll, unix.EPOLL_CTL_MOD, cn.fd, &unix.EpollEvent{Events: events, Fd: int32(cn.index)})
}

// poll waits for the next events, at most timeout (0: just looks), and gives
// onData what came in on each connection. ticked reports that the timer fired;
// quiet that nothing happened at all.
func (c *client) poll(timeout time.Duration, onData func(*conn, []byte) error) (ticked, quiet bool, err error) {
	n, err := unix.EpollWait(c.epoll, c.events, int(timeout.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("epoll: %w", err)
	}
	for _, ev := range c.events[:n] {
		if ev.Fd == timerIndex {
			ticked = true
			var count [8]byte
			_, _ = unix.Read(c.timer, count[:])
			continue
		}
		cn := c.conns[ev.Fd]
		if ev.Events&unix.EPOLLOUT != 0 {
			if err := c.resume(cn); err != nil {
				return ticked, false, err
			}
		}
		if ev.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
			continue
		}
		if err := c.receive(cn, onData); err != nil {
			return ticked, false, err
		}
	}
	return ticked, n == 0, nil
}

func (c *client) resume(cn *conn) error {
	if err := c.want(cn, unix.EPOLLIN); err != nil {
		return err
	}
	return c.push(cn)
}

func (c *client) receive(cn *conn, onData func(*conn, []byte) error) error {
	n, err := unix.Read(cn.fd, c.buf)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("receive: %w", err)
	case n == 0:
		return errHungUp
	}
	return onData(cn, c.buf[:n])
}

// tickAt has poll report a tick at t on the client's clock; epoll's own timeout
// is too coarse (1 ms) for an open loop.
func (c *client) tickAt(t time.Duration) error {
	if c.timer < 0 {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("timer: %w", err)
		}
		c.timer = fd
		if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: timerIndex}); err != nil {
			return fmt.Errorf("timer: %w", err)
		}
	}
	wait := max(t-c.now(), 1) // 0 would switch the timer off
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(wait.Nanoseconds())}
	if err := unix.TimerfdSettime(c.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

// refusal says what a request was answered when that isn't what was expected.
type refusal struct {
	status, want int
	body         string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("answered %d, not %d: %s", r.status, r.want, r.body)
}

// expect turns an answer of another status into an error: a measurement with
// failed requests in it is none.
func (cn *conn) expect(status int) error {
	if cn.answer.status == status {
		return nil
	}
	return &refusal{cn.answer.status, status, string(cn.answer.kept)}
}
