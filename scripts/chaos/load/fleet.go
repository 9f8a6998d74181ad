package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"chaos/history"
)

// Config of a Fleet.
type Config struct {
	URLs      []string // of the brokers, id i at i-1
	Topics    []*Topic
	Record    *history.Recorder
	Seed      uint64
	Producers int
	Consumers int
	Tails     int
	Watchers  int
	Think     time.Duration // a client's longest pause between two requests

	Transport http.RoundTripper // of all clients; nil: each has connections of its own

	GroupTopic   *Topic        // that groups read, and other clients don't
	GroupSession time.Duration // after which a silent member is expired; 0: no groups

	Again      []*Topic // whose requests are all sent again, and which no other client writes to
	Stormers   int      // clients that do
	StormThink time.Duration
}

// Fleet is all clients of a run.
type Fleet struct {
	cfg        Config
	transports []*http.Transport
	wg         sync.WaitGroup
	stormers   []*stormer
	sequencers []*sequencer
}

// New makes a fleet; nothing runs yet.
func New(cfg Config) *Fleet { return &Fleet{cfg: cfg} }

// acksOf are the acks of the producers, in turns.
var acksOf = [...]int{-1, -1, 1, -1, 0}

// Start lets the clients run until ctx ends.
func (f *Fleet) Start(ctx context.Context) {
	for i := range f.cfg.Producers {
		c := f.newClient(fmt.Sprintf("p%d", i))
		f.wg.Go(func() { f.producer(ctx, c, acksOf[i%len(acksOf)]) })
	}
	for i := range f.cfg.Consumers {
		c := f.newClient(fmt.Sprintf("c%d", i))
		f.wg.Go(func() { f.consumer(ctx, c) })
	}
	for i := range f.cfg.Tails {
		c := f.newClient(fmt.Sprintf("t%d", i))
		f.wg.Go(func() { f.tailer(ctx, c) })
	}
	for i := range f.cfg.Watchers {
		c := f.newClient(fmt.Sprintf("w%d", i))
		f.wg.Go(func() { f.watcher(ctx, c) })
	}
	f.startGroups(ctx)
	f.startStorm(ctx)
}

// Wait returns when all clients have ended, each with its last answer.
func (f *Fleet) Wait() {
	f.wg.Wait()
	for _, t := range f.transports {
		t.CloseIdleConnections()
	}
}

// topics are all that there are.
func (f *Fleet) topics() []*Topic {
	all := slices.Concat(f.cfg.Topics, f.cfg.Again)
	if f.cfg.GroupTopic == nil {
		return all
	}
	return append(all, f.cfg.GroupTopic)
}

// Final sends produces at acks=-1 to every partition through every broker until
// each has succeeded or the time is over. Each attempt is a new value.
func (f *Fleet) Final(ctx context.Context) {
	var wg sync.WaitGroup
	for broker := range len(f.cfg.URLs) {
		c := f.newClient(fmt.Sprintf("f%d", broker+1))
		wg.Go(func() {
			for _, t := range f.topics() {
				for p := range t.Partitions {
					one := &Topic{Name: t.Name, ID: t.ID, Partitions: t.Partitions, Compacted: t.Compacted}
					for ctx.Err() == nil && !c.finalProduce(broker+1, one, p) {
						c.pause(ctx, 200*time.Millisecond)
					}
				}
			}
		})
	}
	wg.Wait()
}

func (c *client) finalProduce(broker int, t *Topic, partition int) bool {
	op := c.begin(history.Produce, broker, history.Partition{Topic: t.ID, Index: partition})
	op.Acks, op.Values = -1, []string{c.value()}
	partitions := []int{partition}
	form := 0
	if t.Compacted {
		form = 2 // with a key
	}
	path, contentType, body := request(form, t, op.Values, partitions)
	a := c.do(broker, "POST", path+"acks=-1&timeout_ms=5000", contentType, body, 5*time.Second)
	settle([]*history.Op{op}, op.Values, partitions, &a)
	c.end(op, &a)
	return op.Outcome == history.OK
}

// Views reads every partition's log through every broker.
func (f *Fleet) Views() error {
	for broker := range len(f.cfg.URLs) {
		c := f.newClient(fmt.Sprintf("v%d", broker+1))
		for _, t := range f.topics() {
			for p := range t.Partitions {
				v, err := c.view(broker+1, t, p)
				if err != nil {
					return fmt.Errorf("load: reading %s-%d through broker %d: %w", t.Name, p, broker+1, err)
				}
				f.cfg.Record.View(v)
			}
		}
	}
	return nil
}

func (c *client) view(broker int, t *Topic, partition int) (*history.View, error) {
	key := history.Partition{Topic: t.ID, Index: partition}
	end := c.ends(broker, key, t.Name)
	if end.Outcome != history.OK {
		return nil, fmt.Errorf("%d: %s", end.Status, end.Error)
	}
	v := &history.View{Partition: key, Source: fmt.Sprintf("broker %d", broker), Start: end.Start, End: end.High}
	for next := v.Start; next < v.End; {
		op := c.fetch(broker, key, t.Name, next, 0, 1000)
		if op.Outcome != history.OK || len(op.Records) == 0 {
			return nil, fmt.Errorf("%d at offset %d, below the end %d: %s", op.Status, next, v.End, op.Error)
		}
		v.Records = append(v.Records, op.Records...)
		next = op.Records[len(op.Records)-1].Offset + 1
	}
	return v, nil
}
