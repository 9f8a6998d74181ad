package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// measureAllocations runs the Go benchmarks of the whole broker in one process,
// without a network, for what a black box can't show: allocations per record.
func (b *bench) measureAllocations() error {
	benchtime := "2s"
	if b.quick {
		benchtime = "10x"
	}
	out, err := exec.CommandContext(b.ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchtime", benchtime, "./scripts/bench").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	found := false
	for line := range strings.Lines(string(out)) {
		if cells, ok := allocationCells(line); ok {
			b.report.addAllocations(cells)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("no benchmark told its allocations per record:\n%s", out)
	}
	return nil
}

// allocationCells turns one line of `go test -bench` into a table line.
func allocationCells(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", false
	}
	metrics := map[string]float64{}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", false
		}
		metrics[fields[i+1]] = v
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		name = name[:at] // GOMAXPROCS
	}
	allocs, ok := metrics["allocs/record"]
	return fmt.Sprintf("| %s | %.0f | %.3f | %.0f |", name, metrics["records/s"], allocs, metrics["B/record"]), ok
}
