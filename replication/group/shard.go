package group

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"highwater/storage"
)

// shard is one partition of __consumer_offsets in one leader epoch of this broker:
// all of its groups, as the log has them and as they are becoming.
//
// It is loaded once (G2), served, and given up for good when the epoch is over or an
// append failed: what was decided and isn't in the log must be forgotten, so another
// shard is loaded in its place.
type shard struct {
	g          *Groups
	num, epoch int32
	log        zerolog.Logger

	loaded chan struct{} // closed once calls are taken
	ended  chan struct{} // closed when it is given up
	queued chan struct{} // gets a token when there is something to append
	sooner chan struct{} // gets a token when the ticker has something to do earlier

	mu     sync.Mutex // guards what follows
	over   error      // why it was given up; nil: it wasn't
	groups map[string]*coordinated
	due    dueQueue // of groups, by when tick has something to do
	// Batches are counted in the order of being decided.
	queue     []storage.Batch // decided, and not being appended yet
	decided   uint64          // the number of the last one
	sent      uint64          // those up to here are in the log, or may be
	committed uint64          // those up to here are committed
	progress  chan struct{}   // closed, and replaced, when committed moves
}

// coordinated is a group in a shard.
type coordinated struct {
	state   *state
	name    string
	last    uint64        // the number of its newest batch
	changed chan struct{} // closed, and replaced, when something of it changes
	at      time.Time     // when it is due; zero: never
	index   int           // in shard.due; -1: not there
}

func newShard(g *Groups, num, epoch int32) *shard {
	return &shard{g: g, num: num, epoch: epoch, groups: map[string]*coordinated{},
		log:    g.cfg.Logger.With().Int32("partition", num).Int32("leader_epoch", epoch).Logger(),
		loaded: make(chan struct{}), ended: make(chan struct{}), queued: make(chan struct{}, 1), sooner: make(chan struct{}, 1),
		progress: make(chan struct{})}
}

// run loads the groups and serves them until ctx ends or an append fails; false: they
// can't be loaded.
func (s *shard) run(ctx context.Context) bool {
	began := time.Now()
	records, err := s.load(ctx)
	if err != nil {
		s.end(err)
		passes := ctx.Err() != nil || errors.Is(err, ErrNoCoordinator)
		if !passes {
			s.log.Error().Err(err).Msg("groups can't be loaded")
		}
		return passes
	}
	took := time.Since(began)
	s.g.metrics.loads.Observe(took.Seconds())
	s.log.Info().Int("groups", len(s.groups)).Int("records", records).Dur("took_ms", took).Msg("groups loaded")
	close(s.loaded)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ticker sync.WaitGroup
	ticker.Go(func() { s.tickAll(ctx) })
	err = s.write(ctx)
	cancel()
	s.end(err)
	ticker.Wait()
	event := s.log.Info()
	if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNoCoordinator) {
		event = s.log.Warn().Err(err)
	}
	event.Int("groups", len(s.groups)).Msg("groups given up")
	return true
}

// end gives the shard up. Who waits is told.
func (s *shard) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = noCoordinator(err)
	if errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNoCoordinator) {
		s.over = err
	}
	close(s.ended)
}

// load applies all that is in the log. What former leaders appended is committed, or
// will be, up to the end that the log has now (R51); in this epoch only a shard appends,
// one at a time.
func (s *shard) load(ctx context.Context) (records int, err error) {
	offset, end, err := s.g.cfg.Log.Bounds(s.num, s.epoch)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 0, loadBytes)
	for offset < end {
		data, err := s.g.cfg.Log.Read(ctx, s.num, s.epoch, offset, buf)
		if err != nil {
			return records, err
		}
		if len(data) == 0 {
			return records, &gapError{from: offset, to: end}
		}
		for len(data) > 0 {
			batch, rest, err := storage.ParseBatch(data)
			if err != nil {
				return records, err
			}
			if batch.BaseOffset() > offset {
				return records, &gapError{from: offset, to: batch.BaseOffset()}
			}
			n, err := s.apply(batch)
			if records += n; err != nil {
				return records, err
			}
			data, offset = rest, batch.NextOffset()
		}
	}
	now := time.Now()
	for _, c := range s.groups {
		if !c.state.exists() {
			delete(s.groups, c.name)
			continue
		}
		s.dueAt(c, now)
	}
	return records, ctx.Err()
}

// gapError: offsets of the log that no batch covers. Compaction leaves none, so
// something is lost there that somebody may have been told.
type gapError struct{ from, to int64 }

func (e *gapError) Error() string {
	return fmt.Sprintf("group: no batch from offset %d to %d", e.from, e.to)
}

// loadBytes is how much of the log is read at once.
const loadBytes = 1 << 20

// apply applies the records of a batch.
func (s *shard) apply(batch storage.Batch) (n int, err error) {
	records, err := batch.Records()
	if err != nil {
		return 0, err
	}
	var r storage.Record
	for ; records.Next(&r); n++ {
		rec, err := decodeRecord(r.Key, r.Value)
		if err != nil {
			return n, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		if err := s.coordinated(rec.group).state.apply(rec); err != nil {
			return n, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return n, records.Err()
}

// coordinated is a group, made if it isn't there. Call it under mu.
func (s *shard) coordinated(name string) *coordinated {
	c := s.groups[name]
	if c == nil {
		c = &coordinated{state: newState(name), name: name, changed: make(chan struct{}), index: -1}
		s.groups[name] = c
	}
	return c
}

// dueQueue is groups, the one that is due first at the front.
type dueQueue []*coordinated

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is heap's.
func (q *dueQueue) Push(x any) {
	c := x.(*coordinated)
	c.index = len(*q)
	*q = append(*q, c)
}

// Pop is heap's.
func (q *dueQueue) Pop() any {
	old := *q
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*q, c.index = old[:len(old)-1], -1
	return c
}

// schedule notes when a group is due. Call it under mu.
func (s *shard) schedule(c *coordinated) {
	at := c.state.next()
	if at.IsZero() {
		if c.index >= 0 {
			heap.Remove(&s.due, c.index)
		}
		return
	}
	s.dueAt(c, at)
}

// dueAt has a group ticked at a time. Call it under mu.
func (s *shard) dueAt(c *coordinated, at time.Time) {
	switch {
	case c.index < 0:
		c.at = at
		heap.Push(&s.due, c)
	case !at.Equal(c.at):
		c.at = at
		heap.Fix(&s.due, c.index)
	default:
		return
	}
	if c.index == 0 {
		give(s.sooner)
	}
}

// give leaves a token for whoever waits.
func give(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
