package main

import (
	"errors"
	"fmt"
	"os"
)

// filled is what a broker with many records looks like.
type filled struct {
	grown   float64 // RSS after the records less RSS before, at rest
	restart float64 // RSS of a fresh process on the same data
	clean   float64 // seconds from exec to ready after a clean end
	killed  float64 // the same after kill -9
}

// measureIDMemory fills P18, P19 and P20 on one broker: what ids in the window
// cost, against the same records without ids. Each round has brokers of its own.
func (b *bench) measureIDMemory() error {
	for _, partitions := range []int{1, manyPartitions} {
		var each, again, clean, killed []float64
		for round := range b.rounds {
			plain, err := b.fillOnce(partitions, false, round)
			if err != nil {
				return err
			}
			with, err := b.fillOnce(partitions, true, round)
			if err != nil {
				return err
			}
			ids := float64(b.ids / batchRecords * batchRecords)
			each = append(each, (with.grown-plain.grown)/ids)
			again = append(again, (with.restart-plain.restart)/ids)
			clean = append(clean, with.clean/plain.clean)
			killed = append(killed, with.killed/plain.killed)
			b.report.note("P19: %d ids over %d partitions: start-up %.0f ms after a clean end (%.0f ms without ids), %.0f ms after kill -9 (%.0f ms); "+
				"resident set %.1f MiB (%.1f MiB) more than before them, %.1f MiB (%.1f MiB) in all after a restart",
				int(ids), partitions, 1000*with.clean, 1000*plain.clean, 1000*with.killed, 1000*plain.killed,
				with.grown/(1<<20), plain.grown/(1<<20), with.restart/(1<<20), plain.restart/(1<<20))
		}
		what := fmt.Sprintf("%d ids in the window, %d partitions", b.ids, partitions)
		b.report.add(row{id: "P18", work: what + ": RSS each beyond the same records without ids, as written", target: 100, stretch: 32, unit: byteCount, rounds: each})
		b.report.add(row{id: "P18", work: "the same in a process that was started on them", target: 100, stretch: 32, unit: byteCount, rounds: again})
		b.report.add(row{id: "P19", work: what + ": start-up after a clean end against the same without ids", unit: times, rounds: clean})
		b.report.add(row{id: "P19", work: "the same after kill -9", unit: times, rounds: killed})
	}
	return b.measureLookups()
}

// measureLookups fills P20 on one broker, with its ids over many partitions.
func (b *bench) measureLookups() error {
	if _, err := b.createTopic("many", manyPartitions); err != nil {
		return err
	}
	if err := b.fillIDs(b.broker.addr, "many", manyPartitions, true, 1<<20); err != nil {
		return err
	}
	if err := waitIdle(b.broker.pid()); err != nil {
		return err
	}
	return b.compareLookups(b.broker, []int{b.broker.pid()}, "many", manyPartitions, "")
}

// fillOnce fills an empty broker, and ends and starts it; it leaves an empty one.
func (b *bench) fillOnce(partitions int, with bool, round int) (f filled, err error) {
	if err := b.freshBroker(); err != nil {
		return f, err
	}
	if _, err := b.createTopic("fill", partitions); err != nil {
		return f, err
	}
	empty, err := b.idleRSS()
	if err != nil {
		return f, err
	}
	if err := b.fillIDs(b.broker.addr, "fill", partitions, with, uint32(round)); err != nil {
		return f, err
	}
	full, err := b.idleRSS()
	if err != nil {
		return f, err
	}
	f.grown = full - empty
	if err := b.broker.cmd.Process.Kill(); err != nil {
		return f, err
	}
	<-b.broker.exited
	b.broker = nil
	if err := b.startBroker(); err != nil {
		return f, err
	}
	f.killed = b.broker.startup.Seconds()
	if err := errors.Join(b.stopBroker(), b.startBroker()); err != nil {
		return f, err
	}
	f.clean = b.broker.startup.Seconds()
	if f.restart, err = b.idleRSS(); err != nil {
		return f, err
	}
	return f, b.freshBroker()
}

// freshBroker throws the broker's data away and starts it anew.
func (b *bench) freshBroker() error {
	if err := errors.Join(b.stopBroker(), os.RemoveAll(b.brokerDir)); err != nil {
		return err
	}
	return b.startBroker()
}
