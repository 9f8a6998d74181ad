package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
)

func topicOf(n byte, partitions int32) TopicInfo {
	return TopicInfo{Name: fmt.Sprintf("t%d", n), ID: uuid.UUID{n}, Partitions: partitions}
}

func subscribers(n int, topics ...TopicInfo) []subscriber {
	var all []subscriber
	for i := range n {
		all = append(all, subscriber{name: fmt.Sprintf("m%03d", i), topics: topics})
	}
	return all
}

// ownersOf makes a target what everybody owns.
func ownersOf(target map[part]string) func(part) string {
	return func(p part) string { return target[p] }
}

func nobody(part) string { return "" }

func loads(members []subscriber, target map[part]string) []int {
	count := map[string]int{}
	for _, name := range target {
		count[name]++
	}
	var all []int
	for _, m := range members {
		all = append(all, count[m.name])
	}
	return all
}

func moves(before, after map[part]string) int {
	n := 0
	for p, name := range after {
		if was, ok := before[p]; ok && was != name {
			n++
		}
	}
	return n
}

func TestDistributeIsUniform(t *testing.T) {
	for _, c := range []struct{ members, topics, partitions int }{{1, 1, 1}, {3, 1, 1}, {2, 1, 4}, {3, 2, 4}, {7, 5, 3}, {100, 10, 100}} {
		var topics []TopicInfo
		for i := range c.topics {
			topics = append(topics, topicOf(byte(i), int32(c.partitions)))
		}
		members := subscribers(c.members, topics...)
		target := distribute(members, nobody)
		if len(target) != c.topics*c.partitions {
			t.Fatalf("%+v: %d partitions have an owner", c, len(target))
		}
		all := loads(members, target)
		if slices.Max(all)-slices.Min(all) > 1 {
			t.Errorf("%+v: loads %v", c, all)
		}
		if again := distribute(members, nobody); !maps.Equal(again, target) {
			t.Errorf("%+v: not the same twice", c)
		}
		if still := distribute(members, ownersOf(target)); !maps.Equal(still, target) {
			t.Errorf("%+v: %d moves without a reason", c, moves(target, still))
		}
	}
}

// At a join only what the newcomer gets moves, at a leave only what the leaver had.
func TestDistributeMovesAsLittleAsPossible(t *testing.T) {
	topics := []TopicInfo{topicOf(1, 13), topicOf(2, 20), topicOf(3, 7)} // 40
	for n := 1; n < 45; n++ {
		members := subscribers(n, topics...)
		before := distribute(members, nobody)
		more := subscribers(n+1, topics...)
		after := distribute(more, ownersOf(before))
		newest := loads(more, after)[n]
		if got := moves(before, after); got != newest || newest != 40/(n+1) {
			t.Errorf("%d members and one more: %d moves, %d for it", n, got, newest)
		}
		left := distribute(members, ownersOf(after))
		if got := moves(after, left); got != newest {
			t.Errorf("one of %d leaves: %d moves, it had %d", n+1, got, newest)
		}
	}
}

func TestDistributeChainsMovesBetweenSubscriptions(t *testing.T) {
	shared, other := topicOf(1, 2), topicOf(2, 1)
	members := []subscriber{
		{name: "a", topics: []TopicInfo{shared}},
		{name: "b", topics: []TopicInfo{shared, other}},
		{name: "c", topics: []TopicInfo{other}},
	}
	before := map[part]string{{shared.ID, 0}: "a", {shared.ID, 1}: "a", {other.ID, 0}: "b"}
	after := distribute(members, ownersOf(before))
	if got := loads(members, after); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("loads %v: %v", got, after)
	}
}

// Small cases at random against all distributions that there are.
func TestDistributeIsAsEvenAsSubscriptionsAllow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		topics := []TopicInfo{topicOf(1, rng.Int32N(3)+1), topicOf(2, rng.Int32N(3)+1), topicOf(3, 1)}
		members := subscribers(rng.IntN(3) + 1)
		owned := map[part]string{}
		for i := range members {
			for _, topic := range topics {
				if rng.IntN(2) == 0 {
					members[i].topics = append(members[i].topics, topic)
				}
				for p := range topic.Partitions {
					if rng.IntN(3) == 0 {
						owned[part{topic.ID, p}] = members[i].name
					}
				}
			}
		}
		target := distribute(members, ownersOf(owned))
		got := loads(members, target)
		slices.Sort(got)
		best := bestLoads(members, topics)
		if !slices.Equal(got, best) {
			t.Fatalf("round %d: loads %v, best %v\n%+v", round, got, best, members)
		}
		for p, name := range target {
			if i := slices.IndexFunc(members, func(m subscriber) bool { return m.name == name }); !slices.ContainsFunc(members[i].topics, func(x TopicInfo) bool { return x.ID == p.topic }) {
				t.Fatalf("round %d: %s owns %v without a subscription", round, name, p)
			}
		}
	}
}

// bestLoads tries everything: the sorted loads with the least sum of squares.
func bestLoads(members []subscriber, topics []TopicInfo) []int {
	var choices [][]int
	for _, topic := range topics {
		var who []int
		for i, m := range members {
			if slices.ContainsFunc(m.topics, func(x TopicInfo) bool { return x.ID == topic.ID }) {
				who = append(who, i)
			}
		}
		for range topic.Partitions {
			if len(who) > 0 {
				choices = append(choices, who)
			}
		}
	}
	var best []int
	least := -1
	count := make([]int, len(members))
	var try func(int)
	try = func(i int) {
		if i == len(choices) {
			sum := 0
			for _, n := range count {
				sum += n * n
			}
			if least < 0 || sum < least {
				least, best = sum, slices.Sorted(slices.Values(count))
			}
			return
		}
		for _, m := range choices[i] {
			count[m]++
			try(i + 1)
			count[m]--
		}
	}
	try(0)
	return best
}

// The bound that was set is 100 ms for 1,000 partitions over 100 members.
func BenchmarkDistribute(b *testing.B) {
	for _, c := range []struct{ members, topics, partitions int }{{100, 10, 100}, {100, 1, 1000}, {1000, 100, 100}} {
		var topics []TopicInfo
		for i := range c.topics {
			topics = append(topics, topicOf(byte(i), int32(c.partitions)))
		}
		members := subscribers(c.members, topics...)
		name := fmt.Sprintf("%dx%d over %d", c.topics, c.partitions, c.members)
		b.Run(name+"/anew", func(b *testing.B) {
			for b.Loop() {
				distribute(members, nobody)
			}
		})
		one := distribute(members[:1], nobody)
		b.Run(name+"/from one", func(b *testing.B) {
			for b.Loop() {
				distribute(members, ownersOf(one))
			}
		})
		less := distribute(members[1:], nobody)
		b.Run(name+"/join", func(b *testing.B) {
			for b.Loop() {
				distribute(members, ownersOf(less))
			}
		})
		mixed := slices.Clone(members)
		for i := range mixed {
			mixed[i].topics = nil
			for j, topic := range topics {
				if (i+j)%3 != 0 || len(topics) == 1 {
					mixed[i].topics = append(mixed[i].topics, topic)
				}
			}
		}
		b.Run(name+"/mixed", func(b *testing.B) {
			for b.Loop() {
				distribute(mixed, ownersOf(less))
			}
		})
	}
}
