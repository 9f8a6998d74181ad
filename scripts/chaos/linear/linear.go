// Package linear asks porcupine whether each partition's history is one of a
// single log that takes one operation at a time: an append of some records at
// its end, a read of a prefix. It is an opinion that shares no code with package
// check, and too slow for long runs.
package linear

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"chaos/history"
)

// Result of one partition.
type Result struct {
	Partition  history.Partition
	Operations int
	Verdict    porcupine.CheckResult
}

// log is a log's content; longer logs share their beginning.
type log struct {
	before *log
	value  string
	size   int64
	sum    uint64
}

// input of an operation: an append, or a read if values is nil.
type input struct {
	values []string
	from   int64
}

// output of an operation. An append's offset is where it must land; a read's
// high is the end of the log that it must see.
type output struct {
	offset  int64
	records []history.Record
	high    int64
}

// Check judges every partition that has a view and was not purged, each within
// the limit.
func Check(h *history.History, limit time.Duration) (results []Result) {
	truth := map[history.Partition]*history.View{}
	for _, v := range h.Views {
		if t := truth[v.Partition]; !v.Disk && (t == nil || v.End > t.End) {
			truth[v.Partition] = v
		}
	}
	again := map[string]bool{} // what is sent any number of times is no operation
	for _, a := range h.Attempts {
		again[a.Topic] = true
	}
	model := logModel()
	for key, v := range truth {
		if v.Start > 0 || again[key.Topic] {
			continue // what was purged can't be placed
		}
		ops := operations(h, key, v)
		results = append(results, Result{key, len(ops), porcupine.CheckOperationsTimeout(model, ops, limit)})
	}
	slices.SortFunc(results, func(a, b Result) int { return a.Partition.Index - b.Partition.Index })
	return results
}

// operations of one partition. A produce that isn't in the log at the end had no
// effect; one that is, though nobody vouched for it in time, may have had it at
// any time after its call.
func operations(h *history.History, key history.Partition, truth *history.View) (ops []porcupine.Operation) {
	where := map[string]int64{}
	for _, r := range truth.Records {
		where[r.Value] = r.Offset
	}
	clients := map[string]int{}
	for _, op := range h.Ops {
		if op.Partition != key {
			continue
		}
		if _, known := clients[op.Client]; !known {
			clients[op.Client] = len(clients)
		}
		o := porcupine.Operation{ClientId: clients[op.Client], Call: op.Call, Return: op.Return}
		switch {
		case op.Kind == history.Produce:
			acked := op.Outcome == history.OK && op.Acks == -1
			at, there := where[op.Values[0]]
			if !there && !acked {
				continue
			}
			o.Input, o.Output = input{values: op.Values}, output{offset: at}
			if acked {
				o.Output = output{offset: op.Offsets[0]}
			} else {
				o.Return = math.MaxInt64
			}
		case op.Kind == history.Tail, op.Outcome != history.OK, op.Stale, op.High < 0:
			continue // a tail's records arrive at times of their own
		default:
			o.Input, o.Output = input{from: op.From}, output{records: op.Records, high: op.High}
		}
		ops = append(ops, o)
	}
	return ops
}

func logModel() porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return &log{} },
		Step: func(state, in, out any) (bool, any) {
			l, i, o := state.(*log), in.(input), out.(output)
			if i.values == nil {
				return l.shows(i, o), l
			}
			if o.offset != l.size {
				return false, l
			}
			for _, v := range i.values {
				l = &log{l, v, l.size + 1, maphash.Comparable(seed, [2]any{l.sum, v})}
			}
			return true, l
		},
		Equal: func(a, b any) bool { return a.(*log).size == b.(*log).size && a.(*log).sum == b.(*log).sum },
		Hash:  func(state any) uint64 { return state.(*log).sum },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
}

// shows tells whether a read of this log gives that answer.
func (l *log) shows(i input, o output) bool {
	if l.size != o.high {
		return false
	}
	for _, r := range slices.Backward(o.records) {
		for l.size > r.Offset+1 {
			l = l.before
		}
		if l.size != r.Offset+1 || l.value != r.Value {
			return false
		}
	}
	return true
}
