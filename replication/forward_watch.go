package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// watcher tells this broker's readers of news in partitions that other brokers
// lead. However many readers there are, each leader gets one long-poll for all
// partitions that any of them waits for (leaderWatch).
//
// A partition that is watched has a place, the leader that metadata names. When
// metadata names another it is taken there and its readers are woken: whatever
// happened in between, they look. The leader, too, names each partition once after
// it was added. So nothing that came between two leaders, two connections or two
// lives of a broker is missed. When this broker is the next leader, its replica may
// have come after the readers, who hear of its news by way of the watcher then.
type watcher struct {
	b    *Broker
	news chan struct{} // one token when a leaderWatch isn't running that should

	mu      sync.Mutex // guards what follows, and all of watched and leaderWatch but subs
	topics  map[uuid.UUID]*watchedTopic
	leaders map[int32]*leaderWatch
}

// watchedTopic is a topic with partitions that readers wait for.
type watchedTopic struct {
	topic *topic
	whole int // subscriptions to all of its partitions
	parts map[int32]*watched
}

// watched is a partition that readers wait for, or did a moment ago.
type watched struct {
	wire.TopicPartition
	topic *topic
	refs  int       // subscriptions; those to the whole topic count as one
	whole bool      // and that one is among them
	idle  time.Time // since when there are none
	place int32     // the leader that is asked; NoLeader: nobody, or this broker
	here  func()    // ends the subscription to a replica that arrived; nil: there is none
	subs  subscribers
}

// wake has all who wait for the partition look again.
func (p *watched) wake() {
	p.subs.wake()
	p.topic.data.wake()
}

func newWatcher(b *Broker) *watcher {
	return &watcher{b: b, news: make(chan struct{}, 1), topics: map[uuid.UUID]*watchedTopic{}, leaders: map[int32]*leaderWatch{}}
}

// subscribe has s woken on news of one partition.
func (w *watcher) subscribe(t *topic, num int32, s *Signal) (cancel func()) {
	if w.b.cfg.Forward == nil {
		return func() {}
	}
	w.mu.Lock()
	p := w.want(w.topic(t), num)
	w.mu.Unlock()
	off := p.subs.add(s)
	return func() {
		off()
		w.mu.Lock()
		defer w.mu.Unlock()
		p.unwant()
	}
}

// subscribeTopic has the topic's data subscribers woken on news of any partition.
func (w *watcher) subscribeTopic(t *topic) (cancel func()) {
	if w.b.cfg.Forward == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.topic(t)
	wt.whole++
	w.wantAll(wt, len(t.meta.Load().Partitions))
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if wt.whole--; wt.whole == 0 {
			for _, p := range wt.parts {
				if p.whole {
					p.whole = false
					p.unwant()
				}
			}
		}
	}
}

// arrived has those who wait for a partition woken by news of a replica that this
// broker has from now on: it wasn't there when they subscribed.
func (w *watcher) arrived(replica *Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wt := w.topics[replica.topic.meta.Load().ID]
	if wt == nil || wt.parts[replica.num] == nil {
		return
	}
	p := wt.parts[replica.num]
	p.leaveHere()
	p.here = replica.subs.add(&Signal{onWake: p.subs.wake})
	p.subs.wake()
}

// leaveHere forgets the replica that arrived. Call it under mu.
func (p *watched) leaveHere() {
	if p.here != nil {
		p.here()
		p.here = nil
	}
}

// topic finds or makes a topic's entry. Call it under mu.
func (w *watcher) topic(t *topic) *watchedTopic {
	id := t.meta.Load().ID
	wt := w.topics[id]
	if wt == nil {
		wt = &watchedTopic{topic: t, parts: map[int32]*watched{}}
		w.topics[id] = wt
	}
	return wt
}

// wantAll counts the subscriptions to the whole topic on its n partitions. Call it
// under mu.
func (w *watcher) wantAll(wt *watchedTopic, n int) {
	for num := range int32(n) {
		if p := wt.parts[num]; p == nil || !p.whole {
			w.want(wt, num).whole = true
		}
	}
}

// want counts a subscription. Call it under mu.
func (w *watcher) want(wt *watchedTopic, num int32) *watched {
	p := wt.parts[num]
	if p == nil {
		p = &watched{TopicPartition: wire.TopicPartition{Topic: wt.topic.meta.Load().ID, Partition: num}, topic: wt.topic, place: controller.NoLeader}
		wt.parts[num] = p
		w.settle(w.b.State(), p)
	}
	p.refs++
	return p
}

// unwant counts a subscription off. The partition stays watched for a while: long
// polls come one after the other. Call it under mu.
func (p *watched) unwant() {
	if p.refs--; p.refs == 0 {
		p.idle = time.Now()
	}
}

// settle takes a partition to the leader that metadata names. moved: it is another
// one than before. Call it under mu.
func (w *watcher) settle(s *controller.State, p *watched) (moved bool) {
	leader := int32(controller.NoLeader)
	if t, ok := s.TopicByID(p.Topic); ok && int(p.Partition) < len(t.Partitions) {
		leader = t.Partitions[p.Partition].Leader
	}
	if leader == w.b.cfg.NodeID {
		leader = controller.NoLeader
	}
	if leader == p.place {
		return false
	}
	if l := w.leaders[p.place]; l != nil {
		l.drop(p.TopicPartition)
	}
	p.place = leader
	if leader == controller.NoLeader {
		return true
	}
	l := w.leaders[leader]
	if l == nil {
		l = &leaderWatch{w: w, broker: leader, parts: map[wire.TopicPartition]*watched{}, add: map[wire.TopicPartition]struct{}{},
			remove: map[wire.TopicPartition]struct{}{}, kick: make(chan struct{}, 1)}
		w.leaders[leader] = l
	}
	l.take(p)
	return true
}

// run follows metadata and keeps a long-poll at each leader that is to be asked,
// until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var polls sync.WaitGroup
	defer polls.Wait()
	cursor := w.b.cfg.Controller.Watch()
	sweep := time.NewTicker(watchSweep)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-sweep.C:
			w.sweep(now)
		case <-w.news:
		case <-cursor.Ready():
			s, ids, jump := cursor.Next()
			w.b.fates.follow(s)
			w.follow(ids, jump)
		}
		w.mu.Lock()
		for _, l := range w.leaders {
			if !l.running && len(l.parts) > 0 {
				l.running = true
				polls.Go(func() { l.run(ctx) })
			}
		}
		w.mu.Unlock()
	}
}

// follow takes the partitions of changed topics to their new leaders.
func (w *watcher) follow(ids []uuid.UUID, jump bool) {
	s := w.b.State()
	var wake []*watched
	w.mu.Lock()
	if jump {
		ids = ids[:0:0]
		for id := range w.topics {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		wt := w.topics[id]
		if wt == nil {
			continue
		}
		t, ok := s.TopicByID(id)
		switch {
		case !ok:
			delete(w.topics, id) // its readers hold what they count on
		case wt.whole > 0:
			w.wantAll(wt, len(t.Partitions))
		}
		for _, p := range wt.parts {
			if moved := w.settle(s, p); moved || !ok {
				wake = append(wake, p)
			}
		}
	}
	w.mu.Unlock()
	for _, p := range wake {
		p.wake()
	}
}

// sweep forgets partitions that nobody has waited for lately.
func (w *watcher) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, wt := range w.topics {
		for num, p := range wt.parts {
			if p.refs > 0 || now.Sub(p.idle) < watchLinger {
				continue
			}
			delete(wt.parts, num)
			p.leaveHere()
			if l := w.leaders[p.place]; l != nil {
				l.drop(p.TopicPartition)
			}
		}
		if len(wt.parts) == 0 && wt.whole == 0 {
			delete(w.topics, id)
		}
	}
}

const (
	// watchLinger is how long a partition is watched after its last reader left.
	watchLinger = 10 * time.Second
	// watchSweep is how often idle partitions are looked for.
	watchSweep = 5 * time.Second
	// watchAgain is when partitions are offered again that a leader didn't know.
	watchAgain = 500 * time.Millisecond
	// watchWait is how long a leader holds a long-poll.
	watchWait = 20 * time.Second
	// A leader that doesn't answer is asked again after such a pause.
	firstWatchRetry, lastWatchRetry = 50 * time.Millisecond, time.Second
)

// leaderWatch is the one long-poll at one leader. Its fields are guarded by
// watcher.mu; what a session has told the leader is its goroutine's own.
type leaderWatch struct {
	w       *watcher
	broker  int32
	parts   map[wire.TopicPartition]*watched
	add     map[wire.TopicPartition]struct{} // in parts, and the leader isn't told yet
	remove  map[wire.TopicPartition]struct{} // the other way round
	kick    chan struct{}                    // one token when add or remove grew
	running bool
}

// take adds a partition. Call it under mu, as drop.
func (l *leaderWatch) take(p *watched) {
	l.parts[p.TopicPartition] = p
	l.add[p.TopicPartition] = struct{}{}
	delete(l.remove, p.TopicPartition)
	l.signal()
}

func (l *leaderWatch) drop(tp wire.TopicPartition) {
	delete(l.parts, tp)
	delete(l.add, tp)
	l.remove[tp] = struct{}{}
	l.signal()
}

func (l *leaderWatch) signal() {
	wake := l.kick
	if !l.running {
		wake = l.w.news
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run asks the leader, in one session after the other, as long as there is
// something to ask for.
func (l *leaderWatch) run(ctx context.Context) {
	pause := firstWatchRetry
	for {
		began := time.Now()
		err := l.session(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastWatchRetry {
			pause = firstWatchRetry
		}
		l.w.b.cfg.Logger.Debug().Err(err).Int32("broker", l.broker).Msg("watch of another broker's partitions was cut")
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, lastWatchRetry)
	}
}

// session is as long as the leader remembers what it was told. nil: there is
// nothing left to watch there, and run must end.
func (l *leaderWatch) session(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var poll chan polled // nil: none is under way
	defer func() {
		cancel()
		if poll != nil {
			<-poll
		}
	}()
	again := time.NewTimer(watchAgain)
	defer again.Stop()
	id, first := uuid.New(), true
	for {
		add, remove, over := l.changes(first)
		if over {
			return nil
		}
		if first || len(add)+len(remove) > 0 {
			answer, err := l.ask(ctx, &wire.WatchRequest{Session: id, First: first, Add: add, Remove: remove})
			if err != nil {
				return err
			}
			first = false
			if l.again(answer.Unknown) {
				again.Reset(watchAgain)
			}
		}
		if poll == nil {
			poll = make(chan polled, 1)
			go func() {
				answer, err := l.ask(ctx, &wire.WatchRequest{Session: id, MaxWaitMs: watchWait.Milliseconds()})
				poll <- polled{answer, err}
			}()
		}
		select {
		case res := <-poll:
			poll = nil
			if res.err != nil {
				return res.err
			}
			l.wake(res.answer.Changed)
		case <-l.kick:
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// polled is what came of a long-poll.
type polled struct {
	answer *wire.WatchAnswer
	err    error
}

// changes takes what the leader must be told; all of it at a session's beginning.
// over: nothing is left, and the goroutine is taken for ended.
func (l *leaderWatch) changes(all bool) (add, remove []wire.TopicPartition, over bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if len(l.parts) == 0 {
		l.running = false
		clear(l.add)
		clear(l.remove)
		return nil, nil, true
	}
	if all {
		for tp := range l.parts {
			add = append(add, tp)
		}
	} else {
		for tp := range l.add {
			add = append(add, tp)
		}
		for tp := range l.remove {
			remove = append(remove, tp)
		}
	}
	clear(l.add)
	clear(l.remove)
	return add, remove, false
}

// again keeps, to be offered once more, partitions that the leader doesn't have
// yet, and tells whether there are any.
func (l *leaderWatch) again(unknown []wire.TopicPartition) (any bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, tp := range unknown {
		if l.parts[tp] != nil {
			l.add[tp] = struct{}{}
			any = true
		}
	}
	return any
}

func (l *leaderWatch) wake(changed []wire.TopicPartition) {
	parts := make([]*watched, 0, len(changed))
	l.w.mu.Lock()
	for _, tp := range changed {
		if p := l.parts[tp]; p != nil {
			parts = append(parts, p)
		}
	}
	l.w.mu.Unlock()
	for _, p := range parts {
		p.wake()
	}
}

func (l *leaderWatch) ask(ctx context.Context, req *wire.WatchRequest) (*wire.WatchAnswer, error) {
	req.Version = wire.Version
	leader := l.w.b.State().Brokers[l.broker]
	if leader == nil {
		return nil, errNotRegistered
	}
	answer := &wire.JSON[wire.WatchAnswer]{}
	wait := time.Duration(req.MaxWaitMs) * time.Millisecond
	if err := l.w.b.call(ctx, leader.URL, wire.PathWatch, wait, &wire.JSON[wire.WatchRequest]{V: req}, answer, nil); err != nil {
		return nil, err
	}
	if answer.V.Code != wire.OK {
		return nil, fmt.Errorf("replication: watch: %s", answer.V.Code)
	}
	return answer.V, nil
}

var errNotRegistered = errors.New("replication: the leader isn't registered")
