package check

import (
	"slices"
	"strings"
	"testing"

	"chaos/history"
)

var orders = history.Partition{Topic: "t1", Index: 0}

// second is a time of the histories below.
const second = int64(1e9)

// good is a small history in which everything is as it should be; each test
// breaks one thing of it. Its log: a, b, c (one request), d, e at offsets 0-4.
// lost was acknowledged by a leader alone, refused not at all, maybe is unknown.
func good() *history.History {
	p := func(id int64, client string, acks int, at float64, outcome history.Outcome, base int64, values ...string) *history.Op {
		op := &history.Op{ID: id, Client: client, Kind: history.Produce, Partition: orders, Broker: 1, Acks: acks, Values: values, Outcome: outcome,
			Call: int64(at * float64(second)), Return: int64((at + 0.5) * float64(second))}
		for i := range values {
			if outcome == history.OK && acks != 0 {
				op.Offsets = append(op.Offsets, base+int64(i))
			}
		}
		return op
	}
	records := []history.Record{{Offset: 0, Value: "a"}, {Offset: 1, Value: "b"}, {Offset: 2, Value: "c"}, {Offset: 3, Value: "d"}, {Offset: 4, Value: "e"}}
	batches := []history.Batch{{Base: 0, Last: 2, Epoch: 0, Sum: "s0"}, {Base: 3, Last: 3, Epoch: 1, Sum: "s1"}, {Base: 4, Last: 4, Epoch: 1, Sum: "s2"}}
	view := func(source string, disk bool) *history.View {
		v := &history.View{Partition: orders, Source: source, Disk: disk, End: 5, Records: slices.Clone(records)}
		if disk {
			v.Batches = slices.Clone(batches)
		}
		return v
	}
	sample := func(broker int, at float64, role string, epoch int32, end, high int64) *history.Sample {
		return &history.Sample{Broker: broker, Call: int64(at * float64(second)), Return: int64(at*float64(second)) + second/10, Replicas: []history.Replica{{
			Partition: orders, Role: role, LeaderEpoch: epoch, PartitionEpoch: epoch, End: end, Durable: end, High: high, Replicas: []int{1, 2, 3},
			ISR: []int{1, 2}, MaximalISR: []int{1, 2}, MinInSync: 2, Epochs: []history.EpochStart{{Epoch: 0, Start: 0}, {Epoch: epoch, Start: 3}}[2-min(epoch+1, 2):],
		}}}
	}
	return &history.History{
		Ops: []*history.Op{
			p(1, "p1", -1, 1, history.OK, 0, "a", "b", "c"),
			p(2, "p1", 1, 2, history.OK, 3, "lost"),
			p(3, "p2", -1, 3, history.NotWritten, 0, "refused"),
			p(4, "p2", -1, 3.6, history.Unknown, 0, "maybe"),
			p(5, "p1", -1, 5, history.OK, 3, "d"),
			{ID: 6, Client: "r1", Kind: history.Fetch, Partition: orders, Broker: 2, Call: 6 * second, Return: 7 * second, Outcome: history.OK, From: 0, High: 4,
				Records: slices.Clone(records[:4])},
			{ID: 7, Client: "r2", Kind: history.Tail, Partition: orders, Broker: 3, Call: 2 * second, Return: 9 * second, Outcome: history.OK, From: 1, High: -1,
				Records: slices.Clone(records[1:5])},
			{ID: 8, Client: "r3", Kind: history.End, Partition: orders, Broker: 1, Call: 7 * second, Return: 8 * second, Outcome: history.OK, High: 4},
			p(9, "p2", -1, 10, history.OK, 4, "e"),
		},
		Events: []history.Event{
			{At: 3 * second, What: history.EventDown, Broker: 1}, {At: 4 * second, What: history.EventUp, Broker: 1},
			{At: 9 * second, What: history.EventHealed}, {At: 9 * second, What: history.EventFinal},
		},
		Samples: []*history.Sample{
			sample(1, 1.8, "leader", 0, 4, 3), sample(2, 4.5, "leader", 1, 3, 3), sample(1, 5.8, "follower", 1, 4, 3), sample(2, 6, "leader", 1, 4, 4),
			sample(1, 6.5, "follower", 1, 4, 3), sample(2, 7, "leader", 1, 4, 4), sample(2, 10.8, "leader", 1, 5, 5),
		},
		Views: []*history.View{view("broker 1", false), view("broker 2", false), view("disk 1", true), view("disk 2", true)},
	}
}

var all = Options{FinalWithin: 10 * second, Brokers: []int{1}}

func TestGoodHistory(t *testing.T) {
	for _, v := range Check(good(), all) {
		t.Error(v)
	}
}

// A damage is one thing that breaks one invariant.
type damage struct {
	name      string
	invariant string
	do        func(h *history.History)
}

// views changes each view's records alike.
func views(h *history.History, change func([]history.Record) []history.Record) {
	for _, v := range h.Views {
		v.Records = change(v.Records)
	}
}

func without(value string) func([]history.Record) []history.Record {
	return func(r []history.Record) []history.Record {
		return slices.DeleteFunc(r, func(r history.Record) bool { return r.Value == value })
	}
}

func at(offset int64, value string) func([]history.Record) []history.Record {
	return func(r []history.Record) []history.Record { r[offset].Value = value; return r }
}

func damages() []damage {
	return []damage{
		{"an acknowledged record is gone", "V1", func(h *history.History) { views(h, without("e")) }},
		{"another stands in its place", "V1", func(h *history.History) { views(h, at(3, "maybe")) }},
		{"no broker can show the log", "V1", func(h *history.History) { h.Views = nil }},
		{"a reader saw what was refused", "V2", func(h *history.History) { h.Ops[6].Records[3].Value = "refused" }},
		{"readers saw two values of an offset", "V3", func(h *history.History) { h.Ops[5].Records[3].Value = "maybe" }},
		{"an offset was acknowledged twice", "V3", func(h *history.History) { h.Ops[8].Offsets[0] = 3 }},
		{"a record stands twice", "V4", func(h *history.History) {
			views(h, func(r []history.Record) []history.Record { return append(r, history.Record{Offset: 5, Value: "d"}) })
		}},
		{"a record stands elsewhere than was answered", "V5", func(h *history.History) { h.Ops[8].Offsets[0] = 7 }},
		{"likewise at acks=1", "V5", func(h *history.History) { views(h, at(4, "lost")) }},
		{"fewer offsets than records", "V5", func(h *history.History) { h.Ops[0].Offsets = h.Ops[0].Offsets[:2] }},
		{"a later request stands before an earlier one", "V6", func(h *history.History) {
			h.Ops[4].Client, h.Ops[4].Call, h.Ops[4].Return = "p3", 11*second, 12*second
		}},
		{"a read misses an acknowledged record", "V7", func(h *history.History) { h.Ops[5].High, h.Ops[5].Records = 3, h.Ops[5].Records[:3] }},
		{"a read finds nothing at an acknowledged record", "V7", func(h *history.History) { h.Ops[5].Records = nil }},
		{"an end offset below an acknowledged record", "V7", func(h *history.History) { h.Ops[7].High = 3 }},
		{"a tail skips a record", "V8", func(h *history.History) { h.Ops[6].Records = slices.Delete(h.Ops[6].Records, 1, 2) }},
		{"a tail repeats a record", "V8", func(h *history.History) { h.Ops[6].Records = slices.Insert(h.Ops[6].Records, 1, h.Ops[6].Records[0]) }},
		{"a fetch begins elsewhere", "V8", func(h *history.History) { h.Ops[5].Records = h.Ops[5].Records[1:] }},
		{"a fetch reads above the high watermark", "V8", func(h *history.History) { h.Ops[5].High = 3; h.Ops[5].Stale = true }},
		{"what was read vanished", "V9", func(h *history.History) { views(h, without("d")) }},
		{"what was read changed", "V9", func(h *history.History) { h.Ops[6].Records[0].Value = "maybe" }},
		{"a client's second request stands before its first", "V10", func(h *history.History) { h.Ops[4].Offsets[0] = 1 }},
		{"offsets of one answer are out of order", "V10", func(h *history.History) { h.Ops[0].Offsets[1] = 2; h.Ops[0].Offsets[2] = 1 }},
		{"the end offset went back", "V11", func(h *history.History) { h.Ops[7].Call, h.Ops[7].High = 7*second+1, 3 }},
		{"deleted records come back", "R89", func(h *history.History) {
			h.Ops = append(h.Ops, &history.Op{ID: 20, Client: "a", Kind: history.Trim, Partition: orders, Call: second, Return: 6*second - 1, Outcome: history.OK, Start: 1, High: -1})
		}},
		{"the log ends below what was told", "V11", func(h *history.History) { h.Ops[7].High = 6 }},
		{"no answer from a broker that ran", "V15", func(h *history.History) { h.Ops[7].NoAnswer = true }},
		{"no produce succeeds at the end", "V15", func(h *history.History) { h.Ops[8].Outcome = history.Unknown }},
		{"it succeeds too late", "V15", func(h *history.History) { h.Ops[8].Return = 20 * second }},
		{"half a request stands", "V16", func(h *history.History) {
			h.Ops[8].Values = []string{"e", "f"}
			h.Ops[8].Acks, h.Ops[8].Outcome = 0, history.OK
		}},
		{"a request's records are out of order", "V16", func(h *history.History) {
			h.Ops[0].Outcome = history.Unknown
			views(h, func(r []history.Record) []history.Record { r[1].Value, r[2].Value = "c", "b"; return r })
		}},
		{"something that nobody sent", "V16", func(h *history.History) { h.Ops[6].Records[3].Value = "e with a bit flipped" }},
		{"something that was sent elsewhere", "V16", func(h *history.History) {
			h.Ops[3].Partition.Index, h.Ops[8].Outcome = 1, history.Unknown
			views(h, at(4, "maybe"))
		}},
		{"a replica holds what was refused", "V17", func(h *history.History) {
			h.Views[3].Records = append(h.Views[3].Records, history.Record{Offset: 5, Value: "refused"})
		}},
		{"two leaders of one epoch", "V18", func(h *history.History) { h.Samples[2].Replicas[0].Role = "leader" }},
		{"a leader epoch went back", "V18", func(h *history.History) { h.Samples[5].Replicas[0].LeaderEpoch = 0 }},
		{"a partition epoch went back", "V18", func(h *history.History) { h.Samples[5].Replicas[0].PartitionEpoch = 0 }},
		{"a stranger in the ISR", "V19", func(h *history.History) { h.Samples[0].Replicas[0].ISR = []int{1, 9} }},
		{"in ISR and ELR", "V19", func(h *history.History) {
			h.Samples[0].Replicas[0].ISR, h.Samples[0].Replicas[0].ELR = []int{1}, []int{1}
		}},
		{"an ELR without need", "V19", func(h *history.History) { h.Samples[0].Replicas[0].ELR = []int{3} }},
		{"a leader out of the ISR", "V19", func(h *history.History) { h.Samples[0].Replicas[0].ISR = []int{2, 3} }},
		{"a maximal ISR that is too small", "V20", func(h *history.History) { h.Samples[0].Replicas[0].MaximalISR = []int{1} }},
		{"an ISR member that lacks committed records", "V21", func(h *history.History) { h.Samples[4].Replicas[0].End, h.Samples[4].Replicas[0].Durable = 3, 3 }},
		{"a leader that lacks committed records", "V22", func(h *history.History) {
			r := &h.Samples[1].Replicas[0]
			r.End, r.Durable, r.High = 2, 2, 2
		}},
		{"replicas differ in bytes", "V23", func(h *history.History) { h.Views[3].Batches[1].Sum = "other" }},
		{"a replica holds another record", "V23", func(h *history.History) { h.Views[3].Records[4].Value = "maybe" }},
		{"a replica is behind", "V23", func(h *history.History) { h.Views[1].End, h.Views[1].Records = 4, h.Views[1].Records[:4] }},
		{"a high watermark above the end", "V24", func(h *history.History) { h.Samples[0].Replicas[0].High = 5 }},
		{"a leader's high watermark went back", "V24", func(h *history.History) { h.Samples[5].Replicas[0].High = 3 }},
		{"a high watermark that never was", "V24", func(h *history.History) {
			r := &h.Samples[6].Replicas[0]
			r.High, r.End, r.Durable = 6, 6, 6
		}},
		{"epochs out of order", "V26", func(h *history.History) { h.Samples[6].Replicas[0].Epochs[0].Epoch = 2 }},
		{"a leader without its epoch", "V26", func(h *history.History) { h.Samples[6].Replicas[0].Epochs = h.Samples[6].Replicas[0].Epochs[:1] }},
		{"a gap between batches", "V27", func(h *history.History) { h.Views[3].Batches[1].Base = 4 }},
		{"a batch of an older epoch behind a newer", "V27", func(h *history.History) { h.Views[3].Batches[2].Epoch = 0 }},
		{"a damaged batch", "V27", func(h *history.History) { h.Views[3].Batches[2].Bad = "CRC" }},
		{"a gap in a log", "V27", func(h *history.History) { h.Views[1].Records = slices.Delete(h.Views[1].Records, 2, 3) }},
		{"a value sent twice", "history", func(h *history.History) { h.Ops[8].Values[0] = "d" }},
	}
}

// Each damage, done to the good history alone, is reported as the invariant that
// it breaks. Others may break with it.
func TestBadHistories(t *testing.T) {
	proved := map[string]bool{}
	for _, d := range damages() {
		t.Run(d.invariant+" "+d.name, func(t *testing.T) {
			h := good()
			d.do(h)
			found := Check(h, all)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Invariant == d.invariant }) {
				t.Errorf("not found; only: %v", found)
			}
			proved[d.invariant] = true
		})
	}
	for _, invariant := range strings.Fields("V1 V2 V3 V4 V5 V6 V7 V8 V9 V10 V11 V15 V16 V17 V18 V19 V20 V21 V22 V23 V24 V26 V27 R89") {
		if !proved[invariant] {
			t.Errorf("no history breaks %s", invariant)
		}
	}
}

// What looks like a fault and is none.
func TestAllowed(t *testing.T) {
	for name, do := range map[string]func(*history.History){
		"a stale read says so": func(h *history.History) { h.Ops[7].High, h.Ops[7].Stale = 3, true },
		"an unknown produce that was written": func(h *history.History) {
			views(h, at(4, "maybe"))
			h.Ops[8].Outcome = history.Unknown
			h.Ops[6].Records[3].Value = "maybe"
		},
		"no answer from a broker that was down": func(h *history.History) { h.Ops[3].NoAnswer = true },
		"records that were purged":              purge,
		"an uncommitted tail on one disk": func(h *history.History) {
			h.Views[3].Records = append(h.Views[3].Records, history.Record{Offset: 5, Value: "lost"})
		},
		"a stale leader that lacks newer records": func(h *history.History) { h.Samples[4].Replicas[0].LeaderEpoch = 0; h.Samples[4].Broker = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			do(h)
			if name == "no answer from a broker that was down" {
				h.Events[1].At = 4 * second
			}
			o := all
			if h.Ops[8].Outcome != history.OK {
				o.FinalWithin = 0
			}
			for _, v := range Check(h, o) {
				t.Error(v)
			}
		})
	}
}

// purge takes the first two records away from everybody, as delete-records does:
// in the middle of a request.
func purge(h *history.History) {
	for _, v := range h.Views {
		v.Start, v.Purged = 2, true
		v.Records = v.Records[2:]
	}
}

// A deleted topic's log is not missed.
func TestDeletedTopic(t *testing.T) {
	h := good()
	h.Views = nil
	o := all
	o.Deleted = map[string]bool{orders.Topic: true}
	for _, v := range Check(h, o) {
		t.Error(v)
	}
}
