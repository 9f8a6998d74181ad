package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"chaos/history"
)

// lateness is how long a request without an answer may still be on its way to the
// group's coordinator: a broker that was paused or cut off may pass it on.
const lateness = 20 * int64(1e9)

// pollSlack is what a poll may take beyond its timeout (V15).
const pollSlack = int64(1e9)

// life is one incarnation of a member.
type life struct {
	name   string
	member string
	group  string
	once   bool               // all its polls are one-call
	ops    []*history.GroupOp // by call
}

// run is what one answer gave of one partition, offsets [first, end).
type run struct {
	op         *history.GroupOp
	first, end int64
	repeat     bool // of an answer that was there before
}

// lane is one partition as one group reads it.
type lane struct {
	group   string
	key     history.Partition
	commits commits
	runs    []run // by return
	holds   []run // proofs that a life owned it: first answers, and commits; by return
	covered marks
}

func (l *lane) String() string {
	return fmt.Sprintf("group %s, %.8s-%d", l.group, l.key.Topic, l.key.Index)
}

// groups is what the history has of groups.
type groups struct {
	lives   map[string]*life
	byName  map[string][]*life // by group and member
	byLane  map[string]*lane
	lanes   []*lane
	trouble []span
	facts   GroupFacts
}

// GroupFacts is how often rare things happened to groups.
type GroupFacts struct {
	Moved        int // partitions that another member was given than before
	TakeOvers    int
	Fenced       int // commits that were refused because the member or its partition isn't the newest any more
	Forgotten    int // commits of all that was delivered, refused because a new coordinator can't know what that is
	Expired      int // members that were told that they are expired
	Coordinators int // changes of the leader of a partition of groups
	Repeats      int // records that were given again
	Repeated     int // polls repeated by their request id, with the same answer
	Running      int // polls refused because another was under way
	Unknown      int // commits without an answer
	FellBack     int // members whose position fell back to the last commit
	Slowest      int // ms that the slowest answer to a poll took beyond its timeout
}

func gname(op *history.GroupOp) string {
	who := op.Life
	if who == "" {
		who = op.Client
	}
	return fmt.Sprintf("op %d (%s of %s at broker %d, %.3f-%.3f s)", op.ID, op.Kind, who, op.Broker, float64(op.Call)/1e9, float64(op.Return)/1e9)
}

// Groups tells how often rare things happened to the groups of a history.
func Groups(h *history.History) GroupFacts {
	c := newChecker(h, Options{})
	return c.groups().facts
}

// groups checks all that is known of consumer groups.
func (c *checker) groups() *groups {
	g := c.newGroups()
	if len(c.h.Groups) == 0 {
		return g
	}
	for _, name := range sortedKeys(g.lives) {
		g.sort(g.lives[name])
	}
	for _, l := range g.lanes {
		l.sort()
	}
	for _, name := range sortedKeys(g.lives) {
		c.starts(g, g.lives[name])
		c.expelled(g, g.lives[name])
	}
	for _, l := range g.lanes {
		g.facts.Repeats += l.cover()
		c.owners(g, l)
		c.processed(l)
	}
	c.committed(g)
	c.takenOver(g)
	c.drained(g)
	c.polls(g)
	g.facts.Coordinators = c.coordinators()
	return g
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *checker) newGroups() *groups {
	g := &groups{lives: map[string]*life{}, byName: map[string][]*life{}, byLane: map[string]*lane{}}
	for _, op := range c.h.Groups {
		if op.Life == "" {
			continue
		}
		l := g.lives[op.Life]
		if l == nil {
			l = &life{name: op.Life, member: op.Member, group: op.Group}
			g.lives[op.Life] = l
			key := op.Group + "/" + op.Member
			g.byName[key] = append(g.byName[key], l)
		}
		l.once = l.once || op.OneCall
		l.ops = append(l.ops, op)
	}
	for _, l := range g.lives {
		slices.SortFunc(l.ops, func(a, b *history.GroupOp) int { return cmp.Compare(a.Call, b.Call) })
	}
	g.trouble = c.troubles()
	return g
}

// troubles is when some fault was on.
func (c *checker) troubles() (spans []span) {
	on := 0
	for _, e := range c.h.Events {
		switch e.What {
		case history.EventFault:
			if on++; on == 1 {
				spans = append(spans, span{e.At, never})
			}
		case history.EventMended:
			if on--; on == 0 {
				spans[len(spans)-1].to = e.At
			}
		}
	}
	return spans
}

func (g *groups) lane(group string, key history.Partition) *lane {
	name := fmt.Sprintf("%s %s-%d", group, key.Topic, key.Index)
	l := g.byLane[name]
	if l == nil {
		l = &lane{group: group, key: key}
		g.byLane[name] = l
		g.lanes = append(g.lanes, l)
	}
	return l
}

func (l *lane) sort() {
	byReturn := func(a, b run) int { return cmp.Compare(a.op.Return, b.op.Return) }
	slices.SortFunc(l.runs, byReturn)
	slices.SortFunc(l.holds, byReturn)
	l.commits.sort()
}

// runsOf are the partitions of an answer. That each is dense is checked as of any
// other read.
func runsOf(op *history.GroupOp) (runs map[history.Partition]run) {
	runs = map[history.Partition]run{}
	for _, r := range op.Records {
		x, known := runs[r.Partition]
		if !known {
			x = run{op: op, first: r.Offset}
		}
		x.end = r.Offset + 1
		runs[r.Partition] = x
	}
	return runs
}

// asReads are a poll's partitions as reads of a log, for what holds of all reads.
func asReads(op *history.GroupOp) (reads []*history.Op) {
	by := map[history.Partition]*history.Op{}
	for _, r := range op.Records {
		read := by[r.Partition]
		if read == nil {
			read = &history.Op{ID: op.ID, Client: op.Life, Kind: op.Kind, Partition: r.Partition, Broker: op.Broker, Call: op.Call, Return: op.Return,
				Outcome: op.Outcome, From: r.Offset, High: -1}
			by[r.Partition] = read
			reads = append(reads, read)
		}
		read.Records = append(read.Records, r.Record)
	}
	return reads
}

// sort sorts what one life did to its lanes, and counts.
func (g *groups) sort(l *life) {
	var last *history.GroupOp            // ok poll
	given := map[history.Partition]run{} // newest of each partition
	for _, op := range l.ops {
		switch op.Kind {
		case history.Poll:
			if op.Auto {
				g.autoCommit(l, op, given)
			}
			if op.Code == 40907 {
				g.facts.Running++
			}
			if op.Outcome != history.OK {
				continue
			}
			again := isRepeat(op, last)
			if again && sameRecords(op, last) {
				g.facts.Repeated++
			}
			for key, r := range runsOf(op) {
				r.repeat = again && sameRecords(op, last)
				lane := g.lane(op.Group, key)
				lane.runs = append(lane.runs, r)
				if !r.repeat && r.op.Return < r.op.Call+op.Session {
					lane.holds = append(lane.holds, r)
				}
				given[key] = r
			}
			last = op
		case history.Leave:
			if op.Auto && op.Outcome != history.NotWritten {
				g.autoCommit(l, op, given)
			}
		case history.Commit:
			g.commit(op)
		case history.TakeOver:
			if op.Outcome == history.OK {
				g.facts.TakeOvers++
			}
		}
		if op.Code == 40403 && strings.Contains(op.Error, "expired") {
			g.facts.Expired++
		}
	}
}

// isRepeat: a poll with the request id of the answer before.
func isRepeat(op, last *history.GroupOp) bool {
	return last != nil && op.RequestID != "" && op.RequestID == last.RequestID
}

func sameRecords(a, b *history.GroupOp) bool { return slices.Equal(a.Records, b.Records) }

// autoCommit: a member that commits by itself may commit what it was given with its
// next poll.
func (g *groups) autoCommit(l *life, op *history.GroupOp, given map[history.Partition]run) {
	for key, r := range given {
		lane := g.lane(l.group, key)
		lane.commits.add(commit{op: op, offset: r.end, call: op.Call, ret: op.Return})
	}
}

func (g *groups) commit(op *history.GroupOp) {
	switch {
	case op.Outcome == history.NotWritten && op.Code == 40906 && op.Body:
		g.facts.Fenced++
	case op.Outcome == history.NotWritten && op.Code == 40906:
		g.facts.Forgotten++
	case op.Outcome == history.Unknown:
		g.facts.Unknown++
	}
	if op.Outcome == history.NotWritten {
		return
	}
	for _, o := range op.Offsets {
		l := g.lane(op.Group, o.Partition)
		l.commits.add(commit{op: op, offset: o.Offset, call: op.Call, ret: op.Return, certain: op.Outcome == history.OK && (op.Body || o.Certain)})
		if op.Outcome == history.OK && (op.Body || o.Certain) && op.Return < op.Call+op.Session {
			l.holds = append(l.holds, run{op: op})
		}
	}
}

// polls: each is answered within its timeout and a second by a broker that runs,
// and everything else within its own (V15).
func (c *checker) polls(g *groups) {
	down := c.down()
	var stalls []span
	for _, e := range c.h.Events {
		if ms, err := strconv.ParseInt(e.Detail, 10, 64); e.What == history.EventStall && err == nil {
			stalls = append(stalls, span{e.At - ms*1e6, e.At})
		}
	}
	for _, op := range c.h.Groups {
		took := op.Return - op.Call
		if op.GaveUp || overlaps(down[op.Broker], op.Call, op.Return) {
			continue
		}
		if op.NoAnswer {
			c.fail("V15", "group %s: no answer came to %s: %s", op.Group, gname(op), op.Error)
			continue
		}
		if op.Kind != history.Poll || op.Status == 0 {
			continue
		}
		for _, s := range stalls {
			took -= max(min(s.to, op.Return)-max(s.from, op.Call), 0)
		}
		g.facts.Slowest = max(g.facts.Slowest, int((took-op.Timeout)/1e6))
		if took > op.Timeout+pollSlack {
			c.fail("V15", "group %s: the answer to %s, whose timeout was %.3f s, took %.3f s (%d/%d)", op.Group, gname(op),
				float64(op.Timeout)/1e9, float64(took)/1e9, op.Status, op.Code)
		}
	}
}

// coordinators counts changes of coordinators.
func (c *checker) coordinators() (n int) {
	topic := ""
	for _, e := range c.h.Events {
		if e.What == history.EventGroups {
			topic = e.Detail
		}
	}
	type reign struct {
		partition int
		epoch     int32
	}
	reigns, partitions := map[reign]bool{}, map[int]bool{}
	for _, s := range c.h.Samples {
		for _, r := range s.Replicas {
			if r.Partition.Topic == topic && r.Role == leader {
				reigns[reign{r.Partition.Index, r.LeaderEpoch}] = true
				partitions[r.Partition.Index] = true
			}
		}
	}
	return len(reigns) - len(partitions)
}
