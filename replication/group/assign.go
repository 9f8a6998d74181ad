package group

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// subscriber is a member and the topics that it subscribes to and that there are.
type subscriber struct {
	name   string
	topics []TopicInfo
}

// distribute gives each partition of the members' topics to one that subscribes to
// it. The members have as equal numbers of partitions as their subscriptions allow:
// no chain of moves from one to another would bring two closer. Beyond that whatever
// has an owner stays with it, and nothing is left to chance. members come in the order
// of their names.
func distribute(members []subscriber, owner func(part) string) map[part]string {
	d := newDistribution(members, owner)
	d.fill()
	d.level()
	target := make(map[part]string, d.size)
	for t, topic := range d.topics {
		for p, m := range d.holder[t] {
			if m >= 0 {
				target[part{topic: topic.ID, partition: int32(p)}] = members[m].name
			}
		}
	}
	return target
}

// distribution is one on its way. Members and topics go by their index.
type distribution struct {
	topics      []TopicInfo
	subscribers [][]int   // of each topic
	owner       [][]int   // of each topic's partitions, before; -1: none
	holder      [][]int   // the same, now
	held        [][][]int // of each member and each of its topics (mine): partitions
	mine        [][]int   // of each member: its topics
	load        []int     // of each member: how many it holds
	size        int
}

func newDistribution(members []subscriber, owner func(part) string) *distribution {
	d := &distribution{
		held: make([][][]int, len(members)), mine: make([][]int, len(members)), load: make([]int, len(members)),
	}
	names := make(map[string]int, len(members))
	index := map[uuid.UUID]int{}
	for i, m := range members {
		names[m.name] = i
		for _, t := range m.topics {
			if _, ok := index[t.ID]; !ok {
				index[t.ID] = 0
				d.topics = append(d.topics, t)
			}
		}
	}
	slices.SortFunc(d.topics, func(a, b TopicInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	for t, topic := range d.topics {
		index[topic.ID] = t
	}
	d.subscribers = make([][]int, len(d.topics))
	for i, m := range members {
		for _, topic := range m.topics {
			t := index[topic.ID]
			if n := len(d.subscribers[t]); n > 0 && d.subscribers[t][n-1] == i {
				continue
			}
			d.subscribers[t] = append(d.subscribers[t], i)
			d.mine[i] = append(d.mine[i], t)
		}
		slices.Sort(d.mine[i])
		d.held[i] = make([][]int, len(d.mine[i]))
	}
	for t, topic := range d.topics {
		d.owner = append(d.owner, make([]int, topic.Partitions))
		d.holder = append(d.holder, make([]int, topic.Partitions))
		for p := range d.owner[t] {
			d.owner[t][p], d.holder[t][p] = -1, -1
			m, ok := names[owner(part{topic: topic.ID, partition: int32(p)})]
			if _, subscribes := slices.BinarySearch(d.subscribers[t], m); ok && subscribes {
				d.owner[t][p] = m
				d.give(t, p, m)
			}
		}
		d.size += int(topic.Partitions)
	}
	return d
}

// of is the list of partitions of a topic that a member holds.
func (d *distribution) of(m, t int) *[]int {
	i, _ := slices.BinarySearch(d.mine[m], t)
	return &d.held[m][i]
}

func (d *distribution) give(t, p, m int) {
	d.holder[t][p] = m
	held := d.of(m, t)
	*held = append(*held, p)
	d.load[m]++
}

// fill gives what nobody holds to whoever has least.
func (d *distribution) fill() {
	order := make([]int, len(d.topics)) // the least choice first
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(d.subscribers[a]) - len(d.subscribers[b]) })
	for _, t := range order {
		for p, m := range d.holder[t] {
			if m >= 0 {
				continue
			}
			best := d.subscribers[t][0]
			for _, m := range d.subscribers[t][1:] {
				if d.load[m] < d.load[best] || d.load[m] == d.load[best] && len(*d.of(m, t)) < len(*d.of(best, t)) {
					best = m
				}
			}
			d.give(t, p, best)
		}
	}
}

// level moves partitions from those that hold most, as long as there is a path to one
// that holds at least two less. That is as even as it gets: a distribution without
// such a path is the best one.
func (d *distribution) level() {
	order := make([]int, len(d.load))
	for m := range order {
		order[m] = m
	}
	for again := true; again; {
		again = false
		slices.SortStableFunc(order, func(a, b int) int { return d.load[b] - d.load[a] })
		for _, m := range order {
			for d.relieve(m) {
				again = true
			}
		}
	}
}

// relieve finds the shortest way to take one from a member: it gives a partition to a
// second, which gives another to a third, until one has at least two less than the first.
func (d *distribution) relieve(from int) bool {
	if slices.Min(d.load) > d.load[from]-2 {
		return false
	}
	type step struct{ member, topic int } // who gave, and of which topic
	came := make(map[int]step, len(d.load))
	came[from] = step{member: -1}
	seen := make([]bool, len(d.topics))
	to := -1
	for layer := []int{from}; len(layer) > 0 && to < 0; {
		var next []int
		for _, m := range layer {
			for i, t := range d.mine[m] {
				if seen[t] || len(d.held[m][i]) == 0 {
					continue
				}
				seen[t] = true
				for _, other := range d.subscribers[t] {
					if _, ok := came[other]; ok {
						continue
					}
					came[other] = step{member: m, topic: t}
					next = append(next, other)
					if d.load[other] <= d.load[from]-2 && (to < 0 || d.load[other] < d.load[to]) {
						to = other
					}
				}
			}
		}
		layer = next
	}
	if to < 0 {
		return false
	}
	for m := to; m != from; m = came[m].member {
		d.move(came[m].topic, came[m].member, m)
	}
	return true
}

// move gives one partition of a topic to another member: one that is that member's
// already, or else that isn't the holder's yet, or else the last.
func (d *distribution) move(t, from, to int) {
	held := d.of(from, t)
	best, rank := 0, -1
	for i, p := range *held {
		r := 0
		switch d.owner[t][p] {
		case to:
			r = 2
		case from:
		default:
			r = 1
		}
		if r > rank || r == rank && p > (*held)[best] {
			best, rank = i, r
		}
	}
	p := (*held)[best]
	*held = slices.Delete(*held, best, best+1)
	d.load[from]--
	d.give(t, p, to)
}
