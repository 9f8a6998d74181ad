package controller

import (
	"fmt"
	"slices"
	"testing"
)

// Leaders and replicas are spread evenly, within a topic and over many small ones,
// and a broker's leaderships fall to all the others when it fails.
func TestReplicasAreSpread(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 9} {
		brokers := make([]int32, n)
		for i := range brokers {
			brokers[i] = int32(10 + i)
		}
		for factor := 1; factor <= min(n, 5); factor++ {
			const topics = 360 // a multiple of n(n-1) for each n
			for name, made := range map[string][][]int32{"one topic": assign(brokers, 7, topics, factor), "many topics": nil} {
				if made == nil {
					for start := range topics {
						made = append(made, assign(brokers, start, 1, factor)...)
					}
				}
				what := fmt.Sprintf("%d brokers, factor %d, %s", n, factor, name)
				leads, has := map[int32]int{}, map[int32]int{}
				heirs := map[int32]map[int32]int{}
				for _, replicas := range made {
					if len(replicas) != factor || repeats(replicas) {
						t.Fatalf("%s: replicas %v", what, replicas)
					}
					leads[replicas[0]]++
					for _, id := range replicas {
						has[id]++
					}
					if factor > 1 {
						if heirs[replicas[0]] == nil {
							heirs[replicas[0]] = map[int32]int{}
						}
						heirs[replicas[0]][replicas[1]]++
					}
				}
				for _, id := range brokers {
					if leads[id] != topics/n || has[id] != topics/n*factor {
						t.Errorf("%s: broker %d leads %d, has %d", what, id, leads[id], has[id])
					}
					for heir, k := range heirs[id] {
						if want := topics / n / (n - 1); k < want-1 || k > want+1 {
							t.Errorf("%s: of broker %d's leaderships %d fall to %d, not %d", what, id, k, heir, want)
						}
					}
				}
			}
		}
	}
}

// TestR88_ATopicIsCreatedWhileABrokerIsDown: brokers that are alive get the
// replicas, and one that isn't only where they are too few; it is not in sync.
func TestR88_ATopicIsCreatedWhileABrokerIsDown(t *testing.T) {
	m := newMachine(t)
	for id := int32(1); id <= 4; id++ {
		m.broker(id)
	}
	m.set(2, true, false)
	if got := m.state.brokersFor(3); !slices.Equal(got, []int32{1, 3, 4}) {
		t.Errorf("three replicas go to %d", got)
	}
	m.set(4, true, false)
	if got := m.state.brokersFor(3); !slices.Equal(got, []int32{1, 2, 3}) {
		t.Errorf("three replicas go to %d", got)
	}
	if got := m.state.brokersFor(5); len(got) != 4 {
		t.Errorf("five replicas go to %d", got)
	}
	m.topic("a", assign(m.state.brokersFor(3), 0, 3, 3)...)
	for i := range 3 {
		p := m.partition("a", i)
		if slices.Contains(p.ISR, 2) || len(p.ISR) != 2 || p.Leader == NoLeader || p.Leader == 2 || len(p.Replicas) != 3 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	for _, id := range []int32{1, 3} {
		m.set(id, true, false)
	}
	if got := m.state.brokersFor(1); len(got) != 0 {
		t.Errorf("with nobody alive replicas go to %d", got)
	}
}
