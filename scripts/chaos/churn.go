package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"chaos/cluster"
	"chaos/history"
	"chaos/load"
)

// eventDeleted notes that a topic, by its id, was deleted.
const eventDeleted = "topic deleted"

// churn makes, changes and deletes topics while faults are on, and deletes the
// oldest records of "trim", and of the topic like it whose requests are sent again.
type churn struct {
	r     *run
	trims []*load.Topic

	mu      sync.Mutex // guards what follows
	deleted map[string]bool
	late    map[string]bool // topics by id, with a produce that may still arrive
	counts  map[string]int
}

func newChurn(r *run) *churn {
	var trims []*load.Topic
	for _, t := range slices.Concat(r.topics, r.again) {
		if t.Trimmed || t.Name == "trim" {
			trims = append(trims, t)
		}
	}
	return &churn{r: r, trims: trims, deleted: map[string]bool{}, late: map[string]bool{}, counts: map[string]int{}}
}

func (c *churn) deletedIDs() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted
}

func (c *churn) run(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(c.r.seed, 77))
	for round := 0; ctx.Err() == nil; round++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(200+rnd.IntN(1500)) * time.Millisecond):
		}
		b := c.r.cluster.Brokers[rnd.IntN(len(c.r.cluster.Brokers))]
		switch rnd.IntN(3) {
		case 0:
			c.trim(b, rnd)
		case 1:
			c.alter(b, rnd)
		default:
			c.topic(b, rnd)
		}
	}
}

// trim deletes records of a topic that is there for it below a point.
func (c *churn) trim(b *cluster.Broker, rnd *rand.Rand) {
	var got struct {
		Start int64 `json:"beginning_offset"`
		End   int64 `json:"end_offset"`
	}
	t := c.trims[rnd.IntN(len(c.trims))]
	if b.Ask("/topics/"+t.Name+"/partitions/0/offsets", &got) != nil || got.End-got.Start < 50 {
		return
	}
	op := &history.Op{ID: c.r.rec.NextID(), Client: "churn", Kind: history.Trim, Partition: history.Partition{Topic: t.ID, Index: 0}, Broker: b.ID,
		Call: c.r.rec.Now(), High: -1, Outcome: history.Failed}
	status, answer, err := b.Do("DELETE", fmt.Sprintf("/topics/%s/partitions/0/records?before_offset=%d", t.Name, got.Start+rnd.Int64N((got.End-got.Start)/2)), "")
	var moved struct {
		Start *int64 `json:"beginning_offset"`
	}
	op.Return, op.Status = c.r.rec.Now(), status
	if err == nil && status == http.StatusOK && json.Unmarshal(answer, &moved) == nil && moved.Start != nil {
		op.Outcome, op.Start = history.OK, *moved.Start
		c.note("delete-records", status)
	}
	c.r.rec.Op(op)
}

// alter changes a setting of a topic that everybody uses.
func (c *churn) alter(b *cluster.Broker, rnd *rand.Rand) {
	body := fmt.Sprintf(`{"configs":{"segment.bytes":"%d"}}`, 8192<<rnd.IntN(4))
	if status, _, err := b.Do("PATCH", "/topics/small", body); err == nil {
		c.note("alter", status)
	}
}

// topic makes a topic, uses it and deletes it. The name is used again: what was
// in a topic must not be in its namesake (F53).
func (c *churn) topic(b *cluster.Broker, rnd *rand.Rand) {
	t, err := createTopic(b, "phoenix", 1+rnd.IntN(3), min(3, c.r.brokers), `{}`)
	if err != nil {
		c.remove(b, "") // one of a former round is in the way
		return
	}
	c.note("create", 201)
	c.use(t.Name, t.ID, rnd)
	c.remove(b, t.ID)
}

// use produces some records that say which topic they are meant for.
func (c *churn) use(name, id string, rnd *rand.Rand) {
	for range rnd.IntN(5) {
		b := c.r.cluster.Brokers[rnd.IntN(len(c.r.cluster.Brokers))]
		status, _, err := b.Do("POST", "/topics/"+name+"/partitions/0?acks=-1&timeout_ms=2000", fmt.Sprintf(`{"records":[{"value":{"topic":%q}}]}`, id))
		if err != nil || status >= 500 {
			// It may arrive late, and then in the topic that has the name by then.
			c.mu.Lock()
			c.late[id] = true
			c.mu.Unlock()
		}
	}
}

// check reads "phoenix" when all is mended: it holds only what was meant for it.
func (c *churn) check(b *cluster.Broker) {
	var topic struct {
		ID string `json:"topic_id"`
	}
	status, _, err := b.Do("GET", "/topics/phoenix", "")
	if err == nil && status == http.StatusNotFound {
		_, err = createTopic(b, "phoenix", 1, min(3, c.r.brokers), `{}`)
	}
	if err == nil {
		err = b.Ask("/topics/phoenix", &topic)
	}
	if err != nil {
		c.r.fail("V15", "the topic phoenix can't be had at the end: %v", err)
		return
	}
	var records []struct {
		Value struct {
			Topic string `json:"topic"`
		} `json:"value"`
	}
	if err := b.Ask("/topics/phoenix/partitions/0/records?timeout=5000&count=1000", &records); err != nil {
		c.r.fail("V15", "the topic phoenix can't be read at the end: %v", err)
	}
	for _, r := range records {
		if r.Value.Topic != topic.ID && !c.late[r.Value.Topic] {
			c.r.fail("F53", "topic phoenix, id %s, holds a record of its namesake %s", topic.ID, r.Value.Topic)
		}
	}
}

// remove deletes "phoenix".
func (c *churn) remove(b *cluster.Broker, id string) {
	status, _, err := b.Do("DELETE", "/topics/phoenix", "")
	if err != nil {
		return
	}
	c.note("delete", status)
	if id != "" {
		c.mu.Lock()
		c.deleted[id] = true
		c.mu.Unlock()
		c.r.rec.Event(eventDeleted, b.ID, id)
	}
}

func (c *churn) note(what string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status < 300 {
		c.counts[what]++
	}
}
