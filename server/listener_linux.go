package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// queued is how many connections the kernel has made that Accept hasn't taken.
func queued(l *net.TCPListener) (n int) {
	raw, err := l.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int(info.Unacked) // of a listening socket: its queue
		}
	})
	return n
}
