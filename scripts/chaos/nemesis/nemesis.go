// Package nemesis does to a cluster what machines, networks and disks do. A seed
// decides what and when; what comes of it is the brokers' business.
package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"chaos/cluster"
	"chaos/history"
)

// Config of a Nemesis.
type Config struct {
	Cluster *cluster.Cluster
	Record  *history.Recorder
	Seed    uint64
	Topics  []string // whose leaders it looks for
	Groups  []string // whose coordinators it looks for
	Only    []string // names of faults; empty: all
	Session time.Duration
	Log     func(format string, args ...any)
}

// Nemesis is the one who does it.
type Nemesis struct {
	cfg Config
	c   *cluster.Cluster
	rnd *rand.Rand

	mu     sync.Mutex // guards what follows
	counts map[string]int
	bad    []string // what a broker did that it must not do, such as a failed SIGTERM
}

// fault is one kind of fault. begin makes it and returns what ends it, and what it
// hit; a nil end says that it was not possible now.
type fault struct {
	name   string
	weight int
	// alone: not while another fault is on, and nothing while it is on.
	alone bool
	// groups: it needs consumer groups.
	groups bool
	begin  func(n *Nemesis, ctx context.Context) (end func(), hit string)
}

// New makes a Nemesis.
func New(cfg Config) *Nemesis {
	return &Nemesis{cfg: cfg, c: cfg.Cluster, rnd: rand.New(rand.NewPCG(cfg.Seed, 0)), counts: map[string]int{}}
}

// Counts is how often each fault was made.
func (n *Nemesis) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[string]int{}
	for k, v := range n.counts {
		out[k] = v
	}
	return out
}

// Misdeeds of brokers that a client doesn't see.
func (n *Nemesis) Misdeeds() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.bad)
}

func (n *Nemesis) misdeed(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad = append(n.bad, fmt.Sprintf(format, args...))
}

// Run makes faults until ctx ends, and ends the last of them.
func (n *Nemesis) Run(ctx context.Context) {
	faults := n.wanted()
	n.sleep(ctx, n.between(500*time.Millisecond, 2*time.Second))
	for ctx.Err() == nil {
		first := n.pick(faults, nil)
		end := n.begin(ctx, first)
		n.sleep(ctx, n.duration())
		if second := n.pick(faults, first); end != nil && second != nil && n.rnd.IntN(3) == 0 {
			if endSecond := n.begin(ctx, second); endSecond != nil {
				n.sleep(ctx, n.duration())
				if n.rnd.IntN(2) == 0 { // the first outlives the second
					end, endSecond = endSecond, end
				}
				end()
				n.sleep(ctx, n.between(0, time.Second))
				end = endSecond
			}
		}
		if end != nil {
			end()
		}
		n.sleep(ctx, n.between(200*time.Millisecond, n.cfg.Session))
	}
}

func (n *Nemesis) wanted() (faults []fault) {
	for _, f := range slices.Concat(processFaults(), linkFaults(), diskFaults()) {
		if f.groups && len(n.cfg.Groups) == 0 {
			continue
		}
		if len(n.cfg.Only) == 0 || slices.Contains(n.cfg.Only, f.name) {
			faults = append(faults, f)
		}
	}
	return faults
}

// Names of all faults.
func Names() string {
	var names []string
	for _, f := range slices.Concat(processFaults(), linkFaults(), diskFaults()) {
		names = append(names, f.name)
	}
	return strings.Join(names, " ")
}

// pick chooses a fault by weight, one that may come on top of another; nil: none may.
func (n *Nemesis) pick(faults []fault, over *fault) *fault {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	at := n.rnd.IntN(total)
	for i := range faults {
		if at -= faults[i].weight; at < 0 {
			if over != nil && (over.alone || faults[i].alone || over.name == faults[i].name) {
				return nil
			}
			return &faults[i]
		}
	}
	return nil
}

// begin makes one fault; what it returns ends it, and is nil if nothing was done.
func (n *Nemesis) begin(ctx context.Context, f *fault) (end func()) {
	mend, hit := f.begin(n, ctx)
	if mend == nil {
		n.cfg.Log("%s: not now: %s", f.name, hit)
		return nil
	}
	n.mu.Lock()
	n.counts[f.name]++
	n.mu.Unlock()
	n.cfg.Record.Event(history.EventFault, 0, f.name+" "+hit)
	n.cfg.Log("%s %s", f.name, hit)
	return func() {
		mend()
		n.cfg.Record.Event(history.EventMended, 0, f.name+" "+hit)
		n.cfg.Log("  mended: %s %s", f.name, hit)
	}
}

// duration of a fault: mostly some session timeouts, sometimes just a blink.
func (n *Nemesis) duration() time.Duration {
	if n.rnd.IntN(4) == 0 {
		return n.between(50*time.Millisecond, n.cfg.Session)
	}
	return n.between(n.cfg.Session, 3*n.cfg.Session)
}

func (n *Nemesis) between(low, high time.Duration) time.Duration {
	return low + time.Duration(n.rnd.Int64N(int64(max(high-low, 1))))
}

func (n *Nemesis) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// any broker.
func (n *Nemesis) any() int { return 1 + n.rnd.IntN(len(n.c.Brokers)) }

// leader of some partition, or any broker if nobody leads.
func (n *Nemesis) leader() int {
	topic := n.cfg.Topics[n.rnd.IntN(len(n.cfg.Topics))]
	fallback := n.any()
	if id := n.c.Leader(topic, 0); id > 0 {
		return id
	}
	return fallback
}

// coordinator of some group, or any broker if there is none.
func (n *Nemesis) coordinator() int {
	group, fallback := n.cfg.Groups[n.rnd.IntN(len(n.cfg.Groups))], n.any()
	if id := n.c.Coordinator(group); id > 0 {
		return id
	}
	return fallback
}

// controller, or any broker if there is none.
func (n *Nemesis) controller() int {
	fallback := n.any()
	if id := n.c.Controller(); id > 0 {
		return id
	}
	return fallback
}
