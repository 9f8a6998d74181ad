package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chaos/history"
)

// Group is one consumer group of a run: as many members at a time as it has slots.
type Group struct {
	Name string
	// Dialect and OneCall are how many members consume in either way.
	Dialect, OneCall int
}

// Groups of a run. Two members share the topic's partitions; a third comes and goes.
var Groups = []Group{
	{Name: "billing", Dialect: 3},
	{Name: "shipping", OneCall: 3},
	{Name: "mailing", Dialect: 2, OneCall: 1},
}

// groupProducers write to the topic that the groups read.
const groupProducers = 2

// startGroups lets the groups' members and producers run until ctx ends.
func (f *Fleet) startGroups(ctx context.Context) {
	if !f.grouped() {
		return
	}
	for i := range groupProducers {
		c := f.newClient(fmt.Sprintf("gp%d", i))
		f.wg.Go(func() { f.groupProducer(ctx, c) })
	}
	for _, g := range Groups {
		for i := range g.Dialect {
			s := &slot{fleet: f, group: g.Name, number: i, client: f.newClient(fmt.Sprintf("%s.d%d", g.Name, i))}
			f.wg.Go(func() { s.dialect(ctx) })
		}
		for i := range g.OneCall {
			s := &slot{fleet: f, group: g.Name, number: i, client: f.newClient(fmt.Sprintf("%s.o%d", g.Name, i))}
			f.wg.Go(func() { s.oneCall(ctx) })
		}
		c := f.newClient(g.Name + ".look")
		f.wg.Go(func() { f.looker(ctx, c, g.Name) })
	}
}

func (f *Fleet) grouped() bool { return f.cfg.GroupSession > 0 }

// groupProducer sends to the groups' topic, all of it at acks=-1.
func (f *Fleet) groupProducer(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		if ops := c.produce(c.broker(), f.cfg.GroupTopic, -1); ops[0].Outcome != history.OK {
			c.pause(ctx, 10*f.cfg.Think)
		}
		c.pause(ctx, 3*f.cfg.Think)
	}
}

// looker asks what a group has committed.
func (f *Fleet) looker(ctx context.Context, c *client, group string) {
	for ctx.Err() == nil {
		c.groupOffsets(c.broker(), group, f.cfg.GroupTopic)
		c.pause(ctx, 15*f.cfg.Think)
	}
}

// Drain has fresh members of each group read and commit what is left, until
// nothing is or ctx ends; it returns the groups that weren't done.
func (f *Fleet) Drain(ctx context.Context) (lacking []string) {
	if !f.grouped() {
		return nil
	}
	f.cfg.Record.Event(history.EventDrain, 0, "")
	var wg sync.WaitGroup
	var mu sync.Mutex // guards lacking
	for _, g := range Groups {
		ctx, done := context.WithCancel(ctx)
		look := f.newClient(g.Name + ".end")
		wg.Go(func() {
			defer done()
			left := "nobody could tell"
			for ctx.Err() == nil && left != "" {
				look.pause(ctx, 200*time.Millisecond)
				left = f.left(look, g.Name)
			}
			if left != "" {
				mu.Lock()
				defer mu.Unlock()
				lacking = append(lacking, fmt.Sprintf("group %s: %s", g.Name, left))
			}
		})
		for i := range 2 {
			s := &slot{fleet: f, group: g.Name, plain: true, client: f.newClient(fmt.Sprintf("%s.drain%d", g.Name, i))}
			wg.Go(func() {
				if i == 0 {
					s.drainDialect(ctx)
				} else {
					s.drainOneCall(ctx)
				}
			})
		}
	}
	wg.Wait()
	return lacking
}

// left tells what a group has not committed yet, "" when all is.
func (f *Fleet) left(c *client, group string) string {
	t := f.cfg.GroupTopic
	op := c.groupOffsets(c.broker(), group, t)
	if op.Outcome != history.OK {
		return fmt.Sprintf("its offsets can't be read: %d/%d %s", op.Status, op.Code, op.Error)
	}
	for _, o := range op.Offsets {
		ends := c.ends(c.broker(), o.Partition, t.Name)
		if ends.Outcome != history.OK {
			return fmt.Sprintf("the end of partition %d can't be read", o.Partition.Index)
		}
		if o.Offset < ends.High {
			return fmt.Sprintf("partition %d is committed up to %d of %d", o.Partition.Index, o.Offset, ends.High)
		}
	}
	return ""
}
