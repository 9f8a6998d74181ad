package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestKillMinus9Loop kills a broker at random moments under producers at every
// acks level. After each restart every record that was answered with success at
// acks 1 or -1 is there once, at the offset that was answered, with equal bytes
// and in its writer's order; kill -9 leaves the page cache alone, so acks=1 must
// survive it too. Nothing that was answered as not written is there.
//
// HIGHWATER_KILL_ROUNDS sets the number of rounds, HIGHWATER_KILL_SEED the seed.
func TestKillMinus9Loop(t *testing.T) {
	t.Parallel()
	rounds := number(t, "HIGHWATER_KILL_ROUNDS", 10)
	seed := uint64(number(t, "HIGHWATER_KILL_SEED", int(time.Now().UnixNano()%1e9)+1))
	t.Logf("HIGHWATER_KILL_SEED=%d HIGHWATER_KILL_ROUNDS=%d", seed, rounds)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	const partitions = 3
	f := newFleet(t, 9, []string{"orders", "sensors"}, partitions, "0", "1", "-1")
	v := newVerifier()

	b := start(t, dir)
	c := newClient(t, b.url)
	for _, topic := range f.topics { // small segments: rolls happen in every round
		c.must(t, 201, "PUT", "/topics/"+topic, "application/json",
			fmt.Sprintf(`{"partitions":%d,"configs":{"segment.bytes":"65536"}}`, partitions))
	}
	for round := range rounds {
		wait := f.launch(context.Background(), b.url, seed+uint64(round)+1)
		f.await(b, 1+rnd.IntN(300))
		b.kill()
		wait()
		if rnd.IntN(4) == 0 { // again, while it recovers
			b = launch(t, dir)
			select {
			case <-b.started:
			case <-b.exited:
			}
			b.kill()
		}
		b = start(t, dir)
		v.check(t, f, newClient(t, b.url))
		f.ledger.missing(t)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	// Once more from the start: nothing old has changed.
	b.kill()
	b = start(t, dir)
	newVerifier().check(t, f, newClient(t, b.url))
	t.Logf("%d acknowledged records over %d kills", f.ledger.missing(t), rounds)
	b.stop()
}
