package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// The tables stand between these lines of the report file; all else in it is
// written by hand and kept.
const (
	beginMarker = "<!-- bench:begin (written by make bench, do not edit) -->"
	endMarker   = "<!-- bench:end -->"
)

// unit says how a figure is written.
type unit int

const (
	percent      unit = iota // 0.7 → 70 %
	times                    // 4.5 → 4.5x
	kibibytes                // bytes → KiB
	milliseconds             // seconds → ms
	byteCount                // bytes
)

func (u unit) text(v float64) string {
	switch u {
	case percent:
		return fmt.Sprintf("%.1f %%", 100*v)
	case times:
		return fmt.Sprintf("%.2fx", v)
	case kibibytes:
		return fmt.Sprintf("%.1f KiB", v/1024)
	case byteCount:
		return fmt.Sprintf("%.0f B", v)
	default:
		return fmt.Sprintf("%.2f ms", 1000*v)
	}
}

// row is one target and what was measured, one figure a round.
type row struct {
	id, work        string
	target, stretch float64 // 0: no target, given for information
	unit            unit
	atLeast         bool // more is better
	rounds          []float64
}

// verdict compares the median with the targets.
func (r row) verdict() string {
	median := summarize(r.rounds).median
	meets := func(goal float64) bool { return (r.atLeast && median >= goal) || (!r.atLeast && median <= goal) }
	switch {
	case r.target == 0:
		return ""
	case meets(r.stretch):
		return "stretch met"
	case meets(r.target):
		return "met"
	default:
		return "**missed**"
	}
}

func (r row) goal(v float64) string {
	switch {
	case r.target == 0:
		return ""
	case r.atLeast:
		return "≥ " + r.unit.text(v)
	default:
		return "≤ " + r.unit.text(v)
	}
}

func (r row) markdown() string {
	s := summarize(r.rounds)
	return fmt.Sprintf("| %s | %s | %s | %s | %s [%s – %s] | %d | %s |", r.id, r.work, r.goal(r.target), r.goal(r.stretch),
		r.unit.text(s.median), r.unit.text(s.lowest), r.unit.text(s.highest), s.rounds, r.verdict())
}

// report gathers the lines of the tables.
type report struct {
	machine   string
	took      time.Duration
	rows      []row
	absolutes []string
	opens     []string
	starts    []string
	allocs    []string
	notes     []string
}

func (r *report) add(line row) { r.rows = append(r.rows, line) }

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// addAbsolute tells what one side did by itself, all rounds together.
func (r *report) addAbsolute(s side, samples []sample) {
	var all latencies
	var cpu, own, elapsed time.Duration
	var requests int64
	for i := range samples {
		all = append(all, samples[i].latency...)
		cpu += samples[i].cpu
		own += samples[i].own
		elapsed += samples[i].elapsed
		requests += samples[i].requests
	}
	rate := summarize(each(samples, (*sample).perSecond)).median
	volume, cost, share := fmt.Sprintf("%.0f req/s", rate), "–", "–"
	if s.records > 1 {
		volume += fmt.Sprintf(", %.0f records/s", rate*float64(s.records))
	}
	if s.records == 0 {
		volume += fmt.Sprintf(", %.0f MB/s", summarize(each(samples, (*sample).bytesPerSecond)).median/1e6)
	}
	if cpu > 0 {
		cost = fmt.Sprintf("%.1f s", cpu.Seconds()/float64(requests*int64(max(s.records, 1)))*1e6)
		share = fmt.Sprintf("%.0f %%, %.0f %%", 100*cpu.Seconds()/elapsed.Seconds(), 100*own.Seconds()/elapsed.Seconds())
	}
	r.absolutes = append(r.absolutes, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", s.name, s.durability, volume, quantiles(all), cost, share))
}

func quantiles(l latencies) string {
	return fmt.Sprintf("%s / %s / %s", millis(l.quantile(0.5)), millis(l.quantile(0.99)), millis(l.quantile(0.999)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

func (r *report) addOpen(name, durability string, rate int, s sample) {
	r.opens = append(r.opens, fmt.Sprintf("| %s | %s | %d/s | %s | %.1f s |", name, durability, rate, quantiles(s.latency),
		s.cpu.Seconds()/(float64(rate)*s.elapsed.Seconds())*1e6))
}

func (r *report) addStart(startup, opening time.Duration, read int64) {
	r.starts = append(r.starts, fmt.Sprintf("| %s ms | %s ms | %s |", millis(startup), millis(opening), sizeText(read)))
}

func (r *report) addAllocations(line string) { r.allocs = append(r.allocs, line) }

// markdown is all tables, with how they came to be above them.
func (r *report) markdown(command string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s  \ncommand: `%s` (%.1f minutes)\n\n", beginMarker, r.machine, command, r.took.Minutes())
	table := func(head string, lines []string) {
		if len(lines) == 0 {
			return
		}
		columns := strings.Count(head, "|") - 1
		fmt.Fprintf(&out, "%s\n|%s\n%s\n\n", head, strings.Repeat(" --- |", columns), strings.Join(lines, "\n"))
	}
	var rows []string
	for _, line := range r.rows {
		rows = append(rows, line.markdown())
	}
	table("| # | work | target | stretch | measured: median of rounds [min – max] | rounds | |", rows)
	table("| closed loop: side | what its answer proves | median rate | p50 / p99 / p99.9 ms | server CPU per million records (requests, for pages) | CPU of server, load generator |", r.absolutes)
	table("| open loop | what its answer proves | fixed rate | p50 / p99 / p99.9 ms from the due time | server CPU per million records |", r.opens)
	table("| P13 start-up | opening and reading 4 KiB of each | read by the broker until ready |", r.starts)
	table("| in process, no network | records/s | allocations per record | bytes allocated per record |", r.allocs)
	for _, n := range r.notes {
		fmt.Fprintf(&out, "- %s\n", n)
	}
	fmt.Fprintln(&out, endMarker)
	return out.Bytes()
}

// publish writes a whole run into the report file and prints any other.
func (b *bench) publish() error {
	if b.quick || b.only != "" {
		_, err := os.Stdout.Write(b.report.markdown(b.command()))
		return err
	}
	doc, err := os.ReadFile(b.out)
	if err != nil {
		return err
	}
	doc, err = splice(doc, b.report.markdown(b.command()))
	if err != nil {
		return fmt.Errorf("%s: %w", b.out, err)
	}
	return os.WriteFile(b.out, doc, 0o644)
}

// command says how to get the same run again.
func (b *bench) command() string {
	o := b.options
	if o.quick {
		return "make bench-quick"
	}
	full := fullRun()
	text := "make bench"
	if o.logBytes != full.logBytes || o.rounds != full.rounds || o.measure != full.measure {
		text = fmt.Sprintf("go run ./scripts/bench -rounds %d -measure %s -log-bytes %d", o.rounds, o.measure, o.logBytes)
	}
	if o.only != "" {
		text = "go run ./scripts/bench -only " + o.only
	}
	return text
}

var errNoMarkers = errors.New("the lines between which the tables go are missing")

// splice puts tables, which begin and end with the markers, in place of what
// stands between the markers of doc.
func splice(doc, tables []byte) ([]byte, error) {
	begin := bytes.Index(doc, []byte(beginMarker))
	end := bytes.Index(doc, []byte(endMarker+"\n"))
	if begin < 0 || end < begin {
		return nil, errNoMarkers
	}
	rest := doc[end+len(endMarker)+1:]
	return append(append(bytes.Clone(doc[:begin]), tables...), rest...), nil
}

func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
}
