package model

import (
	"slices"

	"highwater/replication/replica"
	"highwater/replication/wire"
)

// serving is a leader's part of a fetch session: what the follower said last of
// each partition, and what it was told.
type serving struct {
	session *replica.Session
	parts   []*served // by partition; nil: not in the session
}

type served struct {
	said  wire.FetchPartition
	lead  *replica.Leader // that took it; nil: refused, or diverging
	water int64           // high watermark and log start told last
	start int64
}

// fetcher is a follower's part: one leader broker, one request at a time.
type fetcher struct {
	seq    int64
	full   bool  // the next one must be
	waits  int64 // id of the request that is under way; 0: none
	sentAt int   // step
	said   []*wire.FetchPartition
}

func (n *node) fetcher(leader int32) *fetcher {
	f := n.fetchers[leader]
	if f == nil {
		f = &fetcher{full: true, said: make([]*wire.FetchPartition, len(n.parts))}
		n.fetchers[leader] = f
	}
	return f
}

// fetch sends the next request to a leader, unless one is under way; giveUp: that
// one has timed out.
func (n *node) fetch(leader int32, giveUp bool) {
	if n.epoch == 0 || leader == n.id {
		return
	}
	f := n.fetcher(leader)
	if f.waits != 0 {
		if !giveUp {
			return
		}
		n.w.saw("fetch timed out")
		f.waits, f.full = 0, true
	}
	req := &wire.FetchRequest{Replica: n.id, BrokerEpoch: n.epoch, Seq: f.seq + 1, Full: f.full, MetadataIndex: n.applied}
	empty := true
	for i, p := range n.parts {
		tp := wire.TopicPartition{Topic: n.w.topic, Partition: int32(i)}
		if !p.follows(leader) {
			if f.said[i] != nil && !f.full {
				req.Forgotten = append(req.Forgotten, tp)
				empty = false
			}
			f.said[i] = nil
			continue
		}
		empty = false
		p.settle()
		said := &wire.FetchPartition{TopicPartition: tp, LeaderEpoch: p.epoch, Offset: p.log.end(), LastEpoch: p.log.lastEpoch(), LogStart: p.log.start}
		if f.full || f.said[i] == nil || *f.said[i] != *said {
			req.Partitions = append(req.Partitions, *said)
		}
		f.said[i] = said
	}
	if empty {
		return
	}
	f.seq, f.full, f.waits, f.sentAt = req.Seq, false, n.w.id(), n.w.stepCount
	id, life := f.waits, n.life
	n.w.send(&message{kind: "fetch", from: n.id, to: leader, repeat: true, deliver: func() {
		to := n.w.at(leader)
		if !to.up || to.epoch == 0 {
			return
		}
		resp := to.serve(req)
		if n.w.tracing {
			n.w.tracef("broker %d answers %+v with %+v", leader, *req, brief(resp))
		}
		answer := &message{kind: "fetched", from: leader, to: n.id, deliver: func() {
			if n.up && n.life == life && f.waits == id {
				n.fetched(leader, f, resp)
			}
		}}
		n.w.send(answer)
		if slices.ContainsFunc(resp.Partitions, func(p wire.FetchedPartition) bool { return p.Diverging != nil }) && n.w.rng.IntN(400) < n.w.cfg.slow {
			answer.until = n.w.stepCount + n.w.rng.IntN(400) // the answer that does harm when it is late
		}
	}})
}

func brief(r *wire.FetchResponse) *wire.FetchResponse {
	short := *r
	short.Partitions = slices.Clone(r.Partitions)
	for i := range short.Partitions {
		short.Partitions[i].Batches = short.Partitions[i].Batches[:len(short.Partitions[i].Batches)/batchSize]
	}
	return &short
}

// serve is a leader's answer (R19-R24).
func (n *node) serve(req *wire.FetchRequest) *wire.FetchResponse {
	session, code := n.sessions.Judge(req)
	if code != wire.OK {
		n.w.saw("fetch refused: " + string(code))
		return &wire.FetchResponse{Code: code}
	}
	s := n.serving[req.Replica]
	if s == nil || s.session != session {
		s = &serving{session: session, parts: make([]*served, len(n.parts))}
		n.serving[req.Replica] = s
	}
	for _, tp := range req.Forgotten {
		if d := s.parts[tp.Partition]; d != nil && d.lead != nil {
			d.lead.Detach(req.Replica, session.Contact)
		}
		s.parts[tp.Partition] = nil
	}
	for _, said := range req.Partitions {
		s.parts[said.Partition] = &served{said: said, water: -1, start: -1}
	}
	resp := &wire.FetchResponse{}
	answers := make([]*wire.FetchedPartition, len(n.parts))
	for i, d := range s.parts {
		if d != nil && (d.lead == nil || d.lead != n.parts[i].lead) {
			answers[i] = n.judge(n.parts[i], d, session)
		}
	}
	session.Contact.Prove(n.w.now)
	session.Contact.Touch(n.w.now)
	for i, d := range s.parts {
		if d == nil {
			continue
		}
		if p := n.parts[i]; d.lead != nil {
			if !n.w.scripted && n.w.rng.IntN(2) == 0 {
				n.change(p)
			}
			p.advanceHW()
			answers[i] = n.read(p, d, session)
		}
		if answers[i] != nil {
			resp.Partitions = append(resp.Partitions, *answers[i])
		}
	}
	return resp
}

// judge has the leader judge what a follower said, and returns a refusal.
func (n *node) judge(p *part, d *served, s *replica.Session) *wire.FetchedPartition {
	d.lead = nil
	answer := &wire.FetchedPartition{TopicPartition: d.said.TopicPartition, LeaderEpoch: p.epoch, Leader: p.leader}
	if p.lead == nil {
		n.w.saw("fetch refused: " + string(wire.CodeNotLeader))
		answer.Code = wire.CodeNotLeader
		return answer
	}
	v := p.lead.Fetched(replica.Fetch{Replica: s.Replica, BrokerEpoch: s.BrokerEpoch, LeaderEpoch: d.said.LeaderEpoch, Offset: d.said.Offset,
		LastEpoch: d.said.LastEpoch, LogStart: d.said.LogStart, Contact: s.Contact}, p.log.local(), n.w.now)
	answer.LogStart, answer.LeaderEnd = p.log.start, p.log.end()
	switch {
	case v.Code != wire.OK:
		n.w.saw("fetch refused: " + string(v.Code))
		answer.Code = v.Code
		if v.Deposed {
			p.resign("deposed by a fetch")
		}
	case v.Diverging != nil:
		n.w.saw("diverging")
		answer.Diverging = v.Diverging
	default:
		d.lead = p.lead
		return nil
	}
	return answer
}

// read answers a follower whose word was taken, if there is news.
func (n *node) read(p *part, d *served, s *replica.Session) *wire.FetchedPartition {
	a := &wire.FetchedPartition{TopicPartition: d.said.TopicPartition, LeaderEpoch: p.epoch, Leader: n.id, HighWatermark: p.log.hw,
		LogStart: p.log.start, LeaderEnd: p.log.end()}
	if d.said.Offset < p.log.start { // the log start has passed the follower
		d.lead.Detach(s.Replica, s.Contact)
		a.Code = wire.CodeOffsetOutOfRange
		d.lead = nil
		return a
	}
	most := 1 + n.w.rng.IntN(6)
	if n.w.scripted {
		most = 1000
	}
	a.Batches = p.log.read(d.said.Offset, most)
	if len(a.Batches) == 0 && a.HighWatermark == d.water && a.LogStart == d.start {
		return nil
	}
	d.water, d.start = a.HighWatermark, a.LogStart
	return a
}

// fetched applies a leader's answer (R16-R18, R36).
func (n *node) fetched(leader int32, f *fetcher, resp *wire.FetchResponse) {
	f.waits = 0
	if resp.Code != wire.OK {
		f.full = true
		return
	}
	for i := range resp.Partitions {
		answer := &resp.Partitions[i]
		p, said := n.parts[answer.Partition], f.said[answer.Partition]
		if said == nil || p.log == nil {
			continue
		}
		d := n.w.cfg.mutation.Decide(replica.Sent{LeaderEpoch: said.LeaderEpoch, Offset: said.Offset},
			replica.Now{LeaderEpoch: p.epoch, Assigned: p.follows(leader), End: p.log.end(), LogStart: p.log.start, Epochs: p.log.epochs}, answer)
		p.take(d, answer)
	}
}

func (p *part) take(d replica.Decision, answer *wire.FetchedPartition) {
	w, l := p.n.w, p.log
	switch d.Step {
	case replica.Drop:
		w.saw("answer dropped")
	case replica.Wait:
		if d.Err != nil && w.cfg.mutation == 0 {
			w.fail("R17: broker %d refuses the leader's batches: %v", p.n.id, d.Err)
		}
	case replica.Truncate:
		w.saw("truncation")
		w.tracef("broker %d truncates p%d from %d to %d", p.n.id, p.num, l.end(), d.Offset)
		w.check.truncates(p, d.Offset)
		if d.Offset < l.hw {
			w.saw("truncation below own high watermark")
		}
		l.truncate(d.Offset)
		p.lost(d.Offset)
	case replica.Reset:
		w.saw("log started anew")
		w.tracef("broker %d starts p%d anew at %d", p.n.id, p.num, d.Offset)
		w.check.truncates(p, l.end())
		l.reset(d.Offset)
		p.lost(0)
	case replica.Append:
		l.appendRaw(answer.Batches)
		w.check.epochs(l)
		p.water, p.start = d.HighWatermark, d.LogStart
		if !w.cfg.durable || w.scripted || w.rng.IntN(4) > 0 {
			p.settle()
		}
	}
}

// lost answers the produces whose records were cut off.
func (p *part) lost(from int64) {
	p.waiters = slices.DeleteFunc(p.waiters, func(a waiter) bool {
		if a.offset >= from {
			p.n.w.saw("outcome unknown: cut off after a leader change")
		}
		return a.offset >= from
	})
}
