package check

import (
	"slices"
	"strings"
	"testing"

	"chaos/history"
)

const stormTopic = "t2"

// send is an attempt that begins at a second and takes half of one.
func send(id int64, at float64, acks int, items ...history.Item) *history.Attempt {
	return &history.Attempt{ID: id, Client: "s1", Topic: stormTopic, Broker: 1, Acks: acks, Form: history.FormID,
		Call: int64(at * float64(second)), Return: int64((at + 0.5) * float64(second)), Items: items}
}

func took(message string, partition int, offset int64, duplicate bool) history.Item {
	return history.Item{Message: message, Value: "v-" + message, Outcome: history.OK, Partition: partition, Offset: offset, Duplicate: duplicate, Expected: -1}
}

func said(message string, partition int, outcome history.Outcome, code int) history.Item {
	return history.Item{Message: message, Value: "v-" + message, Outcome: outcome, Code: code, Partition: partition, Offset: -1, Expected: -1}
}

func sequenceOf(a *history.Attempt, sequence int64) *history.Attempt {
	a.Form, a.Producer = history.FormProducer, &history.Producer{ID: 7, Sequence: sequence}
	return a
}

func look(id int64, at float64, message string, outcome history.Outcome, partition int, offset int64, value string) *history.Lookup {
	return &history.Lookup{ID: id, Client: "s1", Topic: stormTopic, Message: message, Broker: 1, Call: int64(at * float64(second)),
		Return: int64((at + 0.5) * float64(second)), Outcome: outcome, Partition: partition, Offset: offset, Value: value}
}

// goodStorm is a small history of retries in which all is as it should be. The log
// of partition 0: a, b, x, y, z at 0 to 4; of partition 1: c at 0.
func goodStorm() *history.History {
	foul := said("a", 0, history.NotWritten, codeReused)
	foul.Refuse, foul.Value = true, "foul"
	beside := said("n", 0, history.NotWritten, codeReused)
	gap := said("v", 0, history.NotWritten, codeGap)
	gap.Expected = 2
	lost := took("b", 0, 0, false)
	h := &history.History{
		Attempts: []*history.Attempt{
			send(1, 1, 1, lost), // at acks=1, lost with its leader
			send(2, 2, -1, said("a", -1, history.Unknown, 0)),
			send(3, 2.2, -1, took("a", 0, 0, true)),
			send(4, 3, -1, took("a", 0, 0, true), took("b", 0, 1, false)),
			send(5, 4, -1, took("b", 0, 1, true), took("c", 1, 0, false)),
			send(6, 5, -1, foul, beside),
			send(7, 5, -1, said("d", 0, history.NotWritten, 50303)),
			sequenceOf(send(8, 6, -1, took("x", 0, 2, false), took("y", 0, 3, false)), 0),
			sequenceOf(send(9, 6.6, -1, gap), 3),
			sequenceOf(send(10, 6.6, -1, took("z", 0, 4, false)), 2),
			sequenceOf(send(11, 8, -1, took("x", 0, -1, true), took("y", 0, -1, true)), 0),
			send(12, 9, 1, took("c", 1, 0, true)),
		},
		Lookups: []*history.Lookup{
			look(20, 0.5, "a", history.NotWritten, -1, -1, ""),
			look(21, 4, "a", history.OK, 0, 0, "v-a"),
			look(22, 5, "c", history.OK, 1, 0, "v-c"),
			look(23, 5, "nobody", history.NotWritten, -1, -1, ""),
		},
	}
	for source, disk := range map[string]bool{"broker 1": false, "disk 1": true} {
		v := &history.View{Partition: history.Partition{Topic: stormTopic}, Source: source, Disk: disk, End: 5}
		for i, name := range strings.Fields("a b x y z") {
			v.Records = append(v.Records, history.Record{Offset: int64(i), Value: "v-" + name})
		}
		h.Views = append(h.Views, v, &history.View{Partition: history.Partition{Topic: stormTopic, Index: 1}, Source: source, Disk: disk, End: 1,
			Records: []history.Record{{Offset: 0, Value: "v-c"}}})
	}
	for broker := range 2 {
		h.Memories = append(h.Memories, &history.Memory{Partition: history.Partition{Topic: stormTopic}, Broker: broker + 1, LogEnd: 5, Digest: "d", Recomputed: "d"})
	}
	return h
}

func TestGoodStorm(t *testing.T) {
	for _, v := range Check(goodStorm(), Options{}) {
		t.Error(v)
	}
	if len(Again(goodStorm())) == 0 || Again(&history.History{}) != nil {
		t.Error("facts of a storm, and none without one")
	}
}

// ofStorm changes the records of a partition in all its views.
func ofStorm(h *history.History, partition int, change func([]history.Record) []history.Record) {
	for _, v := range h.Views {
		if v.Partition.Index == partition {
			v.Records = change(v.Records)
			v.End = v.Start + int64(len(v.Records))
		}
	}
}

func push(value string) func([]history.Record) []history.Record {
	return func(r []history.Record) []history.Record {
		return append(r, history.Record{Offset: int64(len(r)), Value: value})
	}
}

func stormDamages() []damage {
	return []damage{
		{"an id is stored twice", "V4", func(h *history.History) { ofStorm(h, 0, push("v-a")) }},
		{"an id is stored in two partitions", "V4", func(h *history.History) { ofStorm(h, 1, push("v-a")) }},
		{"two answers say that they wrote it", "V4", func(h *history.History) { h.Attempts[4].Items[0].Duplicate = false }},
		{"an acknowledged id is lost", "V1", func(h *history.History) { ofStorm(h, 0, at(1, "v-n")) }},
		{"duplicate is said of what isn't there", "V1", func(h *history.History) {
			h.Attempts = append(h.Attempts, send(30, 10, -1, took("m", 1, 1, true)))
		}},
		{"an attempt names another offset", "V5", func(h *history.History) { h.Attempts[3].Items[0].Offset = 1 }},
		{"an attempt names another partition", "V5", func(h *history.History) { h.Attempts[3].Items[0].Partition = 1 }},
		{"at acks=1, after all knew it", "V5", func(h *history.History) { h.Attempts[11].Items[0].Offset = 1 }},
		{"an attempt names no offset", "V5", func(h *history.History) { h.Attempts[3].Items[0].Offset = -1 }},
		{"a look-up names another offset", "V5", func(h *history.History) { h.Lookups[1].Offset = 1 }},
		{"a look-up shows another record", "V3", func(h *history.History) { h.Lookups[1].Value = "v-b" }},
		{"a look-up misses what was acknowledged", "V7", func(h *history.History) { h.Lookups[2].Outcome = history.NotWritten }},
		{"a look-up found what vanished", "V9", func(h *history.History) {
			h.Lookups[3].Message, h.Lookups[3].Outcome, h.Lookups[3].Value = "d", history.OK, "v-d"
		}},
		{"a look-up finds what nobody sent", "V16", func(h *history.History) { h.Lookups[3].Outcome = history.OK }},
		{"a later message stands before an earlier one", "V6", func(h *history.History) {
			ofStorm(h, 0, func(r []history.Record) []history.Record { r[0].Value, r[1].Value = "v-b", "v-a"; return r })
			h.Attempts[0].Call, h.Attempts[0].Return = 3*second, 3*second+1
			for _, a := range h.Attempts {
				for i := range a.Items {
					switch item := &a.Items[i]; {
					case item.Outcome == history.OK && item.Message == "a":
						item.Offset = 1
					case item.Outcome == history.OK && item.Message == "b":
						item.Offset = 0
					}
				}
			}
		}},
		{"what no attempt wrote is there", "V17", func(h *history.History) { ofStorm(h, 1, push("v-d")) }},
		{"a replica alone has what no attempt wrote", "V17", func(h *history.History) {
			for _, v := range h.Views {
				if v.Disk && v.Partition.Index == 1 {
					v.Records = append(v.Records, history.Record{Offset: 1, Value: "v-d"})
				}
			}
		}},
		{"other content of an id is taken", "D7", func(h *history.History) { h.Attempts[5].Items[0].Outcome = history.OK }},
		{"other content of an id is stored", "D7", func(h *history.History) { ofStorm(h, 1, push("foul")) }},
		{"a record beside it is taken", "D7", func(h *history.History) {
			ofStorm(h, 0, push("v-n"))
			h.Attempts[5].Items[1] = took("n", 0, 5, false)
		}},
		{"the same content is refused", "D7", func(h *history.History) { h.Attempts[6].Items[0].Code = codeReused }},
		{"a producer's records are out of order", "V10", func(h *history.History) {
			ofStorm(h, 0, func(r []history.Record) []history.Record { r[3].Value, r[4].Value = "v-z", "v-y"; return r })
		}},
		{"a producer's sequence has a gap", "V10", func(h *history.History) { ofStorm(h, 0, at(3, "v-n")) }},
		{"what was acknowledged is said to be a gap", "V10", func(h *history.History) {
			h.Attempts[8].Call, h.Attempts[8].Return, h.Attempts[8].Items[0].Expected = 9*second, 10*second, -1
		}},
		{"a gap's answer expects what was acknowledged", "V10", func(h *history.History) { h.Attempts[8].Items[0].Expected = 1 }},
		{"an epoch stands before the one before it", "V10", func(h *history.History) { h.Attempts[7].Producer.Epoch, h.Attempts[10].Producer.Epoch = 1, 1 }},
		{"no answer", "V15", func(h *history.History) { h.Attempts[2].NoAnswer = true }},
		{"no answer to a look-up", "V15", func(h *history.History) { h.Lookups[2].NoAnswer = true }},
		{"a replica remembers what its log doesn't tell", "V29", func(h *history.History) { h.Memories[1].Recomputed = "e" }},
		{"replicas remember different things", "V29", func(h *history.History) { h.Memories[1].Digest, h.Memories[1].Recomputed = "e", "e" }},
		{"something that nobody sent", "V16", func(h *history.History) { ofStorm(h, 1, push("v-x with a bit flipped")) }},
	}
}

// Each damage, done to the good storm alone, is reported as the invariant that it
// breaks.
func TestBadStorms(t *testing.T) {
	for _, d := range stormDamages() {
		t.Run(d.invariant+" "+d.name, func(t *testing.T) {
			h := goodStorm()
			d.do(h)
			found := Check(h, Options{})
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Invariant == d.invariant }) {
				t.Errorf("not found; only: %v", found)
			}
		})
	}
}

// What looks like a fault of a storm and is none.
func TestAllowedInStorms(t *testing.T) {
	for name, do := range map[string]func(*history.History){
		"one attempt not written, another unknown": func(h *history.History) {
			h.Attempts = append(h.Attempts, send(30, 10, -1, said("d", 1, history.Unknown, 50304)))
			ofStorm(h, 1, push("v-d"))
		},
		"records that were purged": func(h *history.History) {
			for _, v := range h.Views {
				if v.Partition.Index == 0 {
					v.Start, v.Purged, v.Records = 2, true, v.Records[2:]
				}
			}
			h.Lookups[1].Outcome = history.NotWritten
		},
		"an acknowledgement of the leader alone, lost for ever": func(h *history.History) {
			h.Attempts = append(h.Attempts, send(30, 10, 1, took("m", 1, 1, false)))
		},
		"a replica with a longer log remembers more": func(h *history.History) {
			h.Memories[1].LogEnd, h.Memories[1].Digest, h.Memories[1].Recomputed = 6, "e", "e"
		},
		"a look-up where the record was compacted away, and isn't elsewhere": func(h *history.History) {
			h.Events = append(h.Events, history.Event{What: history.EventCompacted, Detail: stormTopic})
			h.Lookups[2].Outcome = history.NotWritten
		},
		"a look-up before anybody knew": func(h *history.History) { h.Lookups[2].Call, h.Lookups[2].Outcome = 4*second, history.NotWritten },
	} {
		t.Run(name, func(t *testing.T) {
			h := goodStorm()
			do(h)
			for _, v := range Check(h, Options{}) {
				t.Error(v)
			}
		})
	}
}
