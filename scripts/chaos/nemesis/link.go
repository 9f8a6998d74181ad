package nemesis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chaos/cluster"
	"chaos/proxy"
)

func linkFaults() []fault {
	cut := proxy.Fault{Cut: true}
	return []fault{
		{name: "isolate", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id := n.any()
			return n.links(cut, n.around(id)...)
		}},
		{name: "isolate-leader", weight: 6, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id := n.leader()
			return n.links(cut, n.around(id)...)
		}},
		{name: "isolate-controller", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id := n.controller()
			return n.links(cut, n.around(id)...)
		}},
		{name: "isolate-coordinator", weight: 4, groups: true, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id := n.coordinator()
			return n.links(cut, n.around(id)...)
		}},
		// A leader that its controller can't reach, and its followers can (F26).
		{name: "cut-from-controller", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			controller, id := n.controller(), n.leader()
			if id == controller {
				id = n.c.Others(controller)[n.rnd.IntN(len(n.c.Brokers)-1)]
			}
			return n.links(cut, cluster.Pair{From: id, To: controller}, cluster.Pair{From: controller, To: id})
		}},
		{name: "cut-one-way", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.links(cut, n.pair()) }},
		{name: "lose-one-way", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			return n.links(proxy.Fault{OneWay: true}, n.pair())
		}},
		{name: "deaf", weight: 2, begin: func(n *Nemesis, _ context.Context) (func(), string) { // can't dial, can be dialled
			id := n.any()
			return n.links(cut, n.from(id)...)
		}},
		{name: "delay", weight: 3, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id, d := n.any(), n.between(5*time.Millisecond, 300*time.Millisecond)
			return n.links(proxy.Fault{Delay: d}, n.around(id)...)
		}},
		{name: "throttle", weight: 2, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			id := n.any()
			return n.links(proxy.Fault{Rate: 4 << 10 << n.rnd.IntN(6)}, n.around(id)...)
		}},
		{name: "cut-all", weight: 1, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			var all []cluster.Pair
			for _, id := range n.all() {
				all = append(all, n.from(id)...)
			}
			return n.links(cut, all...)
		}},
		{name: "flap", weight: 3, begin: (*Nemesis).flap},
		{name: "reset", weight: 3, begin: (*Nemesis).reset},
	}
}

// pair is one directed link.
func (n *Nemesis) pair() cluster.Pair {
	from := n.any()
	return cluster.Pair{From: from, To: n.c.Others(from)[n.rnd.IntN(len(n.c.Brokers)-1)]}
}

// from are the links that a broker dials.
func (n *Nemesis) from(id int) (pairs []cluster.Pair) {
	for _, o := range n.c.Others(id) {
		pairs = append(pairs, cluster.Pair{From: id, To: o})
	}
	return pairs
}

// around are all links of a broker, both ways.
func (n *Nemesis) around(id int) (pairs []cluster.Pair) {
	for _, o := range n.c.Others(id) {
		pairs = append(pairs, cluster.Pair{From: id, To: o}, cluster.Pair{From: o, To: id})
	}
	return pairs
}

// links puts a fault on links. Of two faults on one link the later counts, and
// the end of either mends it.
func (n *Nemesis) links(f proxy.Fault, pairs ...cluster.Pair) (end func(), hit string) {
	for _, p := range pairs {
		n.c.Links[p].Set(f)
	}
	return func() {
		for _, p := range pairs {
			n.c.Links[p].Set(proxy.Fault{})
		}
	}, describe(f, pairs)
}

func describe(f proxy.Fault, pairs []cluster.Pair) string {
	s := ""
	for _, p := range pairs {
		s += fmt.Sprintf(" %d>%d", p.From, p.To)
	}
	switch {
	case f.Delay > 0:
		s += fmt.Sprintf(", %v late", f.Delay.Round(time.Millisecond))
	case f.Rate > 0:
		s += fmt.Sprintf(", %d bytes a second", f.Rate)
	}
	return s
}

// background repeats something until the fault ends.
func background(do func(), every time.Duration) (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			do()
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
		}
	})
	return func() { close(stop); wg.Wait() }
}

// flap cuts a broker off and lets it back, again and again (F21).
func (n *Nemesis) flap(context.Context) (end func(), hit string) {
	id := n.any()
	pairs := n.around(id)
	on := false
	stop := background(func() {
		on = !on
		for _, p := range pairs {
			n.c.Links[p].Set(proxy.Fault{Cut: on})
		}
	}, n.between(n.cfg.Session/8, n.cfg.Session))
	return func() {
		stop()
		for _, p := range pairs {
			n.c.Links[p].Set(proxy.Fault{})
		}
	}, fmt.Sprintf("[%d]", id)
}

// reset breaks all connections of a broker's links, again and again.
func (n *Nemesis) reset(context.Context) (end func(), hit string) {
	id := n.any()
	pairs := n.around(id)
	return background(func() {
		for _, p := range pairs {
			n.c.Links[p].Reset()
		}
	}, n.between(20*time.Millisecond, time.Second)), fmt.Sprintf("[%d]", id)
}
