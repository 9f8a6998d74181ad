package replication

import (
	"sync"
	"sync/atomic"

	"highwater/replication/controller"
	"highwater/storage"
)

// Partition is this broker's replica of one partition.
type Partition struct {
	topic *topic
	num   int32
	log   *storage.Log
	// offline is why the log can't be opened; then nothing else here is used.
	offline error

	// mu guards leadership: an append holds it from the leadership check until its
	// offsets are given out (R7).
	mu          sync.Mutex
	leader      bool
	leaderEpoch int32
	minInSync   int   // min.insync.replicas as configured; what acks=-1 promises
	closed      error // set when the partition is gone for good

	hw atomic.Int64 // the high watermark; stored under water alone

	// water guards what follows it. Under it only Log.mu is taken; subs is a leaf.
	water    sync.Mutex
	progress progress
	waiters  waiters
	syncing  bool           // a syncer runs
	syncTo   storage.Staged // and is to make everything up to this durable
	ended    error          // closed, for those who wait

	subs subscribers
}

// open gives the partition its log, and its first high watermark: what was
// checkpointed, within the log (R34).
func (p *Partition) open(log *storage.Log) {
	p.log = log
	p.hw.Store(max(log.CheckpointedHighWatermark(), log.StartOffset()))
}

// lead makes this replica the leader in an epoch that is durable in its log
// already (R49). From here on it takes appends.
func (p *Partition) lead(m *topicMeta, self int32) {
	meta := &m.Partitions[p.num]
	p.mu.Lock()
	p.leader, p.leaderEpoch = true, meta.LeaderEpoch
	p.mu.Unlock()
	p.configure(m, self)
}

// resign stops appends until lead is called again.
func (p *Partition) resign() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leader = false
}

// configure takes over what metadata says of the ISR and its least size, and
// moves the high watermark if that allows it (R30, R52).
func (p *Partition) configure(m *topicMeta, self int32) {
	meta := &m.Partitions[p.num]
	p.mu.Lock()
	p.minInSync = m.config.MinInSyncReplicas
	p.mu.Unlock()
	p.water.Lock()
	p.progress.self, p.progress.isr = self, meta.ISR
	p.progress.minInSync = min(m.config.MinInSyncReplicas, len(meta.Replicas))
	p.water.Unlock()
	p.advance()
}

// advance moves the high watermark as far as it may go and wakes whoever waits
// for it. It is the log's onDurable.
func (p *Partition) advance() {
	if p.log == nil {
		return // the log is being opened; configure comes later
	}
	end := p.log.DurableEnd()
	p.water.Lock()
	p.progress.own = max(p.progress.own, end)
	before := p.hw.Load()
	hw := p.progress.highWatermark(before)
	if hw > before {
		p.hw.Store(hw)
		p.log.CheckpointHighWatermark(hw) // under the lock: an older one must not come later
		p.waiters.release(hw)
	}
	p.water.Unlock()
	if hw > before {
		p.subs.wake()
		p.topic.data.wake()
	}
}

// close ends the partition for good: appends are refused with err, those that
// wait get it as an unknown outcome, readers wake.
func (p *Partition) close(err error) {
	p.mu.Lock()
	p.closed = err
	p.mu.Unlock()
	p.water.Lock()
	p.ended = err
	p.waiters.fail(err)
	p.water.Unlock()
	p.subs.wake()
}

// gone turns an error of the log into the topic's end where that is the reason.
func (p *Partition) gone(err error) error {
	if err != nil && p.topic.deleted.Load() {
		return &controller.UnknownTopicError{Topic: p.topic.name()}
	}
	return err
}
