package nemesis

import (
	"context"
	"fmt"
	"time"
)

// stopLimit is how long a broker may take over SIGTERM: the 10 s that it promises,
// and some for a machine that is busy.
const stopLimit = 20 * time.Second

func processFaults() []fault {
	return []fault{
		{name: "kill", weight: 6, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.kill(n.any()) }},
		{name: "kill-leader", weight: 6, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.kill(n.leader()) }},
		{name: "kill-controller", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.kill(n.controller()) }},
		{name: "kill-coordinator", weight: 6, groups: true, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.kill(n.coordinator()) }},
		{name: "kill-two", weight: 3, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.kill(n.c.Others(n.any())[:2]...) }},
		{name: "kill-all", weight: 3, begin: (*Nemesis).killAll},
		{name: "pause", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.pause(n.any()) }},
		{name: "pause-leader", weight: 5, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.pause(n.leader()) }},
		{name: "pause-controller", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.pause(n.controller()) }},
		{name: "pause-coordinator", weight: 4, groups: true, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.pause(n.coordinator()) }},
		{name: "pause-all", weight: 1, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.pause(n.all()...) }},
		{name: "restart", weight: 5, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.restart(n.any()) }},
		{name: "restart-leader", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.restart(n.leader()) }},
		{name: "wipe", weight: 2, alone: true, begin: (*Nemesis).wipe},
	}
}

func (n *Nemesis) all() (ids []int) {
	for _, b := range n.c.Brokers {
		ids = append(ids, b.ID)
	}
	return ids
}

// kill is kill -9 of these brokers at once.
func (n *Nemesis) kill(ids ...int) (end func(), hit string) {
	done := make(chan struct{})
	for _, id := range ids {
		go func() { _ = n.c.Broker(id).Kill(); done <- struct{}{} }()
	}
	for range ids {
		<-done
	}
	return func() { n.start(ids...) }, fmt.Sprint(ids)
}

func (n *Nemesis) killAll(context.Context) (end func(), hit string) { return n.kill(n.all()...) }

// start brings brokers back in an order of the seed's choice.
func (n *Nemesis) start(ids ...int) {
	n.rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		if err := n.c.Broker(id).Start(); err != nil {
			n.misdeed("start: %v", err)
		}
	}
}

// pause is SIGSTOP: the process is there, its connections stand, and it is silent.
func (n *Nemesis) pause(ids ...int) (end func(), hit string) {
	for _, id := range ids {
		n.c.Broker(id).Pause()
	}
	return func() {
		for _, id := range ids {
			n.c.Broker(id).Resume()
		}
	}, fmt.Sprint(ids)
}

// restart is SIGTERM: it has to end in order.
func (n *Nemesis) restart(id int) (end func(), hit string) {
	b := n.c.Broker(id)
	b.Resume()
	if !b.Running() {
		return func() { n.start(id) }, fmt.Sprintf("[%d], which doesn't run", id)
	}
	code, err := b.Stop(stopLimit)
	if err != nil {
		n.misdeed("SIGTERM: %v", err)
	} else if code != 0 {
		n.misdeed("SIGTERM of broker %d: exit code %d", id, code)
	}
	return func() { n.start(id) }, fmt.Sprintf("[%d]", id)
}

// wipe throws a broker's data away while all others have everything, and lets it
// join again. More losses at once than min.insync.replicas - 1 would lose records
// by the rules.
func (n *Nemesis) wipe(ctx context.Context) (end func(), hit string) {
	id := n.any()
	if lacking := n.c.OutOfSync(n.cfg.Topics); len(lacking) > 0 {
		return nil, lacking[0]
	}
	b := n.c.Broker(id)
	_ = b.Kill()
	if err := b.Wipe(); err != nil {
		n.misdeed("wipe: %v", err)
	}
	return func() {
		n.start(id)
		n.awaitWhole(id)
	}, fmt.Sprintf("[%d]", id)
}
