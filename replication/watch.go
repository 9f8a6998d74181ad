package replication

import (
	"sync"
	"sync/atomic"
)

// Signal is a wake-up shared by any number of partitions: C gets one token when
// at least one of them changed since the last token was taken.
type Signal struct {
	C chan struct{}
	// onWake, if set, is called instead of giving C a token. It may take leaf locks
	// alone.
	onWake func()
}

// NewSignal makes a Signal.
func NewSignal() *Signal { return &Signal{C: make(chan struct{}, 1)} }

func (s *Signal) wake() {
	if s.onWake != nil {
		s.onWake()
		return
	}
	select {
	case s.C <- struct{}{}:
	default:
	}
}

// subscribers is a set of signals. The zero value is an empty set and costs no
// allocation: most partitions have nobody waiting.
type subscribers struct {
	n   atomic.Int32 // size of set, to be read without mu
	mu  sync.Mutex   // leaf lock; guards set
	set map[*Signal]struct{}
}

// add has s woken until cancel is called.
func (u *subscribers) add(s *Signal) (cancel func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.set == nil {
		u.set = map[*Signal]struct{}{}
	}
	u.set[s] = struct{}{}
	u.n.Store(int32(len(u.set)))
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.set, s)
		u.n.Store(int32(len(u.set)))
		if len(u.set) == 0 {
			u.set = nil
		}
	}
}

// wake wakes all. What they wait for must have been stored, atomically, before:
// then whoever subscribes too late to be seen here sees that instead.
func (u *subscribers) wake() {
	if u.n.Load() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for s := range u.set {
		s.wake()
	}
}

// Subscribe has s woken at every change of what consumers may read of this
// replica, and at the topic's deletion, until the returned cancel is called.
// Subscribe first, read then, wait last: the other way round loses wake-ups.
func (p *Partition) Subscribe(s *Signal) (cancel func()) { return p.subs.add(s) }

// Subscribe has s woken when there may be more to read of a partition, whoever
// leads it, when another broker does from now on, and when the topic is deleted,
// until cancel is called, once. It may be woken for nothing. Errors:
// *controller.UnknownTopicError, *UnknownPartitionError.
func (b *Broker) Subscribe(name string, num int32, s *Signal) (cancel func(), err error) {
	t, err := b.localTopicWith(name, num)
	if err != nil {
		return nil, err
	}
	there := b.watcher.subscribe(t, num, s) // first: of a replica that comes now it tells
	here := func() {}
	if p := t.partition(num); p != nil && p.offline == nil {
		here = p.subs.add(s)
	}
	if t.deleted.Load() {
		s.wake()
	}
	return func() { here(); there() }, nil
}

// SubscribeTopic is Subscribe for all partitions of a topic, also those added
// later; their addition wakes, too. After a wake-up read again: a deleted topic's
// reads say so. cancel must be called once. Errors: *controller.UnknownTopicError.
func (b *Broker) SubscribeTopic(name string, s *Signal) (cancel func(), err error) {
	t, err := b.localTopic(name)
	if err != nil {
		return nil, err
	}
	data, changes, there := t.data.add(s), t.changes.add(s), b.watcher.subscribeTopic(t)
	if t.deleted.Load() {
		s.wake()
	}
	return func() { data(); changes(); there() }, nil
}
