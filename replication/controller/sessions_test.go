package controller

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

func stateOf(brokers ...*Broker) *State {
	s := newState()
	for _, b := range brokers {
		s.Brokers[b.ID] = b
	}
	return s
}

func ids(brokers []*Broker) []int32 {
	out := []int32{}
	for _, b := range brokers {
		out = append(out, b.ID)
	}
	return out
}

func TestR70_SessionsEndBySilence(t *testing.T) {
	const s, tick = time.Second, 100 * time.Millisecond
	state := stateOf(&Broker{ID: 1, Epoch: 10}, &Broker{ID: 2, Epoch: 20}, &Broker{ID: 3, Epoch: 30, Fenced: true})
	now := 5 * s
	sess := newSessions(6*s, 0, state, now)
	step := func(d time.Duration) []int32 {
		var last []int32
		for range d / tick {
			now += tick
			last = ids(sess.expired(state, now, tick))
		}
		return last
	}
	// Nobody was heard yet in this term: everybody has a whole session (R59).
	if got := step(6 * s); len(got) != 0 {
		t.Errorf("fenced within the first session: %v", got)
	}
	sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 10}, 0, now)
	if got := step(tick); !reflect.DeepEqual(got, []int32{2}) {
		t.Errorf("after the first session: %v", got)
	}
	if got := step(6*s - tick); !reflect.DeepEqual(got, []int32{2}) {
		t.Errorf("broker 1 within its session: %v", got)
	}
	if got := step(tick); !reflect.DeepEqual(got, []int32{1, 2}) {
		t.Errorf("broker 1 after it: %v", got)
	}
	// A heartbeat of a former life is none; a later life begins anew.
	sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 9}, 0, now)
	if got := ids(sess.expired(state, now, tick)); !reflect.DeepEqual(got, []int32{1, 2}) {
		t.Errorf("R68: after a heartbeat of a former life: %v", got)
	}
	state.Brokers[1] = &Broker{ID: 1, Epoch: 40}
	if got := ids(sess.expired(state, now, tick)); !reflect.DeepEqual(got, []int32{2}) {
		t.Errorf("a new life: %v", got)
	}
	// Who says goodbye needn't be waited for.
	sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 40, Leaving: true}, 0, now)
	if got := ids(sess.expired(state, now, tick)); !reflect.DeepEqual(got, []int32{1, 2}) || sess.alive(1, 40, now) {
		t.Errorf("after a goodbye: %v", got)
	}
}

// The leader's process stood still: the time that it didn't listen isn't counted.
func TestF29_AStallIsNobodysSilence(t *testing.T) {
	const s, tick = time.Second, 100 * time.Millisecond
	state := stateOf(&Broker{ID: 1, Epoch: 10}, &Broker{ID: 2, Epoch: 20})
	sess := newSessions(6*s, 0, state, s)
	sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 10}, 0, s)
	sess.expired(state, s+tick, tick)
	now := s + tick + 30*s
	if got := ids(sess.expired(state, now, tick)); len(got) != 0 {
		t.Errorf("after 30 s of SIGSTOP: %v fenced", got)
	}
	for range 55 {
		now += tick
		if got := ids(sess.expired(state, now, tick)); len(got) != 0 {
			t.Fatalf("%s after the stall: %v fenced", now-31*s, got)
		}
	}
	for range 10 {
		now += tick
		sess.expired(state, now, tick)
	}
	if got := ids(sess.expired(state, now, tick)); !reflect.DeepEqual(got, []int32{1, 2}) {
		t.Errorf("silent since: %v", got)
	}
}

func TestR99_OldMetadataEndASession(t *testing.T) {
	const s = time.Second
	state := stateOf(&Broker{ID: 1, Epoch: 10})
	sess := newSessions(6*s, 0, state, 0)
	for i := range 20 {
		now := time.Duration(i) * s
		sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 10, MetadataIndex: 50}, 100+uint64(i), now)
		if got, want := sess.behind(1, now), i > 6; got != want {
			t.Errorf("after %s at index 50 of 100: behind: %v", now, got)
		}
		if got, want := len(sess.expired(state, now, s)) == 1, i > 6; got != want {
			t.Errorf("after %s: to be fenced: %v", now, got)
		}
	}
	// It may lag for ever as long as it goes on: each index within a session.
	sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 10, MetadataIndex: 119}, 200, 20*s)
	for i := range 20 {
		now := time.Duration(21+i) * s
		sess.beat(&wire.Heartbeat{Broker: 1, BrokerEpoch: 10, MetadataIndex: uint64(130 + 20*i)}, uint64(200+20*i), now)
		if sess.behind(1, now) {
			t.Errorf("behind at %s", now)
		}
	}
}

func TestR67_OnlyWhoWasHeardIsADuplicate(t *testing.T) {
	const s = time.Second
	var now time.Duration
	state := stateOf(&Broker{ID: 1, Epoch: 10, Incarnation: uuid.New()}, &Broker{ID: 2, Epoch: 20, Incarnation: uuid.New()})
	term := &term{clock: func() time.Duration { return now }, sessions: newSessions(6*s, 0, state, 0)}
	again := func(id int32) error {
		r, err := term.admit(&RegisterBroker{ID: id, Incarnation: uuid.New()}, state, 1)
		if err == nil && r.Replaces != state.Brokers[id].Epoch {
			t.Errorf("broker %d: replaces %d", id, r.Replaces)
		}
		return err
	}
	duplicate := (*DuplicateBrokerError)(nil)
	if err := again(2); err != nil {
		t.Errorf("not heard in this term: %v", err)
	}
	for id := range int32(2) {
		term.sessions.beat(&wire.Heartbeat{Broker: id + 1, BrokerEpoch: int64(10 * (id + 1))}, 0, now)
	}
	if err := again(2); !errors.As(err, &duplicate) {
		t.Errorf("heard just now: %v", err)
	}
	if err := again(1); err != nil {
		t.Errorf("the leader's own broker: %v", err)
	}
	if _, err := term.admit(&RegisterBroker{ID: 2, Incarnation: state.Brokers[2].Incarnation}, state, 1); err != nil {
		t.Errorf("the same incarnation: %v", err)
	}
	now = 6*s + 1
	if err := again(2); err != nil {
		t.Errorf("silent for a session: %v", err)
	}
}

// All that the state machine can answer gets to another broker as it was.
func TestOutcomesGoOverTheWire(t *testing.T) {
	for kind, example := range refusals() {
		v := reflect.ValueOf(example).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString("text of " + kind)
			case reflect.Int, reflect.Int32, reflect.Int64:
				f.SetInt(7)
			case reflect.Uint64:
				f.SetUint(7)
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"a", "b"}))
			default:
				t.Fatalf("%s: field of %s", kind, f.Kind())
			}
		}
		res, refused := encodeOutcome(nil, example)
		if got, err := decodeOutcome(res, refused); got != nil || !reflect.DeepEqual(err, example) {
			t.Errorf("%s: got %v, %#v; want %#v", kind, got, err, example)
		}
	}
	for _, result := range []any{nil, &Topic{Name: "a", ID: uuid.New(), Partitions: []Partition{{Replicas: []int32{1}, Leader: NoLeader}}}, &Broker{ID: 3, Epoch: 9},
		[]wire.AlterResult{{Code: wire.CodeIneligibleReplica}, {LeaderEpoch: 2, ISR: []int32{1}}}} {
		res, refused := encodeOutcome(result, nil)
		if got, err := decodeOutcome(res, refused); err != nil || !reflect.DeepEqual(got, result) {
			t.Errorf("got %#v, %v; want %#v", got, err, result)
		}
	}
	res, refused := encodeOutcome(nil, errDisk)
	if got, err := decodeOutcome(res, refused); got != nil || !errors.Is(err, errOther) {
		t.Errorf("an unknown kind: %v, %v", got, err)
	}
	if _, err := decodeOutcome(json.RawMessage("{"), nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("half an answer: %v", err)
	}
}

func TestR66_R68_TheLifeOfABroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tc := startCluster(t, 3)
		leader := tc.leader()
		ctx := context.Background()
		var n *testNode
		for _, other := range tc.alive() {
			if other != leader {
				n = other
			}
		}
		topic := tc.create(n.id, "a", 3, 3)
		hb := wire.Heartbeat{Version: wire.Version, Broker: n.id, BrokerEpoch: n.c.BrokerEpoch(), MetadataIndex: n.c.State().Index}
		if got := n.c.ServeHeartbeat(ctx, &hb); got.Code != wire.CodeNotController || got.LeaderURL != leader.url {
			t.Errorf("who doesn't lead: %+v", got)
		}
		if got := tc.heartbeat(&hb); got.Code != wire.OK || got.Fenced || got.MetadataIndex == 0 {
			t.Errorf("the leader: %+v", got)
		}
		for _, epoch := range []int64{hb.BrokerEpoch - 1, hb.BrokerEpoch + 1, 0} {
			stale := hb
			stale.BrokerEpoch = epoch
			if got := tc.heartbeat(&stale); got.Code != wire.CodeStaleBrokerEpoch {
				t.Errorf("R68: epoch %d: %+v", epoch, got)
			}
		}

		// Fenced by its own wish it leads nothing, and unfenced again it may.
		if err := n.c.Fence(ctx); err != nil {
			t.Fatal(err)
		}
		if n.c.SessionValid() {
			t.Error("R59: a fenced broker is valid")
		}
		now, _ := n.c.State().TopicByID(topic.ID)
		for i, p := range now.Partitions {
			if p.Leader == n.id || p.Leader == NoLeader {
				t.Errorf("R69: partition %d is led by %d", i, p.Leader)
			}
		}
		// Not before it knows of its registration (R66).
		early := hb
		early.MetadataIndex = uint64(hb.BrokerEpoch) - 1
		if got := tc.heartbeat(&early); got.Code != wire.OK || !got.Fenced {
			t.Errorf("R66: %+v", got)
		}
		if err := n.c.Unfence(ctx); err != nil {
			t.Fatal(err)
		}
		tc.eventually("a session again", n.c.SessionValid)

		// Killed, it is fenced after its session, and a restart is another life.
		was := n.c.BrokerEpoch()
		tc.kill(n.id)
		tc.eventually("fenced", func() bool { return leader.c.State().Brokers[n.id].Fenced })
		tc.upAll(n.id)
		if n.c.BrokerEpoch() <= was {
			t.Errorf("R67: epoch %d after %d", n.c.BrokerEpoch(), was)
		}
		// Stopped in order, it is fenced at once.
		began := leader.c.clock()
		tc.stop(n.id)
		tc.eventually("fenced", func() bool { return leader.c.State().Brokers[n.id].Fenced })
		if took := leader.c.clock() - began; took > defaultSessionTimeout/2 {
			t.Errorf("it took %s to notice a goodbye", took)
		}
	})
}

// Whoever leads next, and whenever: a broker is never fenced while it may count on
// the last heartbeat that was answered, also when an election needed no silence.
func TestR59_ALeaseEndsBeforeTheNextLeaderFences(t *testing.T) {
	for _, timing := range []Timing{{}, aloneTiming, {400 * time.Millisecond, 400 * time.Millisecond, 250 * time.Millisecond}, {10 * time.Second, 10 * time.Second, time.Second}} {
		for _, timeout := range []time.Duration{time.Second, 2 * time.Second, defaultSessionTimeout, time.Minute} {
			c := &Controller{cfg: Config{SessionTimeout: timeout, Timing: timing}, dir: &raftDir{}}
			const sent = time.Hour
			lease := sent + timeout*leaseNumerator/leaseDenominator
			state := stateOf(&Broker{ID: 1, Epoch: 1})
			next := newSessions(timeout, c.silence(), state, sent) // it was answered at the last moment
			if got := next.expired(state, lease, timeout); len(got) != 0 {
				t.Errorf("timing %v, session %s: fenced while its lease lasts", timing, timeout)
			}
			if got := next.expired(state, sent+timeout+1, timeout); len(got) != 1 {
				t.Errorf("timing %v, session %s: not fenced after its session", timing, timeout)
			}
		}
	}
}
