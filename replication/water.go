package replication

import (
	"slices"
	"time"

	"highwater/replication/replica"
	"highwater/replication/wire"
	"highwater/storage"
)

// advance tells the leader's rules how far the log reaches, moves the high
// watermark as far as it may go and wakes whoever waits for it. It is the log's
// onDurable. On a follower it does nothing: its high watermark comes with fetches.
func (p *Partition) advance() {
	if p.log == nil {
		return // the log is being opened; a role comes later
	}
	written, durable := p.log.WrittenEnd(), p.log.DurableEnd()
	p.water.Lock()
	moved, grown := false, false
	if p.lead != nil {
		p.lead.Grown(max(written, durable), durable)
		grown, p.toldEnd = p.toldEnd != written, written
		moved = p.raise()
	}
	p.water.Unlock()
	if grown { // written in the background: nobody has told the followers yet
		p.watches.wake(true)
	}
	if moved {
		p.moved()
	}
}

// raise moves the leader's high watermark. Call it under water, and moved after it
// when it says so.
func (p *Partition) raise() bool {
	hw := p.lead.HighWatermark()
	if hw <= p.hw.Load() {
		return false
	}
	p.setHighWatermark(hw)
	return true
}

// setHighWatermark stores it. Call it under water: an older one must not be
// checkpointed later.
func (p *Partition) setHighWatermark(hw int64) {
	p.hw.Store(hw)
	p.log.CheckpointHighWatermark(hw)
	p.waiters.release(hw)
}

// moved wakes all who look at the high watermark.
func (p *Partition) moved() {
	p.subs.wake()
	p.topic.data.wake()
	p.watches.wake(false)
}

// wrote tells that the leader's log has grown: followers may have it while it is
// being fsynced.
func (p *Partition) wrote() {
	if p.watches.none() {
		return
	}
	written, durable := p.log.WrittenEnd(), p.log.DurableEnd()
	p.water.Lock()
	if p.lead != nil {
		p.lead.Grown(max(written, durable), durable)
		p.toldEnd = written
	}
	p.water.Unlock()
	p.watches.wake(true)
}

// followed moves a follower's high watermark, back too (R18), and answers those
// who have waited since this replica led: what they wait for is in the log that
// the leader of now vouches for up to here. It doesn't go below the log start (V24): that was below a high
// watermark that a new leader may not know yet.
func (p *Partition) followed(hw int64) {
	p.water.Lock()
	defer p.water.Unlock()
	hw = max(hw, p.log.StartOffset())
	if p.lead == nil && hw != p.hw.Load() {
		p.setHighWatermark(hw)
	}
}

// truncated answers those who wait for something that is no longer in the log.
func (p *Partition) truncated(end int64) {
	p.water.Lock()
	defer p.water.Unlock()
	p.cut()
	p.waiters.failAbove(end, p.lost)
	if p.hw.Load() > end {
		p.setHighWatermark(end)
	}
}

// resetTo throws the log away and begins it at offset. Where that fails on the way the log may have gone
// nevertheless, and the high watermark must not be above its end (V24).
func (p *Partition) resetTo(offset int64) error {
	err := p.log.ResetTo(offset)
	if start := p.log.StartOffset(); err == nil || start == p.log.WrittenEnd() {
		p.restarted(start)
	}
	return err
}

// restarted answers all who wait: the log was thrown away and begins at start.
func (p *Partition) restarted(start int64) {
	p.water.Lock()
	defer p.water.Unlock()
	p.cut()
	p.waiters.failAbove(-1, p.lost)
	p.setHighWatermark(start)
}

// cut forgets what was known of a log that is shorter now. What was to be synced is
// gone: left where it is, it would hide from the syncer all appends below it that
// come when this replica leads again. Call it under water.
func (p *Partition) cut() {
	p.cuts++
	p.syncTo = storage.Staged{}
	p.epochs.forget()
}

// lost says what became of a record that was cut off: it is nowhere when no
// follower can have it, and may be sent again; else another replica may lead with it
// one day. Call it under water.
func (p *Partition) lost(base int64) error {
	if base >= p.sent {
		return p.notLeader()
	}
	return p.leaderLost()
}

// cutCount is cuts, to be compared with later.
func (p *Partition) cutCount() int64 {
	p.water.Lock()
	defer p.water.Unlock()
	return p.cuts
}

// sending notes that a follower is about to be sent records up to end, if this
// replica leads in just this epoch.
func (p *Partition) sending(epoch int32, end int64) bool {
	p.water.Lock()
	defer p.water.Unlock()
	if p.lead == nil || p.lead.Meta().LeaderEpoch != epoch {
		return false
	}
	p.sent = max(p.sent, end)
	return true
}

// epochCache holds the log's leader epochs as the rules want them. They change
// with roles, log starts and truncations, far less often than followers fetch.
type epochCache struct {
	list  []wire.EpochStart
	start int64 // the log start that they belong to
	known bool
}

func (c *epochCache) forget() { *c = epochCache{} }

// of returns the log's epochs; constant. The log's owner calls forget when the
// log is cut or an epoch begins.
func (c *epochCache) of(log *storage.Log, start int64) []wire.EpochStart {
	if !c.known || c.start != start {
		*c = epochCache{list: epochsOf(log), start: start, known: true}
	}
	return c.list
}

// epochsOf is the log's leader epochs in the form that the rules want.
func epochsOf(log *storage.Log) []wire.EpochStart {
	entries := log.Epochs()
	out := make([]wire.EpochStart, len(entries))
	for i, e := range entries {
		out[i] = wire.EpochStart(e)
	}
	return out
}

// local is the leader's own log for its rules. Call it under water.
func (p *Partition) local() replica.Local {
	l := replica.Local{Start: p.log.StartOffset(), Durable: p.log.DurableEnd(), Written: p.log.WrittenEnd()}
	l.Written = max(l.Written, l.Durable)
	l.Epochs = p.epochs.of(p.log, l.Start)
	return l
}

// confirmed tells whether contact with the in-sync replicas proves that this
// replica still leads (R60).
func (p *Partition) confirmed(now time.Time, within time.Duration) bool {
	p.water.Lock()
	defer p.water.Unlock()
	return p.lead != nil && p.lead.Confirmed(now, within)
}

// inSync is the size of the ISR that the leader knows to be committed, and
// whether this replica leads.
func (p *Partition) inSync() (int, bool) {
	p.water.Lock()
	defer p.water.Unlock()
	if p.lead == nil {
		return 0, false
	}
	return len(p.lead.Meta().ISR), true
}

// waiter waits for the high watermark to reach end.
type waiter struct {
	base int64 // of what was appended
	end  int64
	done chan error // gets one value: nil, or why it will not be known
}

// waiters are ordered by end.
type waiters []*waiter

// add puts w in its place: mostly the last one.
func (ws *waiters) add(w *waiter) {
	i := len(*ws)
	for i > 0 && (*ws)[i-1].end > w.end {
		i--
	}
	*ws = slices.Insert(*ws, i, w)
}

// release answers all whose end is at or below hw.
func (ws *waiters) release(hw int64) {
	n := 0
	for n < len(*ws) && (*ws)[n].end <= hw {
		(*ws)[n].done <- nil
		n++
	}
	if n == len(*ws) {
		*ws = (*ws)[:0]
		if cap(*ws) > maxIdleWaiters {
			*ws = nil
		}
		return
	}
	*ws = slices.Delete(*ws, 0, n)
}

// maxIdleWaiters is the capacity that an idle partition may keep for its next waiters.
const maxIdleWaiters = 16

// fail answers all with err.
func (ws *waiters) fail(err error) {
	for _, w := range *ws {
		w.done <- err
	}
	*ws = nil
}

// failAbove answers those whose end is above end with the error for their base.
func (ws *waiters) failAbove(end int64, err func(base int64) error) {
	n := len(*ws)
	for n > 0 && (*ws)[n-1].end > end {
		n--
		(*ws)[n].done <- err((*ws)[n].base)
	}
	*ws = slices.Delete(*ws, n, len(*ws))
}
