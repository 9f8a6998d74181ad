package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// runConfig draws a run's configuration from its seed.
func runConfig(seed uint64, rng *rand.Rand) config {
	cfg := config{brokers: 3, factor: 3, partitions: 1, minInSync: 2, durable: rng.IntN(4) > 0, faults: []int{2, 10, 30}[rng.IntN(3)], steps: 3000}
	switch rng.IntN(8) {
	case 0:
		cfg.minInSync = 1
	case 1:
		cfg.brokers, cfg.factor, cfg.minInSync = 5, 5, 3
	case 2:
		cfg.brokers, cfg.reassign = 5, true
	case 3:
		cfg.factor = 2
	case 4:
		cfg.minChanges = true
	case 5:
		cfg.brokers, cfg.factor = 4, 4
	}
	if rng.IntN(3) == 0 {
		cfg.partitions = 2
	}
	cfg.unclean = seed%8 == 7
	cfg.slow = []int{0, 20, 200}[rng.IntN(3)]
	cfg.patience = []int{12, 100, 1000}[rng.IntN(3)]
	cfg.tick = []int{2, 20, 20, 60}[rng.IntN(4)]
	cfg.churn = []int{0, 0, 5, 20}[rng.IntN(4)]
	return cfg
}

// run is one seed: random steps, then all faults end and everything must come
// back. It returns what happened, and the violation that ended it, if one did.
func run(seed uint64, mutation func(*config), tracing bool) (w *world, found *violation) {
	rng := rand.New(rand.NewPCG(seed, 0x6869676877617465))
	cfg := runConfig(seed, rng)
	if mutation != nil {
		mutation(&cfg)
	}
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(violation)
			if !ok {
				panic(fmt.Sprintf("seed %d: %v", seed, r))
			}
			found = &v
		}
	}()
	w = &world{}
	w = newWorld(cfg, rng)
	w.tracing = tracing
	for w.stepCount < cfg.steps {
		w.step()
		w.check.step()
	}
	if cfg.mutation == 0 {
		w.heal()
	}
	return w, nil
}

// step does one thing.
func (w *world) step() {
	w.stepCount++
	w.now = w.now.Add(time.Duration(w.rng.IntN(w.cfg.tick)) * time.Millisecond)
	r := w.rng.IntN(1000)
	switch {
	case r < w.cfg.faults:
		w.fault()
		return
	case r < w.cfg.faults+w.cfg.churn:
		w.moveLeader()
		return
	}
	switch {
	case r < 470 && len(w.bag) > 0:
		w.deliverOne()
	case r < 480 && len(w.held) > 0:
		w.send(w.held[w.rng.IntN(len(w.held))])
	case r < 700:
		if n := w.anyNode(); n != nil {
			n.fetch(int32(w.rng.IntN(w.cfg.brokers))+1, w.rng.IntN(w.cfg.patience) == 0)
		}
	case r < 780:
		if p := w.anyLeader(); p != nil && p.log.end() < 400 {
			p.produce(w.rng.IntN(3) > 0)
		}
	case r < 840:
		if p := w.anyLeader(); p != nil {
			p.fsync()
		}
	case r < 890:
		if p := w.anyLeader(); p != nil && (p.proposal == nil || w.rng.IntN(4) == 0) {
			if p.proposal != nil && p.proposal == p.lead.Pending() { // timed out
				w.saw("proposal without any answer")
				p.n.altered(p, p.proposal, wire.CodeOther, 0)
			} else {
				p.n.change(p)
			}
		}
	case r < 950:
		if n := w.anyNode(); n != nil && n.applied < w.index() {
			n.advance(n.applied + 1 + w.rng.Uint64N(w.index()-n.applied))
		}
	default:
		w.lifecycle()
	}
}

// deliverOne delivers a message, most often an old one; sometimes a message gets
// lost, or stays to be delivered again.
func (w *world) deliverOne() {
	i := w.rng.IntN(len(w.bag))
	if w.rng.IntN(3) > 0 {
		i = min(i, w.rng.IntN(len(w.bag)))
	}
	if w.bag[i].until > w.stepCount {
		return
	}
	chance := w.rng.IntN(1000)
	if m := w.bag[i]; chance < 2*w.cfg.faults && m.repeat {
		if w.held = append(w.held, m); len(w.held) > 8 { // to come again much later
			w.held = slices.Delete(w.held, 0, 1+w.rng.IntN(8))
		}
		w.tracef("deliver %s %d>%d, and keep it", m.kind, m.from, m.to)
		w.saw("message delivered twice")
		m.deliver()
		return
	}
	m := w.take(i)
	if chance > 1000-3*w.cfg.faults {
		w.tracef("lose %s %d>%d", m.kind, m.from, m.to)
		return
	}
	w.tracef("deliver %s %d>%d", m.kind, m.from, m.to)
	m.deliver()
}

// anyLeader is a partition that its node leads, or nil.
func (w *world) anyLeader() *part {
	n := w.anyNode()
	if n == nil || n.epoch == 0 {
		return nil
	}
	if p := n.parts[w.rng.IntN(len(n.parts))]; p.lead != nil {
		return p
	}
	return nil
}

// lifecycle takes a broker one step on its way to serving, or to its end.
func (w *world) lifecycle() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch b := w.state().Brokers[n.id]; {
	case !n.up:
		n.start()
		if w.index() > 0 {
			n.applied = max(n.disk.materialised, w.rng.Uint64N(w.index()+1)) // what its raft log had
		}
	case n.epoch == 0:
		n.register()
	case n.draining && b.Draining && !w.leadsAnything(n.id):
		n.stop()
	default:
		n.heartbeat()
	}
}

func (w *world) leadsAnything(id int32) bool {
	return slices.ContainsFunc(w.meta().Partitions, func(p controller.Partition) bool { return p.Leader == id })
}

// fault does something bad, or rare.
func (w *world) fault() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	b := w.state().Brokers[n.id]
	switch w.rng.IntN(18) {
	case 0, 1, 2:
		if n.up {
			n.crash()
			w.saw("crash")
		}
	case 3, 4: // the session ends, mostly of one that is down
		if !b.Fenced && (!n.up || w.rng.IntN(2) == 0) {
			w.saw("fenced")
			w.apply(&controller.SetBroker{ID: n.id, Epoch: b.Epoch, Fenced: true, Draining: b.Draining})
		}
	case 5:
		if n.up && n.epoch != 0 {
			n.draining = true
			n.heartbeat()
		}
	case 6:
		if n.up && w.rng.IntN(3) == 0 {
			n.crash()
			for _, l := range n.disk.logs {
				if l != nil {
					l.lose(w.rng)
				}
			}
			w.saw("lossy restart")
		}
	case 7:
		if n.up && w.rng.IntN(3) == 0 {
			n.crash()
			n.disk = &disk{id: w.uuid(), logs: make([]*memLog, w.cfg.partitions)}
			w.saw("empty directory")
		}
	case 8:
		if n.up && n.epoch != 0 && len(w.zombies) == 0 && w.rng.IntN(2) == 0 {
			w.takeover(n)
		}
	case 9, 10:
		w.now = w.now.Add(2 * lagMax)
		w.saw("clock jumps forward")
	case 11:
		for _, p := range n.parts {
			if p.log != nil {
				p.log.hwSaved = p.log.hw
			}
		}
	case 12:
		if p := w.anyLeader(); p != nil && p.log.hw > p.log.start {
			p.log.advanceStart(p.log.start + 1 + w.rng.Int64N(p.log.hw-p.log.start))
			w.saw("log start moved")
		}
	case 13:
		w.reassign()
	case 14:
		if w.cfg.minChanges {
			w.apply(&controller.AlterTopic{ID: w.topic, Set: map[string]string{controller.ConfigMinInSyncReplicas: fmt.Sprint(1 + w.rng.IntN(w.cfg.factor))}})
			w.saw("min.insync.replicas changed")
		}
	case 15:
		w.endZombies()
	case 16, 17:
		w.moveLeader()
	}
}

// moveLeader has another member of the ISR lead, although nothing is wrong (R81),
// or fences a broker that lives.
func (w *world) moveLeader() {
	num := w.rng.IntN(w.cfg.partitions)
	m := w.meta().Partitions[num]
	if b := w.state().Brokers[max(m.Leader, 1)]; w.rng.IntN(3) == 0 && !b.Fenced {
		w.apply(&controller.SetBroker{ID: b.ID, Epoch: b.Epoch, Fenced: true, Draining: b.Draining})
		return
	}
	if len(m.ISR) > 0 {
		w.apply(&controller.ElectLeader{Topic: w.topic, Partition: int32(num), Broker: m.ISR[w.rng.IntN(len(m.ISR))]})
		w.saw("leadership moved")
	}
}

// takeover leaves a broker's process running, cut off, and starts another one for
// it with an empty directory (F35).
func (w *world) takeover(n *node) {
	if b := w.state().Brokers[n.id]; !b.Fenced {
		w.apply(&controller.SetBroker{ID: n.id, Epoch: b.Epoch, Fenced: true, Draining: b.Draining})
	}
	w.zombies = append(w.zombies, n)
	fresh := newNode(w, n.id)
	w.nodes[n.id-1] = fresh
	fresh.start()
	fresh.applied = w.index()
	w.saw("process replaced while it ran")
}

func (w *world) endZombies() {
	for _, z := range w.zombies {
		z.up = false
		z.forget()
	}
	w.zombies = nil
}

// reassign asks for other replicas of a partition, or takes that back (R82).
func (w *world) reassign() {
	if !w.cfg.reassign {
		return
	}
	num := w.rng.IntN(w.cfg.partitions)
	item := controller.Reassignment{Topic: w.topic, Partition: int32(num)}
	if w.rng.IntN(4) > 0 {
		for _, i := range w.rng.Perm(w.cfg.brokers)[:w.cfg.factor] {
			item.Replicas = append(item.Replicas, int32(i)+1)
		}
	}
	if _, refused := w.apply(&controller.Reassign{Items: []controller.Reassignment{item}}).(error); !refused {
		w.saw("reassignment")
	}
}

// heal ends all faults and has everybody do what they do until all replicas are
// equal. Where no whole replica is left there is nothing to come back to.
func (w *world) heal() {
	w.tracef("heal")
	w.endZombies()
	w.cfg.faults, w.cfg.slow, w.cfg.churn = 0, 0, 0
	for _, n := range w.nodes {
		n.draining = false
	}
	for range 300 {
		w.stepCount++
		w.round()
		w.check.step()
		if w.whole() {
			w.final()
			return
		}
	}
	meta := w.meta()
	for i, p := range meta.Partitions {
		for _, id := range p.Replicas {
			if l := w.nodes[id-1].disk.logs[i]; l != nil {
				w.tracef("p%d broker %d: %d to %d, hw %d, epochs %v", i, id, l.start, l.end(), l.hw, l.epochs)
			}
		}
	}
	w.fail("V15: not whole again after all faults ended: %+v", meta.Partitions)
}

// round has everybody do everything once.
func (w *world) round() {
	w.now = w.now.Add(50 * time.Millisecond)
	for _, n := range w.nodes {
		if n.up && n.epoch != 0 && w.state().Brokers[n.id].Draining {
			n.stop() // it asked for it
		}
		switch {
		case !n.up:
			n.start()
			n.applied = w.index()
			n.register()
		case n.epoch == 0:
			n.register()
		default:
			n.heartbeat()
		}
		w.deliverAll()
	}
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		n.advance(w.index())
		for i := 0; n.up && i < len(n.parts); i++ {
			if p := n.parts[i]; p.lead != nil {
				p.fsync()
				if p.proposal != nil {
					n.altered(p, p.proposal, wire.CodeOther, 0)
				}
				n.change(p)
			}
		}
		w.deliverAll()
		for id := int32(1); n.up && id <= int32(w.cfg.brokers); id++ {
			n.fetch(id, true)
			w.deliverAll()
		}
	}
}

// whole tells whether all is as it should be in a cluster that nothing happens to.
func (w *world) whole() bool {
	meta := w.meta()
	for i := range meta.Partitions {
		m := &meta.Partitions[i]
		if m.Leader == controller.NoLeader && len(m.ISR)+len(m.ELR) == 0 && !w.cfg.unclean {
			continue // nobody is known to be whole (R78)
		}
		if len(m.ISR) != len(m.Replicas) || len(m.Adding)+len(m.Removing) > 0 {
			return false
		}
		leader := w.nodes[m.Leader-1].disk.logs[i]
		for _, id := range m.Replicas {
			n := w.nodes[id-1]
			l := n.disk.logs[i]
			if l == nil || !n.up || l.end() != leader.end() || l.hw != l.end() {
				return false
			}
		}
	}
	return true
}

// final compares all replicas, and what producers were told (V1, V5, V23).
func (w *world) final() {
	meta := w.meta()
	for i := range meta.Partitions {
		m, t := &meta.Partitions[i], w.check.parts[i]
		if m.Leader == controller.NoLeader {
			w.saw("no whole replica left")
			continue
		}
		leader := w.nodes[m.Leader-1].disk.logs[i]
		for _, id := range m.Replicas {
			l := w.nodes[id-1].disk.logs[i]
			for o := max(l.start, leader.start); o < l.end(); o++ {
				if l.at(o) != leader.at(o) {
					w.fail("V23: in the end broker %d has %+v at %d of p%d, the leader %+v", id, l.at(o), o, i, leader.at(o))
				}
			}
		}
		if t.lax {
			continue
		}
		for _, a := range t.acks {
			if a.offset >= leader.start && leader.at(a.offset).value != a.value {
				w.fail("V1: value %d was acknowledged at %d of p%d, there is %+v", a.value, a.offset, i, leader.at(a.offset))
			}
		}
		for o := leader.start; o < leader.end(); o++ {
			if t.refused[leader.at(o).value] {
				w.fail("V2: value %d was answered with not_written and is in the log", leader.at(o).value)
			}
		}
	}
}
