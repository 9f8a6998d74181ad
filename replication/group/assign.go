package group

import (
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
			target[part{topic: topic.ID, partition: int32(p)}] = members[m].name
		}
	}
	return target
}

// distribution is one on its way. Members, topics and classes go by their index.
type distribution struct {
	topics   []TopicInfo
	takers   [][]int // of each topic: the classes that subscribe to it
	owner    [][]int // of each topic's partitions, before; -1: none
	holder   [][]int // the same, now
	classes  []class
	classOf  []int       // of each member
	place    []int       // of each member in its class's order
	load     []int       // of each member: how many it holds
	acquired []int       // of each member: how many of those it didn't own
	held     [][][]int32 // of each member and topic of its class: partitions
	size     int
}

// class are the members that subscribe to the same topics.
type class struct {
	topics  []int
	members []int // by load
}

func newDistribution(members []subscriber, owner func(part) string) *distribution {
	d := &distribution{
		classOf: make([]int, len(members)), place: make([]int, len(members)), load: make([]int, len(members)),
		acquired: make([]int, len(members)), held: make([][][]int32, len(members)),
	}
	index := d.indexTopics(members)
	names := make(map[string]int, len(members))
	classes := map[string]int{}
	for i, m := range members {
		names[m.name] = i
		set := make([]int, 0, len(m.topics))
		for _, topic := range m.topics {
			set = append(set, index[topic.ID])
		}
		slices.Sort(set)
		set = slices.Compact(set)
		d.classify(classes, i, set)
		d.held[i] = make([][]int32, len(set))
	}
	d.takers = make([][]int, len(d.topics))
	for c := range d.classes {
		for _, t := range d.classes[c].topics {
			d.takers[t] = append(d.takers[t], c)
		}
	}
	for t, topic := range d.topics {
		d.owner = append(d.owner, make([]int, topic.Partitions))
		d.holder = append(d.holder, make([]int, topic.Partitions))
		for p := range d.owner[t] {
			d.owner[t][p], d.holder[t][p] = -1, -1
			m, ok := names[owner(part{topic: topic.ID, partition: int32(p)})]
			if ok && slices.Contains(d.takers[t], d.classOf[m]) {
				d.owner[t][p] = m
				d.give(t, p, m)
			}
		}
		d.size += int(topic.Partitions)
	}
	return d
}

func (d *distribution) indexTopics(members []subscriber) map[uuid.UUID]int {
	index := map[uuid.UUID]int{}
	for _, m := range members {
		for _, t := range m.topics {
			if _, ok := index[t.ID]; !ok {
				index[t.ID] = 0
				d.topics = append(d.topics, t)
			}
		}
	}
	slices.SortFunc(d.topics, func(a, b TopicInfo) int { return slices.Compare(a.ID[:], b.ID[:]) })
	for t, topic := range d.topics {
		index[topic.ID] = t
	}
	return index
}

// classify puts a member into the class of its topics.
func (d *distribution) classify(classes map[string]int, m int, set []int) {
	key := make([]byte, 0, 4*len(set))
	for _, t := range set {
		key = append(key, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	c, ok := classes[string(key)]
	if !ok {
		c = len(d.classes)
		classes[string(key)] = c
		d.classes = append(d.classes, class{topics: set})
	}
	d.classOf[m], d.place[m] = c, len(d.classes[c].members)
	d.classes[c].members = append(d.classes[c].members, m)
}

// of is the list of partitions of a topic that a member holds.
func (d *distribution) of(m, t int) *[]int32 {
	i, _ := slices.BinarySearch(d.classes[d.classOf[m]].topics, t)
	return &d.held[m][i]
}

func (d *distribution) give(t, p, m int) {
	d.holder[t][p] = m
	held := d.of(m, t)
	*held = append(*held, int32(p))
	if d.owner[t][p] != m {
		d.acquired[m]++
	}
	// It is the last of those with its load, and then the first with one more.
	members := d.classes[d.classOf[m]].members
	more, _ := slices.BinarySearchFunc(members, d.load[m]+1, func(m, load int) int { return d.load[m] - load })
	d.swap(members, d.place[m], more-1)
	d.load[m]++
}

// takeFrom takes a partition from a member: the one at i of those of a topic.
func (d *distribution) takeFrom(m, t, i int) (p int) {
	held := d.of(m, t)
	p = int((*held)[i])
	*held = slices.Delete(*held, i, i+1)
	if d.owner[t][p] != m {
		d.acquired[m]--
	}
	members := d.classes[d.classOf[m]].members
	first, _ := slices.BinarySearchFunc(members, d.load[m], func(m, load int) int { return d.load[m] - load })
	d.swap(members, d.place[m], first)
	d.load[m]--
	return p
}

func (d *distribution) swap(members []int, i, j int) {
	members[i], members[j] = members[j], members[i]
	d.place[members[i]], d.place[members[j]] = i, j
}

func (c *class) least() int { return c.members[0] }
func (c *class) most() int  { return c.members[len(c.members)-1] }

// fill gives what nobody holds to whoever has least.
func (d *distribution) fill() {
	order := make([]int, len(d.topics)) // the least choice first
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(d.takers[a]) - len(d.takers[b]) })
	for _, t := range order {
		for p, m := range d.holder[t] {
			if m >= 0 {
				continue
			}
			best := d.classes[d.takers[t][0]].least()
			for _, c := range d.takers[t][1:] {
				if m := d.classes[c].least(); d.load[m] < d.load[best] {
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
	for again := true; again; {
		again = false
		stuck := make([]bool, len(d.classes))
		for {
			from := -1
			for c := range d.classes {
				if !stuck[c] && (from < 0 || d.load[d.classes[c].most()] > d.load[d.classes[from].most()]) {
					from = c
				}
			}
			if from < 0 {
				break
			}
			if d.relieve(from) {
				again = true
			} else {
				stuck[from] = true
			}
		}
		again = again && len(d.classes) > 1
	}
}

// hop is a step on the way of a partition: of a topic, from one class to another.
type hop struct{ from, topic, to int }

// relieve finds the shortest way to take one from the member of a class that holds
// most: a member gives a partition to a second, which gives another to a third, until
// one has at least two less than the first.
func (d *distribution) relieve(from int) bool {
	most := d.load[d.classes[from].most()]
	if to := d.classes[from].least(); d.load[to] <= most-2 {
		d.pass(d.classes[from].most(), to)
		return true
	}
	came := make([]hop, len(d.classes))
	for c := range came {
		came[c].from = -1
	}
	came[from].from = from
	seen := make([]bool, len(d.topics))
	to := -1
	for layer := []int{from}; len(layer) > 0 && to < 0; {
		var next []int
		for _, c := range layer {
			for i, t := range d.classes[c].topics {
				if seen[t] || !d.holds(c, i) {
					continue
				}
				seen[t] = true
				for _, other := range d.takers[t] {
					if came[other].from >= 0 {
						continue
					}
					came[other] = hop{from: c, topic: t, to: other}
					next = append(next, other)
					least := d.load[d.classes[other].least()]
					if least <= most-2 && (to < 0 || least < d.load[d.classes[to].least()]) {
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
	var way []hop
	for c := to; c != from; c = came[c].from {
		way = append(way, came[c])
	}
	slices.Reverse(way)
	d.follow(way)
	return true
}

// holds tells whether any member of a class holds any of its i-th topic.
func (d *distribution) holds(c, i int) bool {
	return slices.ContainsFunc(d.classes[c].members, func(m int) bool { return len(d.held[m][i]) > 0 })
}

// follow moves partitions along a way.
func (d *distribution) follow(way []hop) {
	from := d.classes[way[0].from].most()
	giver := d.holderIn(way[0].from, way[0].topic)
	if d.load[giver] < d.load[from] {
		d.pass(from, giver)
	}
	for i, h := range way {
		taker := d.classes[h.to].least()
		if i+1 < len(way) {
			taker = d.holderIn(h.to, way[i+1].topic)
		}
		d.move(h.topic, giver, taker)
		giver = taker
	}
}

// holderIn is who holds most of all in a class, of those that hold any of a topic.
func (d *distribution) holderIn(c, t int) int {
	members := d.classes[c].members
	for i := len(members) - 1; ; i-- {
		if len(*d.of(members[i], t)) > 0 {
			return members[i]
		}
	}
}

// pass moves a partition within a class: one that its holder didn't own, if there is
// any, or else one of the topic that it holds most of.
func (d *distribution) pass(from, to int) {
	topics := d.classes[d.classOf[from]].topics
	best := -1
	for i, t := range topics {
		if d.acquired[from] > 0 && slices.ContainsFunc(d.held[from][i], func(p int32) bool { return d.owner[t][p] != from }) {
			best = i
			break
		}
		if best < 0 || len(d.held[from][i]) > len(d.held[from][best]) {
			best = i
		}
	}
	d.move(topics[best], from, to)
}

// move gives one partition of a topic to another member: one that its holder didn't
// own, if there is any, or else the last.
func (d *distribution) move(t, from, to int) {
	held := *d.of(from, t)
	i := len(held) - 1
	if d.acquired[from] > 0 {
		i = max(0, slices.IndexFunc(held, func(p int32) bool { return d.owner[t][p] != from }))
	}
	d.give(t, d.takeFrom(from, t, i), to)
}
