package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"chaos/history"
)

var part = history.Partition{Topic: "t", Index: 0}

func produce(client string, call, ret int64, outcome history.Outcome, offset int64, value string) *history.Op {
	op := &history.Op{Client: client, Kind: history.Produce, Partition: part, Acks: -1, Call: call, Return: ret, Outcome: outcome, Values: []string{value}}
	if outcome == history.OK {
		op.Offsets = []int64{offset}
	}
	return op
}

func fetch(call, ret, high int64, records ...history.Record) *history.Op {
	op := &history.Op{Client: "r", Kind: history.Fetch, Partition: part, Call: call, Return: ret, Outcome: history.OK, High: high, Records: records}
	if len(records) > 0 {
		op.From = records[0].Offset
	}
	return op
}

func TestCheck(t *testing.T) {
	a, b, late := history.Record{Offset: 0, Value: "a"}, history.Record{Offset: 1, Value: "b"}, history.Record{Offset: 2, Value: "late"}
	for name, c := range map[string]struct {
		ops  []*history.Op
		want porcupine.CheckResult
	}{
		"in order": {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("q", 3, 4, history.OK, 1, "b"), fetch(5, 6, 2, a, b)}, porcupine.Ok},
		"at once":  {[]*history.Op{produce("p", 1, 9, history.OK, 0, "a"), produce("q", 1, 9, history.OK, 1, "b"), fetch(2, 3, 1, a), fetch(4, 5, 2, b)}, porcupine.Ok},
		"an unknown produce takes effect later": {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("u", 1, 2, history.Unknown, 0, "late"),
			produce("q", 3, 4, history.OK, 1, "b"), fetch(5, 6, 2, a, b), fetch(7, 8, 3, late)}, porcupine.Ok},
		"one that never did":                   {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("u", 1, 2, history.Unknown, 0, "never"), fetch(5, 6, 1, a)}, porcupine.Ok},
		"a read misses an acknowledged record": {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("q", 3, 4, history.OK, 1, "b"), fetch(5, 6, 1, a)}, porcupine.Illegal},
		"the end goes back":                    {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("q", 3, 9, history.OK, 1, "b"), fetch(4, 5, 2, a, b), fetch(6, 7, 1, a)}, porcupine.Illegal},
		"later stands before earlier":          {[]*history.Op{produce("p", 3, 4, history.OK, 0, "a"), produce("q", 1, 2, history.OK, 1, "b")}, porcupine.Illegal},
		"another value is read":                {[]*history.Op{produce("p", 1, 2, history.OK, 0, "a"), produce("q", 3, 4, history.OK, 1, "b"), fetch(5, 6, 2, history.Record{Offset: 1, Value: "x"})}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{Ops: c.ops, Views: []*history.View{{Partition: part, End: 3, Records: []history.Record{a, b, late}}}}
			got := Check(h, 10*time.Second)
			if len(got) != 1 || got[0].Verdict != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}
