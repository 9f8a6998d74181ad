package main

import (
	"os"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

const (
	// gcPercent lets the heap grow to five times what is live: most of a broker's
	// memory is short-lived request buffers, and collecting less often was measured
	// to give a fifth more throughput. The memory limit below keeps it safe.
	gcPercent = 400
	// gcRoom is how much garbage there may be, in bytes, where five times what is live would be more:
	// collecting it costs less than what it keeps touching first, memory that the process doesn't have yet.
	gcRoom = 128 << 20
	// leastGCPercent is for heaps beyond twice gcRoom.
	leastGCPercent = 50
	// memoryShare of the container's or machine's memory is the soft limit of the
	// Go heap; the rest is for the page cache, which reads are served from.
	memoryShare = 0.7
)

// tuneMemory sets GOGC and GOMEMLIMIT where the environment leaves them open.
func tuneMemory(log zerolog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		afterCollection(boundGarbage)
	}
	limit, err := memlimit.Set(
		memlimit.WithRatio(memoryShare),
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
	)
	if err != nil {
		log.Warn().Err(err).Msg("the memory limit could not be read; the heap is bounded by GOGC alone")
		return
	}
	log.Debug().Int64("bytes", limit).Msg("soft memory limit")
}

// boundGarbage sets GOGC to what leaves gcRoom above what is live, between its bounds.
func boundGarbage() {
	live := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	gometrics.Read(live)
	percent := gcRoom * 100 / max(live[0].Value.Uint64(), 1)
	debug.SetGCPercent(int(min(max(percent, leastGCPercent), gcPercent)))
}

// afterCollection calls f after each garbage collection.
func afterCollection(f func()) {
	runtime.AddCleanup(new([2]uint64), func(f func()) {
		f()
		afterCollection(f)
	}, f)
}
