package replication

import (
	"errors"
	"sync"
	"sync/atomic"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/storage"
)

// Partition is this broker's replica of one partition.
//
// It has a role: leader, follower, or neither. Whoever has the broker's turn gives
// it roles (role.go); a leader also resigns by itself. What a role does to the log
// it begins under mu, where it is checked that the role still holds; a follower's
// fetcher, which goes on with I/O afterwards, is waited for by who takes the role
// away.
type Partition struct {
	topic *topic
	num   int32
	log   *storage.Log
	// offline is why the log can't be opened; then nothing else here is used.
	offline error

	// mu guards the role: an append holds it from the check of leadership until its
	// offsets are given out (R7).
	mu          sync.Mutex
	leader      bool          // takes appends, unless held
	held        bool          // leads, but gives no more offsets out: leadership is to move (R74)
	leaving     bool          // leads, and the controller is asked for another leader (S7)
	leaderEpoch int32         // the newest that this replica knows; of its role
	heard       int32         // the newest leader epoch that anybody spoke of
	minInSync   int           // min.insync.replicas; what acks=-1 promises
	fetcher     *fetcher      // whom it is assigned to as a follower, else nil
	applying    chan struct{} // the fetcher is at work on the log; closed when it is done; else nil
	saidLess    bool          // damaged, and the leader knows that it holds less (repair.go)
	mayCut      bool          // and the controller has taken it out of the ISR since
	closed      error         // set when the partition is gone for good

	hw atomic.Int64 // the high watermark; stored under water alone
	// leaderEnd is where the leader's log ended when this follower last heard of it.
	leaderEnd atomic.Int64

	// water guards what follows it. Under it only Log.mu is taken, and leaves.
	water    sync.Mutex
	lead     *replica.Leader // while it leads, else nil
	epochs   epochCache      // the log's, for the leader's rules
	isolated bool            // the leader can't vouch for being the leader (R61)
	toldEnd  int64           // the log end that the followers' polls were last woken for
	waiters  waiters
	cuts     int64          // counts what took records out of the log's end
	sent     int64          // no follower was ever sent a record from here on by this replica
	syncing  bool           // a syncer runs
	syncTo   storage.Staged // and is to make everything up to this durable
	ended    error          // closed, for those who wait

	start   int64   // where the leader's log is to begin, once the others' do; see logstart.go
	watches watches // the fetch sessions of followers
	subs    subscribers
}

// open gives the partition its log, and its first high watermark: what was
// checkpointed, within the log (R34).
func (p *Partition) open(log *storage.Log) {
	p.log = log
	p.hw.Store(max(log.CheckpointedHighWatermark(), log.StartOffset()))
}

// close ends the partition for good: appends are refused with err, those that
// wait get it as an unknown outcome, readers wake.
func (p *Partition) close(err error) {
	p.mu.Lock()
	p.closed = err
	f := p.fetcher
	p.leader, p.fetcher = false, nil
	p.mu.Unlock()
	p.water.Lock()
	p.lead, p.ended = nil, err
	p.waiters.failAbove(-1, p.endedFor)
	p.water.Unlock()
	if f != nil {
		f.remove(p)
	}
	p.watches.wake(true)
	p.subs.wake()
}

// endedFor is what who waits for a record is told once the partition is closed here.
// Call it under water.
func (p *Partition) endedFor(base int64) error {
	if errors.As(p.ended, new(*NotLeaderError)) { // it lives on, elsewhere
		return p.lost(base)
	}
	return p.ended
}

// gone turns an error of the log into the topic's end where that is the reason.
func (p *Partition) gone(err error) error {
	if err != nil && p.topic.deleted.Load() {
		return &controller.UnknownTopicError{Topic: p.topic.name()}
	}
	return err
}

// meta is what the newest metadata says of the partition. One that is added to a
// topic is there a moment before its metadata; nobody is known to lead it then.
func (p *Partition) meta() *controller.Partition {
	if all := p.topic.meta.Load().Partitions; int(p.num) < len(all) {
		return &all[p.num]
	}
	return &controller.Partition{Leader: controller.NoLeader}
}

// notLeader is the error for who takes this replica for the leader.
func (p *Partition) notLeader() *NotLeaderError {
	meta := p.meta()
	e := &NotLeaderError{Topic: p.topic.name(), Partition: p.num, Leader: meta.Leader, Epoch: meta.LeaderEpoch}
	if e.Leader == p.topic.b.cfg.NodeID {
		e.Leader = controller.NoLeader // it was, and who is now isn't known yet
	}
	return e
}

// notConfirmed is the error for who relies on a leader that can't vouch for itself.
func (p *Partition) notConfirmed() *NotConfirmedError {
	return &NotConfirmedError{Topic: p.topic.name(), Partition: p.num}
}

// leaderLost is the error for who waits for a record of which this replica, which
// led, can't tell any more.
func (p *Partition) leaderLost() *LeaderLostError {
	return &LeaderLostError{Topic: p.topic.name(), Partition: p.num, Leader: p.topic.b.cfg.NodeID, Cause: errSteppedDown}
}
