package nemesis

import (
	"context"
	"fmt"
	"time"
)

func diskFaults() []fault {
	return []fault{
		{name: "slow-disk", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			return n.disk(fmt.Sprintf("fsync-delay %dms", 20+n.rnd.IntN(700)), n.any())
		}},
		{name: "slow-disks", weight: 1, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			return n.disk(fmt.Sprintf("fsync-delay %dms", 20+n.rnd.IntN(300)), n.all()...)
		}},
		{name: "full-disk", weight: 4, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.fullDisk(n.any()) }},
		{name: "full-disks", weight: 1, begin: func(n *Nemesis, _ context.Context) (func(), string) { return n.fullDisk(n.all()...) }},
		{name: "fsync-error", weight: 3, alone: true, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			return n.brokenDisk(fmt.Sprintf("fsync-error %d", 1+n.rnd.IntN(20)))
		}},
		{name: "write-error", weight: 2, alone: true, begin: func(n *Nemesis, _ context.Context) (func(), string) {
			return n.brokenDisk(fmt.Sprintf("write-error %d", 1+n.rnd.IntN(20)))
		}},
		{name: "flip-bit", weight: 3, alone: true, begin: (*Nemesis).flipBit},
	}
}

// disk makes disks bad in a way that brokers live with.
func (n *Nemesis) disk(plan string, ids ...int) (end func(), hit string) {
	for _, id := range ids {
		if err := n.c.Broker(id).Disk(plan); err != nil {
			n.misdeed("disk: %v", err)
		}
	}
	return func() {
		for _, id := range ids {
			if err := n.c.Broker(id).Disk(""); err != nil {
				n.misdeed("disk: %v", err)
			}
		}
	}, fmt.Sprintf("%v %s", ids, plan)
}

// fullDisk leaves no room at all, less than a real disk, where a broker has its
// ballast. It goes on all the same, and ends in order; one that was to start may say
// that it can't, and is started again.
func (n *Nemesis) fullDisk(ids ...int) (end func(), hit string) {
	mend, hit := n.disk("no-space", ids...)
	return func() {
		mend()
		n.start(ids...)
	}, hit
}

// brokenDisk lets one write or fsync fail: the broker has to end by itself (S4),
// and its next life knows that something may be missing. It counts as a loss, so
// that all others have to have everything.
func (n *Nemesis) brokenDisk(plan string) (end func(), hit string) {
	id := n.any()
	if lacking := n.c.OutOfSync(n.cfg.Topics); len(lacking) > 0 {
		return nil, lacking[0]
	}
	b := n.c.Broker(id)
	life := b.Life()
	b.Expect(true)
	mend, hit := n.disk(plan, id)
	return func() {
		mend()
		// One that met the fault a moment ago answers its waiters before it ends.
		for begun := time.Now(); b.Running() && b.Life() == life && time.Since(begun) < endLimit; {
			time.Sleep(50 * time.Millisecond)
		}
		b.Expect(false)
		if b.Running() && b.Life() == life {
			return // no write met the fault
		}
		n.start(id)
		n.awaitWhole(id)
	}, hit
}

// awaitWhole waits until a broker that lost its data, or may have, has everything
// again: until then, another loss is one too many.
func (n *Nemesis) awaitWhole(id int) {
	deadline := time.Now().Add(rejoinLimit)
	lacking := n.c.OutOfSync(n.cfg.Topics)
	for ; len(lacking) > 0 && time.Now().Before(deadline); lacking = n.c.OutOfSync(n.cfg.Topics) {
		time.Sleep(200 * time.Millisecond)
		if !n.c.Broker(id).Running() { // it may be refused while its former self counts as alive
			n.start(id)
		}
	}
	if len(lacking) > 0 {
		n.misdeed("broker %d, whose data was lost, has not come back within %v: %s", id, rejoinLimit, lacking[0])
	}
}

// endLimit is how long a broker may take to end after its disk failed.
const endLimit = 4 * time.Second

// rejoinLimit is how long an empty broker may take to be a full one again.
const rejoinLimit = 60 * time.Second
