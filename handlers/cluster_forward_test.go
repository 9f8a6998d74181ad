package handlers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"highwater/replication/wire"
	"highwater/storage"
)

// offsetsOf reads the offsets of a produce's answer.
func offsetsOf(t testing.TB, a answer) (out []int64) {
	t.Helper()
	var body struct {
		Offsets []struct {
			Offset int64 `json:"offset"`
		} `json:"offsets"`
	}
	a.into(&body)
	for _, o := range body.Offsets {
		out = append(out, o.Offset)
	}
	return out
}

// Whichever broker is asked, the answer is the leader's, the header says who that is.
func TestAnyBrokerServesAnyRequest(t *testing.T) {
	c := startCluster(t)
	c.create("orders", 3)
	at := func(n *clusterNode, partition int, rest string) string {
		return fmt.Sprintf("/topics/orders/partitions/%d%s", partition, rest)
	}
	for i, n := range c.nodes {
		a := n.post("/topics/orders?acks=-1", `{"records":[{"value":"x","partition":0},{"value":"y","partition":1},{"value":"z","partition":2}]}`).want(200)
		if got := offsetsOf(t, a); !slices.Equal(got, []int64{int64(i), int64(i), int64(i)}) {
			t.Fatalf("broker %d appended at %v", n.id, got)
		}
		if !bytes.Contains(a.body, []byte(`"durability":"fsynced"`)) || !bytes.Contains(a.body, []byte(`"in_sync_replicas":3`)) {
			t.Errorf("broker %d: %s", n.id, a.body)
		}
	}
	for p := range 3 {
		leader, _ := c.leader("orders", p)
		for _, n := range c.nodes {
			a := n.get(at(n, p, "/records?offset=1")).want(200)
			if got := a.header.Get("Highwater-Leader"); got != leader.url {
				t.Errorf("broker %d names %q as leader of %d, not %q", n.id, got, p, leader.url)
			}
			if a.header.Get("Highwater-Next-Offset") != "3" || a.header.Get("Highwater-High-Watermark") != "3" || a.header.Get("Highwater-Stale") != "" {
				t.Errorf("broker %d: %v", n.id, a.header)
			}
			if got := bytes.Count(a.body, []byte(`"offset"`)); got != 2 {
				t.Errorf("broker %d gave %d records: %s", n.id, got, a.body)
			}
		}
		for _, n := range c.nodes {
			if got := n.post(at(n, p, "/records?acks=1"), "v").want(200).header.Get("Highwater-Leader"); got != leader.url {
				t.Errorf("produce through broker %d names %q", n.id, got)
			}
			n.post(at(n, p, "/records?acks=0"), "v").want(202)
			c.node(n.id%3+1).stored("orders", int32(p), 3)
			var status struct {
				Leader    int32  `json:"leader"`
				HighWater *int64 `json:"high_watermark"`
				LogEnd    *int64 `json:"log_end_offset"`
			}
			n.get(at(n, p, "")).want(200).into(&status)
			if status.Leader != leader.id || status.LogEnd == nil {
				t.Errorf("broker %d says %+v of %d", n.id, status, p)
			}
		}
		// Each tells the same end once all of it is replicated, and lets the beginning move.
		leader.stored("orders", int32(p), 9)
		for i, n := range c.nodes {
			var offsets offsetsView
			n.get(at(n, p, "/offsets?timestamp=0")).want(200).into(&offsets)
			if offsets.EndOffset != 9 || offsets.LogEndOffset != 9 || offsets.OffsetForTimestamp == nil || *offsets.OffsetForTimestamp != int64(i) {
				t.Errorf("broker %d: %+v", n.id, offsets)
			}
			n.do(http.MethodDelete, at(n, p, fmt.Sprintf("/records?before_offset=%d", i+1)), nil).want(200)
			n.get(at(n, p, "/records?offset=0")).problem(41001)
			n.get(at(n, p, "/records?offset=10")).problem(41601)
			n.do(http.MethodDelete, at(n, p, "/records?before_offset=99"), nil).problem(41601)
			var views []partitionView
			n.get("/topics/orders/partitions").want(200).into(&views)
			if v := views[p]; v.Leader != leader.id || v.LogStartOffset == nil || *v.LogStartOffset != int64(i+1) || *v.HighWatermark != 9 || *v.LogEndOffset != 9 {
				t.Errorf("broker %d says %+v of %d", n.id, v, p)
			}
		}
	}
	// A condition on the log's end holds at the leader.
	_, other := c.leader("orders", 0)
	other.post(at(other, 0, "/records?expected_offset=3"), "v").problem(41201)
	other.post(at(other, 0, "/records?expected_offset=9"), "v").want(200)
}

// The leadership moves again and again under a produce and tails through other
// brokers: the tails have every record once and in order, over all the leader
// epochs, and every record that was acknowledged (R51, R96).
func TestATailSurvivesLeaderChanges(t *testing.T) {
	c := startCluster(t)
	c.create("moving", 2)
	_, other := c.leader("moving", 0)
	one := other.events("/topics/moving/partitions/0/records")
	all := other.events("/topics/moving/records")
	leads := other.events("/topics/moving/partitions/1/records") // of a partition led elsewhere too, or here
	const moves, each = 6, 10
	var producer sync.WaitGroup
	defer producer.Wait()
	begin := make(chan struct{}, moves+1)
	producer.Go(func() {
		n := 0
		for range begin {
			for range each {
				for p := range 2 {
					a := c.nodes[n%3].post(fmt.Sprintf("/topics/moving/partitions/%d/records?acks=-1", p), strconv.Itoa(n))
					for a.status != 200 {
						// A leader may be replaced by one that didn't have it yet, and on a slow
						// machine one may have to doubt itself for a moment.
						if a.status != 503 && a.status != 504 {
							t.Errorf("produce %d: %d %s", n, a.status, a.body)
							return
						}
						a = c.nodes[n%3].post(fmt.Sprintf("/topics/moving/partitions/%d/records?acks=-1", p), strconv.Itoa(n))
					}
				}
				n++
			}
		}
	})
	begin <- struct{}{}
	for range moves {
		for p := range 2 {
			_, next := c.leader("moving", p)
			c.move("moving", p, next.id)
		}
		begin <- struct{}{}
	}
	close(begin)
	const total = (moves + 1) * each
	all.countTo(2, total)
	one.countTo(1, total)
	leads.countTo(1, total)
	// Its end is told, wherever it is led.
	producer.Wait()
	c.node(1).do(http.MethodDelete, "/topics/moving", nil).want(204)
	for _, s := range []*stream{one, all, leads} {
		e := s.next()
		for e.name == "" { // the last value once more
			e = s.next()
		}
		if e.name != "end" || !strings.Contains(e.data, "topic_deleted") {
			t.Errorf("the stream ends with %+v", e)
		}
	}
}

// countTo reads values that count from 0 in each of some partitions, until each one's
// last value was there; what was sent again may be there twice.
func (s *stream) countTo(partitions, total int) {
	s.t.Helper()
	next, last := map[int32]int64{}, map[int32]int{}
	for whole := 0; whole < partitions; {
		_, r := s.record()
		if r.Offset != next[r.Partition] {
			s.t.Fatalf("%d-%d where %d was due", r.Partition, r.Offset, next[r.Partition])
		}
		next[r.Partition]++
		n, err := strconv.Atoi(string(r.Value))
		must(s.t, err)
		if seen := last[r.Partition]; n != seen && n != seen-1 {
			s.t.Fatalf("%d-%d is %d after %d", r.Partition, r.Offset, n, seen-1)
		} else if n == seen {
			last[r.Partition]++
			if n == total-1 {
				whole++
			}
		}
	}
}

// A long-poll at a broker that doesn't lead is answered by the record that comes,
// not by its time.
func TestALongPollThroughAnotherBroker(t *testing.T) {
	c := startCluster(t)
	c.create("polled", 1)
	leader, other := c.leader("polled", 0)
	before := internalRequests(t, leader, wire.PathWatch)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			a := other.get("/topics/polled/partitions/0/records?timeout=60000")
			if a.status != 200 || !bytes.Contains(a.body, []byte(`"here"`)) {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	other.eventually("all wait", func() bool { return other.waitersNow() == 20 })
	leader.post("/topics/polled/partitions/0?acks=-1", `{"records":[{"value":"here"}]}`).want(200)
	wait.Wait()
	if n := internalRequests(t, leader, wire.PathWatch) - before; n > 20 {
		t.Errorf("20 waiting readers cost the leader %v watches", n)
	}
}

func (n *clusterNode) waitersNow() int64 { return n.handler.(*api).waiters.used.Load() }

// internalRequests counts the requests of other brokers under a path that a broker
// has answered.
func internalRequests(t testing.TB, n *clusterNode, path string) (sum float64) {
	t.Helper()
	families, err := n.metrics.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != "highwater_internal_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "path" && l.GetValue() == path {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// A leader that dies: what had not reached it goes to its successor; what had is
// unknown, and said to be; readers go on.
func TestALeaderDies(t *testing.T) {
	c := startCluster(t)
	c.create("lives", 1)
	leader, other := c.leader("lives", 0)
	tail := other.events("/topics/lives/partitions/0/records")
	other.post("/topics/lives/partitions/0/records?acks=-1", "before").want(200)
	leader.shut()
	a := other.post("/topics/lives/partitions/0/records?acks=-1", "after").want(200)
	if got := offsetsOf(t, a); got[0] != 1 {
		t.Errorf("appended at %v", got)
	}
	for i := range int64(2) {
		if _, r := tail.record(); r.Offset != i {
			t.Fatalf("record %d where %d was due", r.Offset, i)
		}
	}
	other.get("/topics/lives/partitions/0/offsets").want(200)
}

// The leader has the records, and its answer is lost on the way.
func TestAnAppendThatMayHaveArrivedIsUnknown(t *testing.T) {
	c := startCluster(t)
	c.create("unsure", 1)
	leader, other := c.leader("unsure", 0)
	// The followers can't fetch: the append stays with the leader, unacknowledged.
	for _, n := range c.nodes {
		if n != leader {
			n.links.cutOff(leader.addr)
		}
	}
	other.links.mend(leader.addr) // but for the one way in
	answered := make(chan answer, 1)
	go func() {
		answered <- other.post("/topics/unsure/partitions/0/records?acks=-1&timeout_ms=20000", "v")
	}()
	leader.eventually("the leader has it", func() bool { return leader.end("unsure", 0) > 0 })
	other.links.cutOff(leader.addr)
	a := <-answered
	if p := a.problem(50401); p.Outcome != "unknown" {
		t.Errorf("%s", a.body)
	}
	// What can't be sent at all is not written, and says so when its time is over.
	b := other.post("/topics/unsure/partitions/0/records?acks=-1&timeout_ms=300", "w")
	if p := b.problem(50302); p.Outcome != "not_written" || b.header.Get("Retry-After") == "" {
		t.Errorf("%s", b.body)
	}
}

// The client's timeout holds, whichever broker it asks.
func TestATimeoutHoldsThroughAnotherBroker(t *testing.T) {
	c := startCluster(t)
	c.create("slow", 1)
	leader, other := c.leader("slow", 0)
	for _, n := range c.nodes {
		if n != leader && n != other {
			n.links.cutOff(leader.addr) // nothing is acknowledged before the ISR has shrunk
		}
	}
	began := time.Now()
	a := other.post("/topics/slow/partitions/0/records?acks=-1&timeout_ms=400", "v")
	if p := a.problem(50401); p.Outcome != "unknown" {
		t.Errorf("%s", a.body)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// Nobody forwards what was forwarded: a broker that doesn't lead says so.
func TestForwardedRequestsGoOneHop(t *testing.T) {
	c := startCluster(t)
	c.create("once", 1)
	_, other := c.leader("once", 0)
	topic, _ := other.ctl.State().Topic("once")
	tp := wire.TopicPartition{Topic: topic.ID}
	batch := storage.NewBatchBuilder(nil)
	batch.Append(&storage.Record{Value: []byte("v")})
	sealed, err := batch.Seal(storage.CompressionNone, nil)
	must(t, err)
	ctx := context.Background()
	call := func(path string, in, out wire.Message) {
		t.Helper()
		must(t, c.node(other.id%3+1).peers.Call(ctx, other.url, path, 0, in, out, nil))
	}
	appended := &wire.JSON[wire.AppendAnswer]{}
	call(wire.PathAppend, &wire.AppendRequest{Version: wire.Version, Acks: -1, TimeoutMs: 5000, Partitions: []wire.AppendPartition{{TopicPartition: tp, Batches: [][]byte{sealed}}}}, appended)
	read := &wire.ReadAnswer{}
	call(wire.PathRead, &wire.JSON[wire.ReadRequest]{V: &wire.ReadRequest{Version: wire.Version, MaxBytes: 100, MaxWaitMs: 1000, Positions: []wire.ReadPosition{{TopicPartition: tp}}}}, read)
	offsets := &wire.JSON[wire.OffsetsAnswer]{}
	call(wire.PathOffsets, &wire.JSON[wire.OffsetsRequest]{V: &wire.OffsetsRequest{Version: wire.Version, Partitions: []wire.OffsetsQuery{{TopicPartition: tp}}}}, offsets)
	deleted := &wire.JSON[wire.DeleteRecordsAnswer]{}
	call(wire.PathDeleteRecords, &wire.JSON[wire.DeleteRecordsRequest]{V: &wire.DeleteRecordsRequest{Version: wire.Version, TopicPartition: tp}}, deleted)
	for path, e := range map[string]*wire.Error{wire.PathAppend: appended.V.Results[0].Error, wire.PathRead: read.Results[0].Error,
		wire.PathOffsets: offsets.V.Results[0].Error, wire.PathDeleteRecords: deleted.V.Error} {
		if e == nil || e.Kind != "replication.NotLeaderError" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	if end := other.end("once", 0); end != 0 {
		t.Errorf("%d records were appended", end)
	}
}

// Clients that leave take everything with them that was done for them elsewhere.
func TestNothingIsLeftOfReadersThatLeave(t *testing.T) {
	c := startCluster(t)
	c.create("left", 2)
	leader, other := c.leader("left", 0)
	other.get("/topics/left/partitions/0/records").want(200)
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range 10 {
		readers.Go(func() {
			path := "/topics/left/records?follow=true"
			if i%2 == 0 {
				path = "/topics/left/partitions/0/records?timeout=60000"
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, other.url+path, nil)
			must(t, err)
			r.Header.Set("Accept", typeNDJSON)
			if resp, err := other.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	other.eventually("all wait", func() bool { return other.waitersNow() == 10 })
	cancel()
	readers.Wait()
	other.eventually("no reader is left", func() bool { return other.waitersNow() == 0 })
	leader.post("/topics/left/partitions/0/records?acks=-1", "v").want(200)
}

// A topic's partitions are asked for once from each leader, and one whose leader is
// gone is told as far as it is known.
func TestStatusOfManyPartitions(t *testing.T) {
	c := startCluster(t)
	c.create("many", 12)
	for _, n := range c.nodes {
		var ps []partitionView
		n.get("/topics/many/partitions").want(200).into(&ps)
		for i, p := range ps {
			if p.Partition != int32(i) || p.Leader < 1 || p.LogEndOffset == nil || len(p.Replicas) != 3 {
				t.Errorf("broker %d: %+v", n.id, p)
			}
		}
	}
	c.node(3).links.cutOff(c.node(1).addr)
	var ps []partitionView
	c.node(3).get("/topics/many/partitions").want(200).into(&ps)
	unknown := 0
	for _, p := range ps {
		if p.LogEndOffset == nil {
			unknown++
		}
	}
	if unknown == 0 || unknown == len(ps) {
		t.Errorf("%d of %d are unknown without broker 1", unknown, len(ps))
	}
}

// A thousand tails at the end of a partition that another broker leads: idle, they
// cost it a long-poll now and then; a record costs it a handful of reads.
func TestManyTailsThroughAnotherBroker(t *testing.T) {
	c := startCluster(t)
	c.create("popular", 1)
	leader, other := c.leader("popular", 0)
	const tails = 1000
	streams := make([]*stream, tails)
	for i := range streams {
		streams[i] = other.tail("/topics/popular/partitions/0/records?follow=true&offset=0", accept(typeNDJSON))
	}
	before, reads := internalRequests(t, leader, wire.PathWatch), internalRequests(t, leader, wire.PathRead)
	const records = 5
	for i := range records {
		leader.post("/topics/popular/partitions/0/records?acks=-1", strconv.Itoa(i)).want(200)
		for _, s := range streams {
			if line, err := s.lines.ReadString('\n'); err != nil || !strings.Contains(line, fmt.Sprintf(`"offset":%d,`, i)) {
				t.Fatalf("record %d: %q %v", i, line, err)
			}
		}
	}
	watches, asked := internalRequests(t, leader, wire.PathWatch)-before, internalRequests(t, leader, wire.PathRead)-reads
	t.Logf("%d tails, %d records: %v watches, %v reads", tails, records, watches, asked)
	if watches > 10*records || asked > tails*records/4 {
		t.Errorf("%d tails cost %v watches and %v reads for %d records", tails, watches, asked, records)
	}
}
