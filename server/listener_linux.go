package main

import (
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// drainQueue bounds the wait for connections that the kernel has accepted already.
const drainQueue = 200 * time.Millisecond

// refuseNew returns when the kernel holds no connection that Accept hasn't taken,
// and has it make no further ones, where it can do that. Closing the port with
// connections in the kernel's queue resets them, and their clients can't know
// whether the requests that they have sent were read. Who is turned away by the
// filter tries again by himself, finds the port closed, and knows.
func refuseNew(l *net.TCPListener) {
	raw, err := l.SyscallConn()
	if err != nil {
		return // then it is closed as it is
	}
	_ = raw.Control(func(fd uintptr) {
		nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}} // lets no packet in
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(nothing)), Filter: &nothing[0]})
	})
	// No pause between the last look and the caller's Close: not every kernel has
	// the filter.
	for end := time.Now().Add(drainQueue); time.Now().Before(end); runtime.Gosched() {
		waiting := uint32(0)
		err := raw.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				waiting = info.Unacked // of a listening socket: its queue
			}
		})
		if err != nil || waiting == 0 {
			return
		}
	}
}
