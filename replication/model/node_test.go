package model

import (
	"slices"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
)

// disk is a data directory: it outlives processes.
type disk struct {
	id    uuid.UUID
	clean int64 // the broker epoch that ended cleanly here; 0: none (R71)
	// materialised is the newest metadata whose partitions this directory has logs of.
	materialised uint64
	logs         []*memLog // by partition; nil: none
}

// node is a broker's process.
type node struct {
	w           *world
	id          int32
	up          bool
	life        int // how often it was started: messages to a former life are lost
	incarnation uuid.UUID
	previous    int64 // clean marker found at the start
	held        []int32
	epoch       int64 // of its registration; 0: not registered
	draining    bool
	applied     uint64 // metadata that it has
	disk        *disk
	parts       []*part
	sessions    *replica.Sessions
	serving     map[int32]*serving // by replica: the leader's part of a fetch session
	fetchers    map[int32]*fetcher // by leader
}

// part is a partition on a node.
type part struct {
	n        *node
	num      int32
	replica  bool  // by the metadata that it has
	epoch    int32 // leader epoch; -1: none yet
	leader   int32
	lead     *replica.Leader // nil: doesn't lead
	leadHW   int64           // as the checker saw it last in this epoch
	resigned bool            // stopped leading before metadata said so (R63)
	log      *memLog
	water    int64 // the leader's high watermark and log start, to be applied after the fsync (R18)
	start    int64
	waiters  []waiter
	proposal *replica.Change // sent, not answered
}

// waiter is a produce with acks=-1 that waits.
type waiter struct{ offset, value int64 }

func newNode(w *world, id int32) *node {
	return &node{w: w, id: id, disk: &disk{id: w.uuid(), logs: make([]*memLog, w.cfg.partitions)}}
}

// start begins a life: logs stand, nothing is registered (R66).
func (n *node) start() {
	n.up, n.life, n.incarnation = true, n.life+1, n.w.uuid()
	n.epoch, n.draining = 0, false
	n.previous, n.disk.clean = n.disk.clean, 0
	n.sessions = replica.NewSessions(n.w.cfg.mutation)
	n.serving, n.fetchers = map[int32]*serving{}, map[int32]*fetcher{}
	n.parts = nil
	for i := range n.w.cfg.partitions {
		n.parts = append(n.parts, &part{n: n, num: int32(i), epoch: -1, leader: controller.NoLeader, log: n.disk.logs[i]})
	}
	n.w.tracef("broker %d starts, incarnation %v", n.id, n.incarnation[7])
}

func (n *node) state() *controller.State { return n.w.states[n.applied] }

// register asks for a broker epoch (R66). What the directory lacks, or has lost
// some of, isn't held; what was made after the directory last looked is (R73).
func (n *node) register() {
	data := controller.Registration{Directory: n.disk.id, PreviousEpoch: n.previous, Durable: n.w.cfg.durable, Held: map[uuid.UUID][]int32{}}
	n.held = nil
	if t := n.w.topics[n.applied]; t != nil {
		for i := range t.Partitions {
			l := n.disk.logs[i]
			young := l == nil && n.disk.materialised < n.w.created() && n.w.nodes[n.id-1] == n && n.disk.materialised > 0
			if l != nil && !l.lossy || young {
				n.held = append(n.held, int32(i))
			}
		}
		data.Held[n.w.topic] = n.held
	}
	life := n.life
	incarnation := n.incarnation
	n.w.send(&message{kind: "register", from: n.id, repeat: true, deliver: func() {
		old := n.w.state().Brokers[n.id]
		cmd := &controller.RegisterBroker{ID: n.id, Incarnation: incarnation, Data: data}
		if old != nil && (old.Fenced || !n.w.runs(old.Incarnation)) {
			cmd.Replaces = old.Epoch // R67: known to be dead
		}
		b, ok := n.w.apply(cmd).(*controller.Broker)
		if !ok {
			n.w.saw("duplicate registration refused")
			return
		}
		index := n.w.index()
		n.w.send(&message{kind: "registered", to: n.id, repeat: true, deliver: func() {
			if n.up && n.life == life && n.epoch == 0 {
				n.epoch = b.Epoch
				n.w.check.newEpoch(n)
				n.advance(index)
				for _, l := range n.disk.logs {
					if l != nil {
						l.lossy = false // told
					}
				}
			}
		}})
	}})
}

// created is the index at which the topic was made.
func (w *world) created() uint64 {
	for i, t := range w.topics {
		if t != nil {
			return uint64(i)
		}
	}
	return w.index() + 1
}

func (w *world) runs(incarnation uuid.UUID) bool {
	return slices.ContainsFunc(slices.Concat(w.nodes, w.zombies), func(n *node) bool { return n.up && n.incarnation == incarnation })
}

// heartbeat tells the controller that the broker lives, and wants to lead, or to
// shut down (R66, R68, R74).
func (n *node) heartbeat() {
	if n.epoch == 0 {
		return
	}
	epoch, applied, draining, life := n.epoch, n.applied, n.draining, n.life
	n.w.send(&message{kind: "heartbeat", from: n.id, repeat: true, deliver: func() {
		b := n.w.state().Brokers[n.id]
		switch {
		case b.Epoch != epoch:
			n.w.send(&message{kind: "stale", to: n.id, deliver: func() {
				if n.up && n.life == life {
					n.w.saw("stale broker exits")
					n.crash()
				}
			}})
		case draining && !b.Draining:
			n.w.apply(&controller.SetBroker{ID: n.id, Epoch: epoch, Fenced: b.Fenced, Draining: true})
		case b.Fenced && !draining && applied >= uint64(b.Epoch):
			n.w.apply(&controller.SetBroker{ID: n.id, Epoch: epoch, Draining: b.Draining})
		}
	}})
}

// crash ends the process. What wasn't fsynced may be gone; where fsync isn't
// asked for, that is anything.
func (n *node) crash() {
	n.w.tracef("broker %d crashes", n.id)
	n.up = false
	for _, l := range n.disk.logs {
		if l == nil {
			continue
		}
		if !n.w.cfg.durable && n.w.rng.IntN(2) == 0 {
			l.truncate(l.end() - n.w.rng.Int64N(min(int64(len(l.recs)), 6)+1))
			n.w.saw("unclean restart without fsync")
		}
		l.crash(n.w.rng)
	}
	n.forget()
}

// stop ends the process in order (R71).
func (n *node) stop() {
	n.w.tracef("broker %d stops", n.id)
	n.up = false
	for _, l := range n.disk.logs {
		if l != nil {
			l.sync()
			l.hwSaved = l.hw
		}
	}
	n.disk.clean = n.epoch
	n.forget()
	n.w.saw("clean stop")
}

func (n *node) forget() {
	n.parts, n.sessions, n.serving, n.fetchers = nil, nil, nil, nil
	n.epoch = 0
}

// advance applies metadata up to an index, in one go (R6).
func (n *node) advance(index uint64) {
	if index <= n.applied && index != n.w.index() {
		return
	}
	n.applied = max(n.applied, index)
	if n.epoch == 0 {
		return // R66: no role before there is a broker epoch
	}
	s := n.state()
	b := s.Brokers[n.id]
	switch {
	case b.Epoch > n.epoch:
		n.w.saw("stale broker exits")
		n.crash() // R68
		return
	case b.Epoch < n.epoch:
		return // metadata of before the registration
	}
	for id, other := range s.Brokers {
		n.sessions.Saw(id, other.Epoch)
	}
	if t := n.w.topics[n.applied]; t != nil {
		for i := range t.Partitions {
			n.parts[i].follow(t, &t.Partitions[i])
		}
	}
	n.disk.materialised = n.applied
}

func metaOf(t *controller.Topic, p *controller.Partition) replica.Meta {
	return replica.Meta{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, Replicas: p.Replicas, ISR: p.ISR,
		MinInSync: t.EffectiveMinInSync(), Unclean: t.Configs[controller.ConfigUncleanElection] == "true", Recovering: p.Recovering}
}

// follow takes the role that the metadata gives.
func (p *part) follow(t *controller.Topic, m *controller.Partition) {
	n := p.n
	p.replica = slices.Contains(m.Replicas, n.id)
	if !p.replica {
		p.drop()
		p.epoch, p.leader = -1, controller.NoLeader
		return
	}
	if p.log == nil {
		p.log = &memLog{}
		n.disk.logs[p.num] = p.log
	}
	if m.LeaderEpoch < p.epoch {
		n.w.fail("V18: broker %d goes back from leader epoch %d to %d", n.id, p.epoch, m.LeaderEpoch)
	}
	if m.LeaderEpoch > p.epoch {
		if p.epoch >= 0 && m.LeaderEpoch > p.epoch+1 {
			n.w.saw("leader epoch skipped") // R38
		}
		if p.lead != nil && p.lead.Pending() != nil {
			n.w.saw("change in flight at failover")
		}
		p.epoch, p.leader, p.lead, p.resigned, p.proposal = m.LeaderEpoch, m.Leader, nil, false, nil
		if m.Leader == n.id {
			p.begin(t, m)
		}
	} else if p.lead != nil {
		p.lead.SetMeta(metaOf(t, m))
		p.advanceHW()
	}
}

// begin starts leading (R49).
func (p *part) begin(t *controller.Topic, m *controller.Partition) {
	n := p.n
	p.settle()
	p.log.sync()
	p.log.note(m.LeaderEpoch)
	p.lead = replica.NewLeader(n.id, metaOf(t, m), p.log.end(), p.log.hw, n.w.now, replica.Options{
		LagMax: lagMax, Mutation: n.w.cfg.mutation,
		Alive: func(broker int32) (int64, bool) { return n.state().Eligible(broker) },
	})
	p.leadHW = p.log.hw
	n.w.tracef("broker %d leads p%d in epoch %d from %d, hw %d", n.id, p.num, m.LeaderEpoch, p.log.end(), p.log.hw)
	n.w.check.leads(p)
	p.advanceHW()
	for _, id := range m.Replicas { // R64
		if id != n.id {
			epoch := m.LeaderEpoch
			n.w.send(&message{kind: "notice", from: n.id, to: id, repeat: true, deliver: func() {
				if other := n.w.at(id); other.up && other.epoch != 0 && other.parts[p.num].epoch < epoch {
					other.parts[p.num].resign("notice stopped a leader")
				}
			}})
		}
	}
}

// resign stops leading before the metadata says so (R63).
func (p *part) resign(event string) {
	if p.lead == nil {
		return
	}
	p.n.w.tracef("broker %d resigns p%d epoch %d", p.n.id, p.num, p.epoch)
	p.n.w.saw(event)
	p.lead, p.resigned, p.proposal = nil, true, nil
}

// drop removes the replica (R83).
func (p *part) drop() {
	if p.log != nil {
		p.n.w.saw("replica removed")
	}
	p.log, p.lead, p.waiters, p.proposal = nil, nil, nil, nil
	p.n.disk.logs[p.num] = nil
}

func (p *part) follows(leader int32) bool {
	return p.replica && p.lead == nil && !p.resigned && p.leader == leader
}

// produce is a client's append (R7, R54).
func (p *part) produce(acksAll bool) {
	w := p.n.w
	w.values++
	m := p.lead.Meta()
	if acksAll && len(m.ISR) < m.MinInSync {
		w.saw("not enough replicas")
		w.check.parts[p.num].refused[w.values] = true
		return
	}
	r := record{epoch: p.epoch, value: w.values}
	p.log.append(r)
	w.tracef("broker %d appends %v to p%d at %d", p.n.id, r, p.num, p.log.end()-1)
	w.check.epochs(p.log)
	if acksAll {
		p.waiters = append(p.waiters, waiter{offset: p.log.end() - 1, value: r.value})
	}
	if !w.cfg.durable {
		p.log.sync()
	}
	p.lead.Grown(p.log.end(), p.log.durable)
	p.advanceHW()
}

// fsync makes the leader's log durable (R25, R30).
func (p *part) fsync() {
	p.log.sync()
	p.lead.Grown(p.log.end(), p.log.durable)
	p.advanceHW()
}

// advanceHW takes the leader's high watermark and wakes who waits for it (R24, R30).
func (p *part) advanceHW() {
	hw := p.lead.HighWatermark()
	p.n.w.check.leaderHW(p, hw)
	p.log.hw = hw
	if m := p.lead.Meta(); len(m.ISR) < m.MinInSync && len(p.waiters) > 0 { // R55
		p.n.w.saw("not enough replicas after append")
		p.waiters = nil
	}
	p.wake()
}

// wake answers the produces that the high watermark has passed.
func (p *part) wake() {
	p.waiters = slices.DeleteFunc(p.waiters, func(a waiter) bool {
		if a.offset >= p.log.hw {
			return false
		}
		if p.lead == nil {
			p.n.w.saw("acknowledged after stepping down")
		}
		p.n.w.check.acked(p, a)
		return true
	})
}

// settle finishes what an answer brought: fsync, then the high watermark, then
// the log start (R18).
func (p *part) settle() {
	if p.log == nil {
		return
	}
	p.log.sync()
	if p.water < 0 {
		return
	}
	p.log.hw = max(min(p.water, p.log.end()), p.log.start)
	p.log.advanceStart(min(p.start, p.log.hw))
	p.water = -1
	p.n.w.check.followerHW(p)
	p.wake()
}

// change sends what ISR change is due (R41-R43).
func (n *node) change(p *part) {
	c := p.lead.Resend()
	if c == nil {
		c = p.lead.Change(n.w.now)
	} else {
		n.w.saw("proposal sent again")
	}
	p.advanceHW() // time may have ended a wait for a joining replica (R29)
	if c == nil {
		return
	}
	p.proposal = c
	if len(c.ISR) < len(p.lead.Meta().ISR) {
		n.w.saw("shrink proposed")
	} else if len(c.ISR) > len(p.lead.Meta().ISR) {
		n.w.saw("expansion proposed")
	} else if !c.Recovered {
		n.w.saw("refused proposal withdrawn")
	}
	n.w.tracef("broker %d proposes for p%d: %+v", n.id, p.num, *c)
	cmd := &controller.AlterPartitions{Broker: n.id, Epoch: n.epoch, Changes: []wire.AlterPartition{{Topic: n.w.topic, Partition: p.num,
		LeaderEpoch: c.LeaderEpoch, PartitionEpoch: c.PartitionEpoch, ISR: c.ISR, Recovered: c.Recovered}}}
	life, lead := n.life, p.lead
	n.w.send(&message{kind: "alter", from: n.id, repeat: true, deliver: func() {
		code := wire.CodeStaleBrokerEpoch
		if results, ok := n.w.apply(cmd).([]wire.AlterResult); ok {
			code = results[0].Code
		}
		index := n.w.index()
		n.w.send(&message{kind: "altered", to: n.id, repeat: true, deliver: func() {
			if n.up && n.life == life && p.lead == lead {
				n.altered(p, c, code, index)
			}
		}})
	}})
}

// altered takes the controller's answer (R45, R46).
func (n *node) altered(p *part, c *replica.Change, code wire.Code, index uint64) {
	n.w.tracef("broker %d hears %q about p%d %+v", n.id, code, p.num, *c)
	switch code {
	case wire.OK:
		t := n.w.topics[max(index, n.applied)]
		p.lead.Decided(c, replica.Committed, metaOf(t, &t.Partitions[p.num]))
	case wire.CodeIneligibleReplica:
		n.w.saw("proposal refused")
		p.lead.Decided(c, replica.Rejected, replica.Meta{})
	default:
		n.w.saw("proposal without a clear answer")
		p.lead.Decided(c, replica.Ambiguous, replica.Meta{})
	}
	if c == p.proposal {
		p.proposal = nil
	}
	p.advanceHW()
}
