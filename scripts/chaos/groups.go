package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"chaos/check"
	"chaos/history"
	"chaos/load"
)

const (
	// groupTopic is what the groups read.
	groupTopic = "work"
	// groupsTopic is where brokers keep groups.
	groupsTopic = "__consumer_offsets"
)

func (r *run) groupNames() (names []string) {
	if !r.groups {
		return nil
	}
	for _, g := range load.Groups {
		names = append(names, g.Name)
	}
	return names
}

// firstGroup has the brokers make the topic that holds groups, so that it is there,
// and in sync, before the first fault.
func (r *run) firstGroup() error {
	deadline := time.Now().Add(startLimit)
	for {
		status, answer, err := r.cluster.Broker(1).Do("PUT", "/consumers/first/instances/first", "{}")
		if err == nil && status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no first group: %d %.300s: %w", status, answer, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if status, answer, err := r.cluster.Broker(1).Do("DELETE", "/consumers/first/instances/first", ""); err != nil || status != http.StatusNoContent {
		return fmt.Errorf("the first member can't leave: %d %.300s: %w", status, answer, err)
	}
	var topic struct {
		ID string `json:"topic_id"`
	}
	if err := r.cluster.Broker(1).Ask("/topics/"+groupsTopic, &topic); err != nil || topic.ID == "" {
		return fmt.Errorf("the topic of groups has no id: %w", err)
	}
	r.named = append(r.named, groupsTopic)
	r.rec.Event(history.EventGroups, 0, topic.ID)
	return nil
}

// compact compacts the log of groups, and those of messages whose ids outlive them,
// all the while, at one broker after the other: coordinators then load what compaction
// has left.
func (r *run) compact(ctx context.Context) {
	var topics []string
	if r.groups {
		topics = append(topics, groupsTopic)
	}
	for _, t := range r.again {
		if t.Compacted {
			topics = append(topics, t.Name)
		}
	}
	if len(topics) == 0 {
		return
	}
	rnd := rand.New(rand.NewPCG(r.seed, 78))
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(500+rnd.IntN(2500)) * time.Millisecond):
		}
		b := r.cluster.Brokers[rnd.IntN(len(r.cluster.Brokers))]
		topic := topics[rnd.IntN(len(topics))]
		status, answer, err := b.Do("POST", "/internal/v1/admin/compact", `{"topic":"`+topic+`"}`)
		var done struct {
			Partitions []struct {
				Removed int64 `json:"removed"`
			} `json:"partitions"`
		}
		if err != nil || status != http.StatusOK || json.Unmarshal(answer, &done) != nil {
			continue
		}
		removed := &r.compacted
		if topic != groupsTopic {
			removed = &r.outlived
		}
		for _, p := range done.Partitions {
			removed.Add(p.Removed)
		}
	}
}

// sureOfExpiry is the length from which on a run is expected to meet what needs a
// fault to outlast a member's timeout, just when nobody takes that member over: in a
// minute it happens once or twice, or not.
const sureOfExpiry = 3 * time.Minute

// groupEvidence counts what has to happen to groups if a run of that length is to
// prove anything.
func groupEvidence(h *history.History, length time.Duration) []count {
	if len(h.Groups) == 0 {
		return nil
	}
	f := check.Groups(h)
	return []count{
		{what: "changes of groups' coordinators", n: f.Coordinators, needed: true},
		{what: "partitions that moved to another member", n: f.Moved, needed: true},
		{what: "members taken over", n: f.TakeOvers, needed: true},
		{what: "members told that they are expired", n: f.Expired, needed: length >= sureOfExpiry},
		{what: "commits refused to members that lost their place", n: f.Fenced, needed: length >= sureOfExpiry},
		{what: "commits of all refused by a coordinator that can't know what that is", n: f.Forgotten},
		{what: "commits without an answer", n: f.Unknown},
		{what: "records given to a group again", n: f.Repeats, needed: true},
		{what: "polls repeated by their request id, with the same answer", n: f.Repeated, needed: true},
		{what: "polls refused because another was under way", n: f.Running},
		{what: "members whose position fell back to the commit", n: f.FellBack},
		{what: "ms that the slowest answer to a poll took beyond its timeout", n: f.Slowest},
	}
}

// groupCounts sums up what members did.
func groupCounts(h *history.History) []count {
	sums := map[string]int{}
	records := 0
	for _, op := range h.Groups {
		what := fmt.Sprintf("of groups: %s: %s", op.Kind, op.Outcome)
		if op.Kind == history.Poll && op.Outcome == history.OK && len(op.Records) == 0 {
			what += ", empty"
		}
		sums[what]++
		records += len(op.Records)
	}
	if len(sums) == 0 {
		return nil
	}
	return append(sorted(sums), count{what: "of groups: records", n: records})
}
