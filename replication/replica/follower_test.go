package replica

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"highwater/replication/wire"
)

// raw is batches {base, records, leader epoch}, with nothing in them.
func raw(batches ...[3]int) (all []byte) {
	for _, b := range batches {
		h := make([]byte, batchHeader)
		binary.BigEndian.PutUint64(h[batchBase:], uint64(b[0]))
		binary.BigEndian.PutUint32(h[batchLength:], batchHeader-batchEpoch)
		binary.BigEndian.PutUint32(h[batchEpoch:], uint32(b[2]))
		binary.BigEndian.PutUint32(h[batchLastDelta:], uint32(b[1]-1))
		all = append(all, h...)
	}
	return all
}

func TestDecide(t *testing.T) {
	sent := Sent{LeaderEpoch: 5, Offset: 10}
	epochs := []wire.EpochStart{{Epoch: 1, StartOffset: 2}, {Epoch: 3, StartOffset: 6}}
	for name, c := range map[string]struct {
		now    func(*Now)
		answer wire.FetchedPartition
		want   Decision
	}{
		"data":                            {nil, wire.FetchedPartition{HighWatermark: 12, LogStart: 4, Batches: raw([3]int{10, 2, 3}, [3]int{12, 1, 5})}, Decision{Step: Append, HighWatermark: 12, LogStart: 4}},
		"no data":                         {nil, wire.FetchedPartition{HighWatermark: 9}, Decision{Step: Append, HighWatermark: 9}},
		"R16: another leader epoch here":  {func(n *Now) { n.LeaderEpoch = 6 }, wire.FetchedPartition{}, Decision{Step: Drop}},
		"R16: an older one in the answer": {nil, wire.FetchedPartition{LeaderEpoch: 4}, Decision{Step: Drop}},
		"R16: a newer one in the answer":  {nil, wire.FetchedPartition{LeaderEpoch: 6}, Decision{Step: Drop}},
		"R16: not this fetcher's":         {func(n *Now) { n.Assigned = false }, wire.FetchedPartition{}, Decision{Step: Drop}},
		"R16: the log has grown":          {func(n *Now) { n.End = 11 }, wire.FetchedPartition{}, Decision{Step: Drop}},
		"R37: diverging, of another epoch": {func(n *Now) { n.LeaderEpoch = 6 }, wire.FetchedPartition{Diverging: &wire.EpochEnd{Epoch: 1, EndOffset: 3}},
			Decision{Step: Drop}},
		"R20: fenced":                                 {nil, wire.FetchedPartition{Code: wire.CodeFencedLeaderEpoch, LeaderEpoch: 6}, Decision{Step: Wait, Code: wire.CodeFencedLeaderEpoch}},
		"R20: unknown":                                {nil, wire.FetchedPartition{Code: wire.CodeUnknownLeaderEpoch, LeaderEpoch: 4}, Decision{Step: Wait, Code: wire.CodeUnknownLeaderEpoch}},
		"a damaged leader":                            {nil, wire.FetchedPartition{Code: wire.CodeCorrupt}, Decision{Step: Wait, Code: wire.CodeCorrupt}},
		"R36: by the leader's end":                    {nil, wire.FetchedPartition{Diverging: &wire.EpochEnd{Epoch: 3, EndOffset: 8}}, Decision{Step: Truncate, Offset: 8}},
		"R36: by the own end":                         {nil, wire.FetchedPartition{Diverging: &wire.EpochEnd{Epoch: 2, EndOffset: 9}}, Decision{Step: Truncate, Offset: 6}},
		"R36: nothing in common":                      {nil, wire.FetchedPartition{Diverging: &wire.EpochEnd{Epoch: 0, EndOffset: 1}}, Decision{Step: Truncate, Offset: 2}},
		"R36: at the end, for the sake of its epochs": {nil, wire.FetchedPartition{Diverging: &wire.EpochEnd{Epoch: 3, EndOffset: 20}}, Decision{Step: Truncate, Offset: 10}},
		"R90: all is deleted at the leader":           {nil, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LogStart: 12, LeaderEnd: 14}, Decision{Step: Reset, Offset: 12}},
		"R90: it ends where the leader's begins":      {nil, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LogStart: 10, LeaderEnd: 14}, Decision{Step: Reset, Offset: 10}},
		"out of range, beyond the end: never thrown away": {nil, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LogStart: 0, LeaderEnd: 7},
			Decision{Step: Wait, Code: wire.CodeOffsetOutOfRange}},
		"empty, beyond the leader's end": {func(n *Now) { n.LogStart, n.Epochs = 10, nil }, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LeaderEnd: 7},
			Decision{Step: Reset, Offset: 0}},
		"out of range, no longer":       {nil, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LogStart: 8, LeaderEnd: 14}, Decision{Step: Wait, Code: wire.CodeOffsetOutOfRange}},
		"out of range of another epoch": {nil, wire.FetchedPartition{Code: wire.CodeOffsetOutOfRange, LeaderEpoch: 4, LogStart: 12}, Decision{Step: Drop}},
	} {
		t.Run(name, func(t *testing.T) {
			now := Now{LeaderEpoch: 5, Assigned: true, End: 10, LogStart: 2, Epochs: epochs}
			if c.now != nil {
				c.now(&now)
			}
			if c.answer.LeaderEpoch == 0 {
				c.answer.LeaderEpoch = 5
			}
			if got := Decide(sent, now, &c.answer); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestR17_BatchesThatDoNotFit(t *testing.T) {
	whole := raw([3]int{10, 2, 3}, [3]int{12, 1, 5})
	long := slices.Clone(whole)
	binary.BigEndian.PutUint32(long[batchLength:], 1000)
	negative := slices.Clone(whole)
	binary.BigEndian.PutUint32(negative[batchLength:], 0xffff_ff00)
	for name, batches := range map[string][]byte{
		"a hole before":                 raw([3]int{11, 1, 3}),
		"from before":                   raw([3]int{9, 1, 3}),
		"a hole between":                raw([3]int{10, 1, 3}, [3]int{12, 1, 3}),
		"an epoch that goes back":       raw([3]int{10, 1, 2}),
		"an epoch that goes back later": raw([3]int{10, 1, 5}, [3]int{11, 1, 4}),
		"an epoch beyond the leader's":  raw([3]int{10, 1, 6}),
		"fewer than no records":         raw([3]int{10, 0, 3}),
		"half a header":                 whole[:40],
		"half a batch":                  whole[:len(whole)-1],
		"a length beyond the bytes":     long,
		"a negative length":             negative,
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(Sent{LeaderEpoch: 5, Offset: 10}, Now{LeaderEpoch: 5, Assigned: true, End: 10, Epochs: []wire.EpochStart{{Epoch: 3}}},
				&wire.FetchedPartition{LeaderEpoch: 5, Batches: batches, HighWatermark: 11})
			if d.Step != Wait || d.Code != wire.CodeCorrupt || d.Err == nil {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// A batch that the leader's compaction has made cover what stood behind it is taken
// by a follower whose log ends within: what it lacks has no records.
func TestR17_ABatchThatCoversTheEnd(t *testing.T) {
	now := Now{LeaderEpoch: 5, Assigned: true, End: 10, Epochs: []wire.EpochStart{{Epoch: 3}}}
	decide := func(batches []byte, records int32) Decision {
		binary.BigEndian.PutUint32(batches[batchRecords:], uint32(records))
		return Decide(Sent{LeaderEpoch: 5, Offset: 10}, now, &wire.FetchedPartition{LeaderEpoch: 5, Batches: batches, HighWatermark: 11})
	}
	if d := decide(raw([3]int{8, 5, 3}, [3]int{13, 1, 3}), 2); d.Step != Append {
		t.Errorf("a sparse batch of offsets 8 to 12: %+v", d)
	}
	for name, d := range map[string]Decision{
		"it is full of records":  decide(raw([3]int{8, 5, 3}), 5),
		"it ends before the end": decide(raw([3]int{7, 3, 3}), 1),
		"it isn't the first":     decide(raw([3]int{10, 1, 3}, [3]int{9, 5, 3}), 1),
	} {
		if d.Step != Wait || d.Code != wire.CodeCorrupt {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestR21_EndOfEpoch(t *testing.T) {
	epochs := []wire.EpochStart{{Epoch: 2, StartOffset: 4}, {Epoch: 5, StartOffset: 9}, {Epoch: 6, StartOffset: 9}}
	for asked, want := range map[int32]wire.EpochEnd{
		1: {Epoch: 1, EndOffset: 4}, 2: {Epoch: 2, EndOffset: 9}, 4: {Epoch: 2, EndOffset: 9}, 5: {Epoch: 5, EndOffset: 9}, 6: {Epoch: 6, EndOffset: 12}, 9: {Epoch: 6, EndOffset: 12},
	} {
		if got := EndOfEpoch(epochs, asked, 12); got != want {
			t.Errorf("epoch %d: %+v, want %+v", asked, got, want)
		}
	}
	if got, want := EndOfEpoch(nil, 3, 7), (wire.EpochEnd{Epoch: 3, EndOffset: 7}); got != want {
		t.Errorf("no epochs: %+v, want %+v", got, want)
	}
	if LastEpoch(nil) != -1 || LastEpoch(epochs) != 6 {
		t.Errorf("last epochs %d, %d", LastEpoch(nil), LastEpoch(epochs))
	}
}

func TestR19_Sessions(t *testing.T) {
	s := NewSessions(0)
	ask := func(life, seq int64, full bool) (*Session, wire.Code) {
		return s.Judge(&wire.FetchRequest{Replica: 2, BrokerEpoch: life, Seq: seq, Full: full})
	}
	want := func(what string, life, seq int64, full bool, code wire.Code) *Session {
		t.Helper()
		got, c := ask(life, seq, full)
		if c != code || (got != nil) != (code == wire.OK) {
			t.Errorf("%s: %q, session %+v", what, c, got)
		}
		return got
	}
	want("no session yet", 10, 1, false, wire.CodeFetchSession)
	first := want("a full one begins it", 10, 2, true, wire.OK)
	if same := want("the next one", 10, 3, false, wire.OK); same != first {
		t.Error("the next request has another session")
	}
	want("F25: the same again", 10, 3, false, wire.CodeFetchSession)
	want("one was lost", 10, 5, false, wire.CodeFetchSession)
	want("the first again, late", 10, 2, true, wire.CodeFetchSession)
	second := want("anew", 10, 6, true, wire.OK)
	if second == first || second.Contact == first.Contact {
		t.Error("a full request goes on with the old session")
	}
	second.Contact.Touch(time.Unix(7, 0))
	if !first.Contact.Last().IsZero() || !second.Contact.Last().Equal(time.Unix(7, 0)) {
		t.Error("the old session is touched")
	}
	want("the next life", 20, 1, true, wire.OK)
	want("F24: the former life", 10, 7, true, wire.CodeStaleBrokerEpoch)
	if other, code := s.Judge(&wire.FetchRequest{Replica: 2, BrokerEpoch: 20, Fetcher: 1, Seq: 1, Full: true}); code != wire.OK || other.Fetcher != 1 {
		t.Errorf("a second fetcher: %q", code)
	}
	want("and the first goes on", 20, 2, false, wire.OK)
	s.Saw(2, 30)
	want("F35: a life that the metadata has ended", 20, 3, false, wire.CodeStaleBrokerEpoch)
	want("the life in the metadata has no session yet", 30, 3, false, wire.CodeFetchSession)
}
