package group

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The model is one group, its members' processes and fronts, and a coordinator that
// crashes: everything happens in an order drawn from a seed. What must hold is checked
// after each step, from the records alone where that can be:
//
//   - what lasts is what a replay of the log gives, compacted or not;
//   - no partition has two owners, and none changes its owner but by a call of that
//     owner, its end or its expiry (G6);
//   - offsets are committed by the newest incarnation of the owner only (G3, G4), and
//     an acknowledged commit is what is read back (V12);
//   - whatever lies below a committed offset was processed by somebody, or skipped by a
//     reset (V13);
//   - when members poll, all partitions have an owner after a few rounds.
type model struct {
	lab     *lab
	rng     *rand.Rand
	shadow  *state // what the log says, replayed as it grows
	clients []*client
	ids     uint64

	end       map[part]int64          // high watermarks
	base      map[part]int64          // nobody has to process what is below
	processed map[part]map[int64]bool // by anybody
	loads     int                     // how often a coordinator was loaded
	former    *labTopics              // before their last change
	calm      bool                    // no coordinator dies
	sent      map[uuid.UUID]bool      // commits that were done

	violation string
	lines     []string
	seen      map[string]int
}

// errLost: the coordinator died with the answer, or with the question.
var errLost = errors.New("lost")

const modelClients = 4

func newModel(t *testing.T, seed uint64, m mutation) *model {
	w := &model{
		lab: newLab(t), rng: rand.New(rand.NewPCG(seed, 0x67726f7570)), shadow: newState("g"),
		end: map[part]int64{}, base: map[part]int64{}, processed: map[part]map[int64]bool{}, seen: map[string]int{}, sent: map[uuid.UUID]bool{},
	}
	w.lab.s.mutation = m
	w.lab.topics.set("a", 3)
	w.lab.topics.set("b", 1)
	for range modelClients {
		w.clients = append(w.clients, w.newClient())
	}
	return w
}

func (w *model) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *model) logf(format string, args ...any) {
	w.lines = append(w.lines, w.lab.now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *model) fail(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.logf("VIOLATION %s", w.violation)
	}
}

func (w *model) run(steps int) {
	for i := 0; i < steps && w.violation == ""; i++ {
		w.lab.pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
		if due := w.lab.s.next(); !due.IsZero() && !w.lab.now.Before(due) {
			w.tick()
		}
		w.step()
		if i%200 == 199 {
			w.quiesce()
		}
		if i%500 == 499 {
			w.lull()
		}
	}
}

func (w *model) step() {
	switch n := w.rng.IntN(100); {
	case n < 8:
		w.produce()
	case n < 11:
		w.changeTopics()
	case n < 12:
		w.crash()
	case n < 13:
		w.lab.pass(pollLife) // without a beat
		w.seen["fronts gone"]++
	case n < 14:
		w.admin()
	default:
		c := w.clients[w.rng.IntN(len(w.clients))]
		c.step()
	}
}

func (w *model) produce() {
	for t := range w.lab.topics.All() {
		for p := range t.Partitions {
			if w.chance(50) {
				w.end[part{t.ID, p}] += w.rng.Int64N(6)
			}
		}
	}
}

func (w *model) changeTopics() {
	w.former = &labTopics{index: w.lab.topics.index, shape: w.lab.topics.shape, byName: maps.Clone(w.lab.topics.byName)}
	name := []string{"a", "b", "c"}[w.rng.IntN(3)]
	t, ok := w.lab.topics.Topic(name)
	switch {
	case ok && w.chance(50):
		w.lab.topics.delete(name)
		w.seen["topic deleted"]++
		if w.chance(50) {
			t := w.lab.topics.set(name, w.rng.Int32N(3)+1)
			for p := range t.Partitions {
				w.end[part{t.ID, p}] = w.rng.Int64N(30)
			}
			w.seen["topic made anew"]++
		}
	case ok:
		w.lab.topics.set(name, min(t.Partitions+1, 5))
		w.seen["topic grew"]++
	default:
		w.lab.topics.set(name, w.rng.Int32N(3)+1)
		w.seen["topic made"]++
	}
	w.logf("topics %v", w.lab.topics.byName)
	if w.chance(80) { // else the next call sees it first
		w.tick()
	}
}

// admin resets or deletes the group, if it may.
func (w *model) admin() {
	if w.chance(30) {
		if _, err := w.call(&Call{DeleteGroup: &DeleteGroup{}}); err == nil {
			w.seen["group deleted"]++
			clear(w.base)
		}
		return
	}
	for t := range w.lab.topics.All() {
		p := part{t.ID, w.rng.Int32N(t.Partitions)}
		at := Position{TopicPartition: named(w.lab.topics, p), Offset: w.rng.Int64N(w.end[p] + 1), LeaderEpoch: -1}
		before := w.shadow.offsets[p]
		_, err := w.call(&Call{Reset: &Reset{Offsets: []CommitOffset{{Position: at}}}})
		if after := w.shadow.offsets[p]; after != before {
			w.base[p] = max(w.base[p], at.Offset)
		}
		if err == nil {
			w.seen["reset"]++
		}
	}
}

func (w *model) crash() {
	w.loads++
	w.seen["crash"]++
	w.logf("coordinator crashes")
	mutation := w.lab.s.mutation
	s := w.lab.replay(w.chance(50))
	s.mutation = mutation
	w.lab.s = s
	if !maps.EqualFunc(lasting(s), lasting(w.shadow), bytes.Equal) {
		w.fail("a load gives something else")
	}
	w.tick()
}

func (w *model) tick() {
	before := w.snapshot()
	w.taken(before, nil, w.lab.s.tick(w.lab.now, w.lab.topics))
}

// call does a call, unless the coordinator dies: before anything is appended, or
// before it is answered.
func (w *model) call(call *Call) (*Answer, error) {
	if call.ID == (uuid.UUID{}) {
		w.ids++
		call.ID = uuid.UUID{0xca, 8: byte(w.ids >> 24), 9: byte(w.ids >> 16), 10: byte(w.ids >> 8), 11: byte(w.ids)}
	}
	call.Metadata = w.lab.topics.index
	if w.chance(3) {
		w.cloneApart(call)
	}
	if w.former != nil && w.chance(3) {
		w.behind(call)
	}
	before := w.snapshot()
	answer, records, err := w.lab.s.do(w.lab.now, w.lab.topics, call)
	fate := w.rng.IntN(400)
	if w.calm {
		fate = -1
	}
	if fate == 0 {
		w.seen["crash before append"]++
		w.crash()
		return nil, errLost
	}
	w.taken(before, call, records)
	w.acknowledged(call, err)
	if fate == 1 {
		w.seen["crash before answer"]++
		w.crash()
		return nil, errLost
	}
	w.unexpected(call, err)
	return answer, err
}

// cloneApart has a clone do the call, which the state itself must not notice.
func (w *model) cloneApart(call *Call) {
	as, clone := w.lab.s.clone(), w.lab.s.clone()
	_, _, _ = clone.do(w.lab.now, w.lab.topics, call)
	if !reflect.DeepEqual(w.lab.s, as) {
		w.fail("a clone shares something: %+v", call)
	}
}

// behind does the call with metadata from before the last change: it is to wait, if
// anything was done with newer.
func (w *model) behind(call *Call) {
	early := *call
	early.Metadata = 0
	if w.lab.s.index < w.lab.topics.index {
		return
	}
	w.seen["metadata behind"]++
	_, records, err := w.lab.s.do(w.lab.now, w.former, &early)
	if !errors.Is(err, errBehind) || len(records) > 0 || len(w.lab.s.tick(w.lab.now, w.former)) > 0 {
		w.fail("with old metadata: %d records, %v", len(records), err)
	}
}

func (w *model) unexpected(call *Call, err error) {
	invalid, many := (*InvalidError)(nil), (*TooManyError)(nil)
	if errors.As(err, &invalid) || errors.As(err, &many) || errors.Is(err, errBehind) {
		w.fail("%+v: %v", call, err)
	}
	if err != nil {
		w.seen[fmt.Sprintf("%T", err)]++
	}
}

// owned is who owned what, by the records.
type owned map[part]*memberValue

type snapshot struct {
	owned   owned
	members map[string]*memberValue
}

func (w *model) snapshot() snapshot {
	snap := snapshot{owned: owned{}, members: map[string]*memberValue{}}
	for name, m := range w.shadow.members {
		snap.members[name] = m.v
		for _, o := range m.v.owned {
			snap.owned[o.part] = m.v
		}
	}
	return snap
}

// taken appends records to the log and checks what they did.
func (w *model) taken(before snapshot, call *Call, records []record) {
	w.lab.append(records)
	for _, rec := range records {
		key, value := rec.encode()
		read, err := decodeRecord(key, value)
		if err == nil {
			err = w.shadow.apply(read)
		}
		if err != nil {
			w.fail("record: %v", err)
			return
		}
	}
	if !maps.EqualFunc(lasting(w.lab.s), lasting(w.shadow), bytes.Equal) {
		w.fail("what lasts isn't what the log says")
	}
	w.oneOwner(before, call)
	for _, rec := range records {
		if rec.kind == kindOffset {
			w.offsetRecord(before, call, rec)
		}
	}
}

// oneOwner checks that no partition has two owners, and who gave those away that
// moved.
func (w *model) oneOwner(before snapshot, call *Call) {
	now := map[part]string{}
	for name, m := range w.shadow.members {
		for _, o := range m.v.owned {
			if other, ok := now[o.part]; ok {
				w.fail("%v is owned by %s and %s", o.part, other, name)
			}
			now[o.part] = name
		}
	}
	for name, v := range before.members {
		m := w.shadow.members[name]
		for _, o := range v.owned {
			taker, ok := now[o.part]
			if !ok || taker == name || m == nil || m.v.incarnation != v.incarnation {
				continue // dropped, still there, or its end
			}
			w.seen["partition moved"]++
			if call == nil || (call.Begin == nil && call.Subscribe == nil && call.Assign == nil) || !callOf(call, name, v) {
				w.fail("%v moved from %s to %s by %+v", o.part, name, taker, call)
			}
		}
	}
}

// callOf tells whether a call is one of a member in its incarnation.
func callOf(call *Call, name string, v *memberValue) bool {
	instance := ""
	switch {
	case call.Begin != nil:
		instance = call.Begin.Instance
	case call.Subscribe != nil:
		instance = call.Subscribe.Instance
	case call.Assign != nil:
		instance = call.Assign.Instance
	case call.Commit != nil:
		instance = call.Commit.Instance
	case call.End != nil:
		instance = call.End.Instance
	}
	base, number, numbered := strings.Cut(instance, "~")
	return base == name && (!numbered || number == strconv.Itoa(int(v.incarnation)))
}

// offsetRecord checks who committed, and that all below was processed.
func (w *model) offsetRecord(before snapshot, call *Call, rec record) {
	p := rec.part
	switch {
	case rec.offset == nil:
		delete(w.base, p)
		if _, there := w.lab.topics.TopicByID(p.topic); there && (call == nil || call.DeleteGroup == nil) {
			w.fail("the committed offset of %v is gone", p)
		}
		return
	case rec.offset.initial:
		if _, ok := w.base[p]; !ok {
			w.base[p] = rec.offset.offset
		}
		return
	case call.Reset != nil:
		return
	}
	w.seen["committed"]++
	owner, held := before.owned[p], false
	for name, v := range before.members {
		if callOf(call, name, v) {
			held = owner == v || owner == nil && slices.Contains(v.assigned, p)
		}
	}
	if !held {
		w.fail("%v is committed by %+v, %+v, which doesn't own it", p, call.Commit, call.Begin)
	}
	for at := w.base[p]; at < rec.offset.offset; at++ {
		if !w.processed[p][at] {
			w.fail("%v is committed up to %d, but nobody has processed %d", p, rec.offset.offset, at)
			return
		}
	}
}

// acknowledged checks that a commit which was acknowledged is what is read back.
func (w *model) acknowledged(call *Call, err error) {
	if err != nil || call.Commit == nil {
		return
	}
	if w.sent[call.ID] {
		return // others may have committed since it was done
	}
	w.sent[call.ID] = true
	for _, o := range call.Commit.Offsets {
		if _, there := w.lab.topics.TopicByID(o.TopicID); !there {
			continue // dropped with its topic (G7)
		}
		if v := w.shadow.offsets[o.part()]; v == nil || v.offset != o.Offset || v.initial {
			w.fail("commit of %d for %v was acknowledged, but there is %+v", o.Offset, o.part(), v)
		}
	}
}

// quiesce has every living process poll, as the silent ones expire, until everything
// that is subscribed to has an owner.
func (w *model) quiesce() {
	w.calm = true
	defer func() { w.calm = false }()
	for range 14 {
		w.lab.pass(time.Second)
		w.tick()
		for _, c := range w.clients {
			c.calmly()
		}
	}
	w.tick()
	for _, m := range w.lab.s.members {
		for _, t := range matching(w.lab.topics, m.v) {
			for p := range t.Partitions {
				if w.lab.s.owners[part{t.ID, p}] == nil {
					w.fail("nobody owns %s-%d, to which %s subscribes", t.Name, p, m.name)
				}
			}
		}
	}
	if w.lab.s.condition() == StateReconciling {
		for _, m := range w.lab.s.byName() {
			w.logf("%s is to give back %d; poll %+v", m.instance(), m.revoking, m.poll)
		}
		w.fail("the group doesn't come to rest")
	}
}

// lull has all processes die and all members expire, and somebody look after the group.
func (w *model) lull() {
	w.lab.pass(15 * time.Second)
	w.tick()
	w.clients = nil
	for range modelClients {
		w.clients = append(w.clients, w.newClient())
	}
	w.produce()
	w.admin()
	w.admin()
}
