package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"chaos/check"
	"chaos/history"
	"chaos/load"
)

const (
	// stormThink is the longest pause of a client that sends everything again.
	stormThink = 250 * time.Millisecond
	// settleWithin is how long all requests whose end isn't known may take to be
	// acknowledged when all faults are mended.
	settleWithin = 60 * time.Second
	// stormLeast is the number of clients from which on a run is one about retries.
	stormLeast = 32
	// growTo is how many partitions a topic that grows has in the end.
	growTo = 6
)

// stormLayout is the topics whose requests are all sent again.
var stormLayout = []struct {
	topic   load.Topic
	factor  int
	configs string
}{
	{load.Topic{Name: "again", Partitions: 3}, 3, `{"min.insync.replicas":"2","segment.bytes":"131072"}`},
	{load.Topic{Name: "again-growing", Partitions: 2, Grows: true}, 3, `{"min.insync.replicas":"2"}`},
	{load.Topic{Name: "again-trim", Partitions: 1, Trimmed: true}, 3, `{"min.insync.replicas":"2","segment.bytes":"16384"}`},
	{load.Topic{Name: "again-compact", Partitions: 1, Compacted: true}, 3, `{"min.insync.replicas":"2","segment.bytes":"16384","cleanup.policy":"compact"}`},
	{load.Topic{Name: "again-pair", Partitions: 1}, 2, `{"min.insync.replicas":"1"}`},
}

// createStorm makes the topics of the storm.
func (r *run) createStorm() error {
	if r.retries == 0 {
		return nil
	}
	for _, l := range stormLayout {
		t, err := createTopic(r.cluster.Broker(1), l.topic.Name, l.topic.Partitions, min(l.factor, r.brokers), r.alone(l.configs))
		if err != nil {
			return err
		}
		t.Grows, t.Trimmed, t.Compacted = l.topic.Grows, l.topic.Trimmed, l.topic.Compacted
		if t.Compacted {
			r.rec.Event(history.EventCompacted, 0, t.ID)
		}
		r.again = append(r.again, t)
		r.named = append(r.named, t.Name)
	}
	return nil
}

// grow gives the topics that grow one partition after the other, over the whole run.
func (r *run) grow(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(r.seed, 79))
	for _, t := range r.again {
		if !t.Grows {
			continue
		}
		for n := t.Partitions + 1; n <= growTo; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(r.duration / (growTo + 1)):
			}
			b := r.cluster.Brokers[rnd.IntN(len(r.cluster.Brokers))]
			status, _, err := b.Do("PATCH", "/topics/"+t.Name, fmt.Sprintf(`{"partitions":%d}`, n))
			if err == nil && status == http.StatusOK {
				r.logf("%s has %d partitions", t.Name, n)
				n++
			}
		}
	}
}

// grown takes down how many partitions the topics have in the end.
func (r *run) grown() {
	for _, t := range r.again {
		if ps, err := r.cluster.Brokers[0].Partitions(t.Name); err == nil && t.Grows {
			t.Partitions = len(ps)
		}
	}
}

// debugMemory is a replica in the answer to debug/dedupe.
type debugMemory struct {
	TopicID    string `json:"topic_id"`
	Partition  int    `json:"partition"`
	LogEnd     int64  `json:"log_end"`
	Digest     string `json:"digest"`
	Recomputed string `json:"recomputed"`
	IDs        int64  `json:"ids"`
	Producers  int64  `json:"producers"`
}

// memories asks every broker what its replicas remember of ids and producers, and
// what their logs tell (V29).
func (r *run) memories() {
	for _, b := range r.cluster.Brokers {
		for _, t := range r.again {
			var got []debugMemory
			if err := b.Ask("/internal/v1/debug/dedupe?topic="+t.Name, &got); err != nil {
				r.fail("V29", "broker %d can't tell what it remembers of %s: %s", b.ID, t.Name, strings.TrimSpace(err.Error()))
				continue
			}
			for _, d := range got {
				r.rec.Memory(&history.Memory{Partition: history.Partition{Topic: d.TopicID, Index: d.Partition}, Broker: b.ID, LogEnd: d.LogEnd,
					Digest: d.Digest, Recomputed: d.Recomputed, IDs: d.IDs, Producers: d.Producers})
			}
		}
	}
}

// againEvidence counts what a storm of retries is there for: all of it has to happen
// if enough clients are at it.
func againEvidence(h *history.History) (out []count) {
	clients := map[string]bool{}
	for _, a := range h.Attempts {
		clients[a.Client] = true
	}
	storm := len(clients) >= stormLeast
	for _, f := range check.Again(h) {
		out = append(out, count{what: f.What, n: f.N, needed: storm && !f.Rare})
	}
	if len(out) > 0 {
		out = append(out, count{what: "replicas whose memory of ids was computed anew", n: len(h.Memories), needed: storm})
	}
	return out
}

// againCounts sums up what those clients were told.
func againCounts(h *history.History) (out []count) {
	sums := map[string]int{}
	for _, a := range h.Attempts {
		sums["of retries: "+a.Form+": requests"]++
		for i := range a.Items {
			what := string(a.Items[i].Outcome)
			if a.Items[i].Duplicate {
				what += ", duplicate"
			}
			if code := a.Items[i].Code; code != 0 {
				what += fmt.Sprintf(" (%d)", code)
			}
			sums["of retries: records: "+what]++
		}
	}
	for _, l := range h.Lookups {
		sums["of retries: look-ups: "+string(l.Outcome)]++
	}
	return sorted(sums)
}
