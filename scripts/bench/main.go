// Command bench measures brokers against the performance targets P1-P20 of
// docs/PERFORMANCE.md. Each figure is a ratio of two sides that
// ran in turns in this one run; no time is a target by itself.
//
//	go run ./scripts/bench            the whole run
//	go run ./scripts/bench -quick     one short round of each: does it run?
//	go run ./scripts/bench -only P4,P5
//
// A whole run writes its tables into docs/PERFORMANCE.md; any other run prints
// them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// loadGCPercent keeps the collector of the load generator out of the way; it
// holds little but latencies.
const loadGCPercent = 800

func main() {
	if len(os.Args) == 4 && os.Args[1] == referenceCommand {
		exit(runReference(os.Args[2], os.Args[3]))
	}
	opts := parseOptions()
	debug.SetGCPercent(loadGCPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, opts))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parseOptions() options {
	o := fullRun()
	quick := flag.Bool("quick", false, "one short round with small sizes; shows only that everything runs")
	for _, arg := range os.Args[1:] {
		if arg == "-quick" || arg == "--quick" {
			o = quickRun()
		}
	}
	flag.IntVar(&o.rounds, "rounds", o.rounds, "rounds of each comparison")
	flag.DurationVar(&o.measure, "measure", o.measure, "measured time of each side in each round")
	flag.DurationVar(&o.warm, "warm", o.warm, "unmeasured time before it")
	flag.Int64Var(&o.logBytes, "log-bytes", o.logBytes, "P11: size of the log that is read at random; the target speaks of 10 GB")
	flag.IntVar(&o.waiters, "waiters", o.waiters, "P12: idle tails and long-polls; each costs a file descriptor on either side")
	flag.IntVar(&o.partitions, "partitions", o.partitions, "P13: partitions on the broker")
	flag.IntVar(&o.ids, "ids", o.ids, "P18-P20: message ids in the window")
	flag.IntVar(&o.rate, "rate", o.rate, "open loop: requests a second")
	flag.StringVar(&o.only, "only", "", "comma-separated measurements to run, of "+measurementNames()+"; prints the result")
	flag.StringVar(&o.dir, "dir", o.dir, "where data goes, on a real disk; removed afterwards")
	flag.StringVar(&o.brokerBin, "broker", "", "a broker binary to measure instead of building ./server")
	flag.StringVar(&o.out, "out", o.out, "Markdown file to write the tables into")
	flag.Parse()
	o.quick = *quick
	return o
}
