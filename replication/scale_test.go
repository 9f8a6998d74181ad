package replication

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"highwater/replication/controller"
)

// residentBytes is the process's resident set, after a collection that gives
// memory back.
func residentBytes(b *testing.B) int64 {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// cpuTime is what the process has used so far: a busy machine doesn't stretch it.
func cpuTime(b testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTenThousandPartitions measures P13: what an idle partition costs, and
// how long a broker with many of them takes to start. Run it with -benchtime 1x.
func BenchmarkTenThousandPartitions(b *testing.B) {
	const partitions = 10_000
	for _, c := range []struct{ topics, each int }{{1, partitions}, {1000, 10}, {partitions, 1}} {
		b.Run(fmt.Sprintf("topics=%d", c.topics), func(b *testing.B) {
			n := startNode(b)
			before, goroutines := residentBytes(b), runtime.NumGoroutine()
			began := time.Now()
			forEach(c.topics, 64, func(i int) {
				_, err := n.CreateTopic(context.Background(), controller.CreateTopicRequest{Name: fmt.Sprint("t", i), Partitions: c.each})
				if err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "create-ms")
			b.ReportMetric(float64(residentBytes(b)-before)/partitions, "rss-B/partition")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
			n.stop()
			began = time.Now()
			cpu := cpuTime(b)
			n.start()
			b.ReportMetric(float64((cpuTime(b) - cpu).Milliseconds()), "start-cpu-ms")
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "start-ms")
			began = time.Now()
			for i := range 100 {
				n.mustAppend(AcksAll, fmt.Sprint("t", i%c.topics), int32(i%c.each), "x")
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/100, "append-µs")
			began = time.Now()
			n.create("one-more", 1)
			b.ReportMetric(float64(time.Since(began).Microseconds()), "one-more-topic-µs")
		})
	}
}
