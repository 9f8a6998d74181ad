package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"chaos/check"
	"chaos/history"
	"chaos/linear"
)

// verdict is what a run showed.
type verdict struct {
	seed      uint64
	again     bool // of an old history: there are no brokers to ask
	wrong     []check.Violation
	faults    map[string]int
	topics    map[string]int // changes of topics
	clients   []count
	evidence  []count
	linears   []count
	undecided int
	trouble   []count // lines at level error, which are for a person to read
}

// count is how often something happened.
type count struct {
	what string
	n    int
	// needed: a run without any is no evidence.
	needed bool
	// forbidden: must be 0.
	forbidden bool
}

// linear takes over what porcupine said of a partition.
func (v *verdict) linear(r linear.Result) {
	switch r.Verdict {
	case porcupine.Ok:
		v.linears = append(v.linears, count{what: fmt.Sprintf("operations of %.8s-%d, linearizable", r.Partition.Topic, r.Partition.Index), n: r.Operations})
	case porcupine.Illegal:
		v.wrong = append(v.wrong, check.Violation{Invariant: "V7", Detail: fmt.Sprintf("%s-%d: no order of its %d operations explains what clients saw (porcupine)",
			r.Partition.Topic, r.Partition.Index, r.Operations)})
	default:
		v.undecided++
	}
}

// judge adds what must never happen, and did, to what was wrong.
func (v *verdict) judge() {
	for _, c := range v.evidence {
		if c.forbidden && c.n > 0 {
			v.wrong = append(v.wrong, check.Violation{Invariant: "never", Detail: fmt.Sprintf("%d x %s", c.n, c.what)})
		}
	}
}

func (v *verdict) lacking() (what []string) {
	for _, c := range v.evidence {
		if c.needed && c.n == 0 {
			what = append(what, c.what)
		}
	}
	return what
}

func (v *verdict) good() bool { return len(v.wrong) == 0 && len(v.lacking()) == 0 }

func (v *verdict) print(w io.Writer) {
	table := func(title string, counts []count) {
		if len(counts) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, c := range counts {
			fmt.Fprintf(w, "  %8d  %s\n", c.n, c.what)
		}
	}
	table("what was done", slices.Concat(sorted(v.faults), sorted(v.topics)))
	table("what clients did", v.clients)
	table("what rarely happens, and did", v.evidence)
	table("errors in the brokers' logs", v.trouble)
	table("porcupine", v.linears)
	if v.undecided > 0 {
		fmt.Fprintf(w, "  undecided for want of time: %d partitions\n", v.undecided)
	}
	fmt.Fprintln(w)
	for _, x := range v.wrong {
		fmt.Fprintf(w, "WRONG %s\n", x)
	}
	switch lacking := v.lacking(); {
	case len(v.wrong) > 0:
		fmt.Fprintf(w, "seed %d: FAILED, %d findings\n", v.seed, len(v.wrong))
	case len(lacking) > 0:
		fmt.Fprintf(w, "seed %d: NO EVIDENCE: nothing was wrong, but there was none of: %s\n", v.seed, strings.Join(lacking, ", "))
	default:
		fmt.Fprintf(w, "seed %d: every invariant held\n", v.seed)
	}
}

func sorted(m map[string]int) (out []count) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, count{what: k, n: m[k]})
	}
	return out
}

// clientCounts sums up what clients did.
func clientCounts(h *history.History) []count {
	produces := map[string]int{}
	var fetches, records, tails, tailed, ends, failed int
	for _, op := range h.Ops {
		switch op.Kind {
		case history.Produce:
			produces[fmt.Sprintf("produces at acks=%d: %s", op.Acks, op.Outcome)]++
		case history.Fetch:
			fetches++
			records += len(op.Records)
		case history.Tail:
			tails++
			tailed += len(op.Records)
		case history.End:
			ends++
		}
		if op.Kind != history.Produce && op.Outcome == history.Failed {
			failed++
		}
	}
	return append(sorted(produces), count{what: "fetches", n: fetches}, count{what: "records fetched", n: records}, count{what: "tails", n: tails},
		count{what: "records tailed", n: tailed}, count{what: "questions for offsets", n: ends}, count{what: "reads and questions that failed", n: failed},
		count{what: "looks into brokers", n: len(h.Samples)})
}

// codes are the error codes that are worth counting.
var codes = []struct {
	code int
	what string
}{
	{50302, "refusals: no leader (50302)"},
	{50303, "refusals: NOT_ENOUGH_REPLICAS (50303)"},
	{50304, "NOT_ENOUGH_REPLICAS_AFTER_APPEND (50304)"},
	{50305, "refusals: not confirmed or shutting down (50305)"},
	{50401, "timeouts (50401)"},
}

// evidence counts what has to happen if a run is to prove anything.
func evidence(h *history.History, lines map[string]int) (out []count) {
	var unknown, notWritten, stale int
	byCode := map[int]int{}
	for _, op := range h.Ops {
		if op.Kind == history.Produce && op.Outcome == history.Unknown {
			unknown++
		}
		if op.Kind == history.Produce && op.Outcome == history.NotWritten {
			notWritten++
		}
		if op.Stale {
			stale++
		}
		byCode[op.Code]++
	}
	out = append(out, count{what: "produces whose outcome is unknown", n: unknown, needed: true}, count{what: "produces refused before they were written", n: notWritten},
		count{what: "reads that say they may be stale", n: stale})
	for _, c := range codes {
		out = append(out, count{what: c.what, n: byCode[c.code]})
	}
	for _, s := range signs() {
		out = append(out, count{what: s.what, n: lines[s.what], needed: s.needed, forbidden: s.forbidden})
	}
	return out
}
