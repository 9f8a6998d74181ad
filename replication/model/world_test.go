package model

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
)

// config is what one run is made of.
type config struct {
	brokers, factor, partitions, minInSync int
	durable                                bool // fsync=commit: what is reported was fsynced (R72)
	unclean                                bool // unclean.leader.election.enable
	reassign, minChanges                   bool
	faults, churn                          int // of 1000 steps, about as many are faults, and changes of leaders
	slow                                   int // of 1000 messages, as many take long
	tick                                   int // ms that a step takes at most
	patience                               int // a follower gives up a fetch about once in so many looks at it
	steps                                  int
	mutation                               replica.Mutation
}

// lagMax is replica.lag.time.max: about a hundred steps of 20 ms at most.
const lagMax = time.Second

// world is a cluster: the controller's states one after another, the brokers, and
// all messages that are under way.
type world struct {
	cfg    config
	rng    *rand.Rand
	now    time.Time
	states []*controller.State // [i]: at index i
	topics []*controller.Topic // in states[i]
	topic  uuid.UUID
	nodes  []*node // the process that has broker i+1's address
	// zombies are cut-off processes whose broker was given to a new one (F35).
	zombies   []*node
	bag       []*message
	held      []*message // copies that turn up again much later (F24)
	ids       int64
	values    int64
	check     *checker
	seen      map[string]int // how often each rare event happened
	scripted  bool           // a scenario says what happens: what else is drawn is left out
	tracing   bool
	lines     []string
	stepCount int
}

// message is on its way. Delivering one may happen twice where repeat says so.
type message struct {
	kind     string // fetch, fetched, alter, altered, register, registered, heartbeat, notice
	from, to int32  // broker ids; 0: the controller
	repeat   bool
	until    int // it is delivered at this step at the earliest
	deliver  func()
}

func newWorld(cfg config, rng *rand.Rand) *world {
	w := &world{cfg: cfg, rng: rng, now: time.Unix(1_000_000, 0), seen: map[string]int{}}
	s := controller.NewState(cfg.mutation)
	w.states, w.topics = []*controller.State{s}, []*controller.Topic{nil}
	w.check = newChecker(w)
	w.apply(&controller.InitCluster{ClusterID: "model"})
	for id := int32(1); id <= int32(cfg.brokers); id++ {
		n := newNode(w, id)
		w.nodes = append(w.nodes, n)
		n.start()
	}
	for _, n := range w.nodes {
		n.register()
		w.deliverAll()
		n.advance(w.index())
		n.heartbeat()
		w.deliverAll()
	}
	w.topic = w.uuid()
	var replicas [][]int32
	for p := range cfg.partitions {
		var r []int32
		for i := range cfg.factor {
			r = append(r, int32((p+i)%cfg.brokers)+1)
		}
		replicas = append(replicas, r)
	}
	create := &controller.CreateTopic{Name: "t", ID: w.topic, Replicas: replicas, MinInSync: cfg.minInSync, Configs: map[string]string{}}
	if cfg.unclean {
		create.Configs[controller.ConfigUncleanElection] = "true"
	}
	w.apply(create)
	w.bag = nil
	return w
}

func (w *world) index() uint64            { return uint64(len(w.states) - 1) }
func (w *world) state() *controller.State { return w.states[len(w.states)-1] }
func (w *world) meta() *controller.Topic  { return w.topics[len(w.topics)-1] }

// apply has the controller commit a command.
func (w *world) apply(c controller.Command) any {
	next, result := w.state().Apply(c, uint64(len(w.states)))
	w.states = append(w.states, next)
	t, _ := next.TopicByID(w.topic)
	w.topics = append(w.topics, t)
	if w.tracing {
		w.tracef("controller: %T%+v = %s", c, c, resultText(result))
		if t != nil {
			for i, p := range t.Partitions {
				w.tracef("  p%d leader %d epoch %d/%d isr %v elr %v last %v", i, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.ISR, p.ELR, p.LastKnownELR)
			}
		}
	}
	w.check.stateChanged(w.topics[len(w.topics)-2], t, c, result)
	return result
}

func resultText(result any) string {
	switch r := result.(type) {
	case error:
		return r.Error()
	case []wire.AlterResult:
		return fmt.Sprintf("%+v", r)
	}
	return "ok"
}

func (w *world) id() int64 { w.ids++; return w.ids }

func (w *world) uuid() uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:], uint64(w.id()))
	u[15] = 1
	return u
}

func (w *world) send(m *message) {
	if w.rng.IntN(1000) < w.cfg.slow {
		m.until = w.stepCount + w.rng.IntN(500)
	}
	w.bag = append(w.bag, m)
}

// take removes the i-th message from the bag.
func (w *world) take(i int) *message {
	m := w.bag[i]
	w.bag[i] = w.bag[len(w.bag)-1]
	w.bag = w.bag[:len(w.bag)-1]
	return m
}

// deliverAll delivers all messages in the order in which they were sent, and
// those that this makes.
func (w *world) deliverAll() {
	for range 10000 {
		if len(w.bag) == 0 {
			return
		}
		m := w.bag[0]
		w.bag = slices.Delete(w.bag, 0, 1)
		m.deliver()
	}
	w.fail("messages without end")
}

func (w *world) saw(event string) { w.seen[event]++ }

func (w *world) tracef(format string, args ...any) {
	if w.tracing {
		w.lines = append(w.lines, strconv.Itoa(w.stepCount)+" "+fmt.Sprintf(format, args...))
	}
}

// violation is what a run ends with when an invariant doesn't hold.
type violation struct{ text string }

func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.tracef("VIOLATION %s", text)
	panic(violation{text})
}

// anyNode is a running process, or nil.
func (w *world) anyNode() *node {
	all := len(w.nodes) + len(w.zombies)
	for range 4 {
		i := w.rng.IntN(all)
		n := (*node)(nil)
		if i < len(w.nodes) {
			n = w.nodes[i]
		} else {
			n = w.zombies[i-len(w.nodes)]
		}
		if n.up {
			return n
		}
	}
	return nil
}

// at is the process that a message to a broker reaches.
func (w *world) at(id int32) *node {
	for _, z := range w.zombies {
		if z.id == id && !w.scripted && w.rng.IntN(2) == 0 {
			return z
		}
	}
	return w.nodes[id-1]
}

// registered is the process that the controller knows as a broker, if it runs.
func (w *world) registered(id int32) *node {
	b := w.state().Brokers[id]
	if b == nil {
		return nil
	}
	for _, n := range slices.Concat(w.nodes, w.zombies) {
		if n.id == id && n.up && n.epoch == b.Epoch {
			return n
		}
	}
	return nil
}
