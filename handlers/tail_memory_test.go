package handlers

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
)

// TestIdleTailMemory reports, and doesn't judge, what an idle tail and an idle
// long-poll cost this process. The client's side is a bare socket.
func TestIdleTailMemory(t *testing.T) {
	const n = 1000
	b := startBroker(t)
	b.topic("t", 1)
	b.get("/topics/t").want(200)
	for _, path := range []string{"/topics/t/partitions/0/records?timeout=60000", "/topics/t/partitions/0/records?follow=true", "/topics/t/records?follow=true"} {
		before := memory()
		conns := make([]net.Conn, n)
		for i := range conns {
			conns[i] = b.raw()
			fmt.Fprintf(conns[i], "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		}
		b.eventually("all wait", func() bool { return b.waiting() == n })
		after := memory()
		t.Logf("%s: heap %.1f KiB, stacks %.1f KiB, goroutines %.1f, RSS %.1f KiB each", path, float64(after.heap-before.heap)/n/1024, float64(after.stack-before.stack)/n/1024,
			float64(after.goroutines-before.goroutines)/n, float64(after.rss-before.rss)/n/1024)
		for _, c := range conns {
			must(t, c.Close())
		}
		b.eventually("none waits", func() bool { return b.waiting() == 0 })
	}
}

type memoryUse struct{ heap, stack, rss, goroutines int64 }

func memory() memoryUse {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := memoryUse{heap: int64(m.HeapAlloc), stack: int64(m.StackInuse), goroutines: int64(runtime.NumGoroutine())}
	if f, err := os.Open("/proc/self/statm"); err == nil {
		defer f.Close()
		var size, pages int64
		if _, err := fmt.Fscan(f, &size, &pages); err == nil {
			u.rss = pages * int64(os.Getpagesize())
		}
	}
	return u
}
