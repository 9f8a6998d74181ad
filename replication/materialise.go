package replication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/storage"
)

// openConcurrency is how many logs are opened at once: enough that their durable
// epoch entries share transactions of the index, few enough to bound memory and
// open files while they recover.
const openConcurrency = 128

// follow materialises whatever the metadata says, until ctx ends.
func (b *Broker) follow(ctx context.Context) error {
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		ready := b.metadataReady(ctx)
		if ready == nil {
			return nil
		}
		if err := b.catchUp(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
		case <-retry.C:
		}
	}
}

// retryInterval is the time after which an offline partition is opened again.
const retryInterval = 10 * time.Second

// metadataReady returns the channel that tells of news, nil when ctx ended.
func (b *Broker) metadataReady(ctx context.Context) <-chan struct{} {
	if !b.takeTurn(ctx) {
		return nil
	}
	defer b.endTurn()
	return b.cursor.Ready()
}

func (b *Broker) takeTurn(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-b.turn:
		return true
	}
}

func (b *Broker) endTurn() { b.turn <- struct{}{} }

// catchUp makes this broker what the newest metadata says it is, looking only at
// the topics that changed. When it returns, all that had changed before is done.
// An error is ctx's or final.
func (b *Broker) catchUp(ctx context.Context) error {
	if !b.takeTurn(ctx) {
		return ctx.Err()
	}
	defer b.endTurn()
	s, changed, jump := b.cursor.Next()
	ids := make(map[uuid.UUID]struct{}, len(changed)+len(b.retry))
	for _, id := range changed {
		ids[id] = struct{}{}
	}
	maps.Copy(ids, b.retry)
	if jump {
		for t := range s.Topics() {
			ids[t.ID] = struct{}{}
		}
		for id := range b.byID { // only this goroutine writes it: it has the turn
			ids[id] = struct{}{}
		}
	}
	if !maps.Equal(s.Brokers, b.brokers) {
		b.brokers = s.Brokers
		b.isr.lookAtAll() // one that came back may be what a follower waited for
	}
	if len(ids) == 0 {
		return nil
	}
	return b.materialise(s, ids)
}

// job opens one log.
type job struct {
	topic *topic
	meta  *topicMeta
	p     *Partition
}

// materialise brings the topics of these ids into line with s.
func (b *Broker) materialise(s *controller.State, ids map[uuid.UUID]struct{}) error {
	var gone []*topic
	var jobs []job
	var alive []*topicMeta
	for id := range ids {
		if meta, ok := s.TopicByID(id); ok {
			alive = append(alive, &topicMeta{Topic: meta, config: meta.Config(b.configDefaults)})
		} else if t := b.byID[id]; t != nil {
			gone = append(gone, t)
		}
	}
	if err := b.removeTopics(gone); err != nil {
		return err
	}
	for _, m := range alive {
		more, err := b.plan(m)
		if err != nil {
			return err
		}
		jobs = append(jobs, more...)
	}
	if err := b.openAll(jobs); err != nil {
		return err
	}
	b.mu.Lock()
	for _, m := range alive {
		b.retryLater(m)
		t := b.byID[m.ID]
		b.byName[m.Name] = t
	}
	b.mu.Unlock()
	for _, m := range alive {
		b.byID[m.ID].changes.wake()
	}
	return nil
}

// plan puts a topic's new metadata in place and returns the logs to open. The
// topic isn't found by name until they are open; one that is there already gets
// its new partitions when they are. An error is final.
func (b *Broker) plan(m *topicMeta) ([]job, error) {
	t := b.byID[m.ID]
	if t == nil {
		t = &topic{b: b}
		t.partitions.Store(&[]*Partition{})
		t.meta.Store(m)
		b.mu.Lock()
		b.byID[m.ID] = t
		b.mu.Unlock()
	}
	old := *t.partitions.Load()
	var jobs []job
	for i := range m.Partitions {
		if !slices.Contains(m.Partitions[i].Replicas, b.cfg.NodeID) {
			if i < len(old) && old[i] != nil {
				if err := b.unassign(old[i], m); err != nil {
					return nil, err
				}
			}
			continue
		}
		if i < len(old) && old[i] != nil && old[i].offline == nil {
			if err := b.update(old[i], t.meta.Load(), m); err != nil {
				return nil, err
			}
			continue
		}
		jobs = append(jobs, job{topic: t, meta: m, p: &Partition{topic: t, num: int32(i)}})
	}
	if len(jobs) == 0 {
		t.meta.Store(m)
	}
	return jobs, nil
}

// unassign ends a replica that a completed reassignment took from this broker, and
// removes its log (R83, R85). An error is final.
func (b *Broker) unassign(p *Partition, m *topicMeta) error {
	meta := &m.Partitions[p.num]
	partitions := slices.Clone(*p.topic.partitions.Load())
	partitions[p.num] = nil
	p.topic.partitions.Store(&partitions)
	p.close(&NotLeaderError{Topic: m.Name, Partition: p.num, Leader: meta.Leader, Epoch: meta.LeaderEpoch})
	p.topic.data.wake()
	b.cfg.Logger.Info().Str("topic", m.Name).Int32("partition", p.num).Int32("leader", meta.Leader).Int32("leader_epoch", meta.LeaderEpoch).
		Ints32("replicas", meta.Replicas).Msg("replica removed: it belongs to other brokers now")
	if p.offline != nil {
		return nil // what is left of it is set aside at the next start
	}
	id := storage.PartitionID{Topic: m.ID, Partition: p.num}
	if err := b.cfg.Store.DeleteLog(id); errors.As(err, new(*storage.FailedError)) {
		return fmt.Errorf("replication: delete %s: %w", id, err)
	} else if err != nil {
		b.cfg.Logger.Error().Err(err).Stringer("partition", id).Msg("a removed replica's directory is left over")
	}
	return nil
}

// openAll opens logs, many at a time, and puts them into their topics.
func (b *Broker) openAll(jobs []job) error {
	errs := make([]error, len(jobs))
	forEach(len(jobs), openConcurrency, func(i int) { errs[i] = b.openOne(&jobs[i]) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	byTopic := map[*topic][]*job{}
	for i := range jobs {
		byTopic[jobs[i].topic] = append(byTopic[jobs[i].topic], &jobs[i])
	}
	for t, jobs := range byTopic {
		m := jobs[0].meta
		partitions := make([]*Partition, len(m.Partitions))
		copy(partitions, *t.partitions.Load())
		for _, j := range jobs {
			partitions[j.p.num] = j.p
		}
		t.partitions.Store(&partitions)
		t.meta.Store(m) // after the partitions: whoever sees the new number finds them
		for _, j := range jobs {
			if j.p.offline == nil {
				b.watcher.arrived(j.p)
			}
		}
	}
	return nil
}

// openOne opens a log and starts the partition. A log that can't be opened makes
// the partition offline, not the broker: the others go on. Only an error after
// which the disk can't be trusted is returned (S4).
func (b *Broker) openOne(j *job) error {
	m, p := j.meta, j.p
	log, err := b.cfg.Store.OpenLog(storage.PartitionID{Topic: m.ID, Partition: p.num}, logConfig(m.config), p.advance)
	if err == nil {
		p.open(log)
		return b.takeRole(p, m)
	}
	if final := (*storage.FailedError)(nil); errors.As(err, &final) || errors.Is(err, storage.ErrClosed) {
		return fmt.Errorf("replication: open %s-%d: %w", m.Name, p.num, err)
	}
	level := zerolog.ErrorLevel
	if _, again := b.retry[m.ID]; again {
		level = zerolog.DebugLevel // it was said the first time
	}
	b.cfg.Logger.WithLevel(level).Err(err).Str("topic", m.Name).Int32("partition", p.num).Msg("partition is offline: its log cannot be opened")
	p.offline = err
	return nil
}

// retryLater notes whether a topic has offline partitions.
func (b *Broker) retryLater(m *topicMeta) {
	delete(b.retry, m.ID)
	for _, p := range *b.byID[m.ID].partitions.Load() {
		if p == nil || p.offline == nil {
			continue
		}
		b.retry[m.ID] = struct{}{}
		if meta := &m.Partitions[p.num]; slices.Contains(meta.ISR, b.cfg.NodeID) || slices.Contains(meta.ELR, b.cfg.NodeID) {
			b.damaged(p)
		}
	}
}

// removeTopics ends deleted topics: first nobody finds them, then whoever waits
// learns of it, then the logs go (R86).
func (b *Broker) removeTopics(topics []*topic) error {
	var logs []storage.PartitionID
	b.mu.Lock()
	for _, t := range topics {
		m := t.meta.Load()
		delete(b.byID, m.ID)
		delete(b.retry, m.ID)
		if b.byName[m.Name] == t {
			delete(b.byName, m.Name)
		}
	}
	b.mu.Unlock()
	for _, t := range topics {
		m := t.meta.Load()
		t.deleted.Store(true)
		for _, p := range *t.partitions.Load() {
			if p != nil {
				p.close(&controller.UnknownTopicError{Topic: m.Name})
				logs = append(logs, storage.PartitionID{Topic: m.ID, Partition: p.num})
			}
		}
		t.data.wake()
		t.changes.wake()
	}
	errs := make([]error, len(logs))
	forEach(len(logs), openConcurrency, func(i int) { errs[i] = b.cfg.Store.DeleteLog(logs[i]) })
	for i, err := range errs {
		if final := (*storage.FailedError)(nil); errors.As(err, &final) {
			return fmt.Errorf("replication: delete %s: %w", logs[i], err)
		}
		if err != nil {
			// The topic is gone all the same; what is left of it is set aside at
			// the next start.
			b.cfg.Logger.Error().Err(err).Stringer("partition", logs[i]).Msg("a deleted partition's directory is left over")
		}
	}
	return nil
}

// setAsideStrays moves away the directories of partitions that the metadata
// doesn't know or puts elsewhere (R85). They are kept: should the metadata be
// the one that is wrong, the records are still there.
func (b *Broker) setAsideStrays() error {
	s := b.State()
	ids, err := b.cfg.Store.LogsOnDisk()
	if err != nil {
		return fmt.Errorf("replication: %w", err)
	}
	for _, id := range ids {
		t, ok := s.TopicByID(id.Topic)
		if ok && int(id.Partition) < len(t.Partitions) && slices.Contains(t.Partitions[id.Partition].Replicas, b.cfg.NodeID) {
			continue
		}
		if err := b.cfg.Store.SetAside(id); err != nil {
			return fmt.Errorf("replication: %w", err)
		}
		b.cfg.Logger.Warn().Stringer("partition", id).Msg("partition directory of no known topic is set aside")
	}
	return nil
}

// logConfig is the part of the configs that storage obeys. Times that no
// Duration can hold mean no limit.
func logConfig(c *controller.TopicConfig) storage.LogConfig {
	const maxMs = int64(1<<63-1) / int64(time.Millisecond)
	out := storage.LogConfig{SegmentBytes: c.SegmentBytes, RetentionBytes: -1, RetentionAge: -1, LogAppendTime: c.LogAppendTime, DedupeAge: -1, DedupeCount: c.DedupeWindowCount}
	if c.DedupeWindowMs >= 0 && c.DedupeWindowMs <= maxMs {
		out.DedupeAge = time.Duration(c.DedupeWindowMs) * time.Millisecond
	}
	if c.SegmentMs <= maxMs {
		out.SegmentAge = time.Duration(c.SegmentMs) * time.Millisecond
	}
	if c.Compact {
		out.Compact, out.MinDirtyRatio = true, c.MinDirtyRatio
		out.MinCompactionLag = time.Duration(min(c.MinCompactionLag, maxMs)) * time.Millisecond
		out.DeleteRetention = time.Duration(min(c.DeleteRetentionMs, maxMs/2)) * time.Millisecond // the time now is added to it
		if c.MaxCompactionLag <= maxMs {
			out.MaxCompactionLag = time.Duration(c.MaxCompactionLag) * time.Millisecond
		}
	}
	if c.Delete {
		// Storage takes 0 for no limit; here it is the strictest one.
		if c.RetentionBytes >= 0 {
			out.RetentionBytes = max(c.RetentionBytes, 1)
		}
		if c.RetentionMs >= 0 && c.RetentionMs <= maxMs {
			out.RetentionAge = time.Duration(max(c.RetentionMs, 1)) * time.Millisecond
		}
	}
	return out
}

// forEach calls f for 0 … n-1, at most `most` at a time, and waits for all.
func forEach(n, most int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, most) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				f(i)
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
