package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	"highwater/replication/controller"
	"highwater/replication/replica"
	"highwater/replication/wire"
	"highwater/storage"
)

const (
	// coalesceHighWatermark is how long news of nothing but high watermarks may wait
	// for records to travel with: followers need them for the day they lead (R24),
	// and one answer for each would double the number of fetches.
	coalesceHighWatermark = 10 * time.Millisecond
	// maxServeWait bounds what a request may ask to wait.
	maxServeWait = 30 * time.Second
)

// ServeFetch answers a follower's long-poll (R12-R24). It returns when there is
// news of a partition, after MaxWaitMs, when the follower's next request comes, or
// when ctx ends. The batches lie in *buf where they fit; it may be replaced by a
// larger one.
func (b *Broker) ServeFetch(ctx context.Context, req *wire.FetchRequest, buf *[]byte) *wire.FetchResponse {
	resp := &wire.FetchResponse{Version: wire.Version, Code: b.checkFetch(req)}
	if resp.Code != wire.OK {
		return resp
	}
	var known int64
	if follower := b.State().Brokers[req.Replica]; follower != nil {
		known = follower.Epoch
	}
	s, code := b.sessions.enter(ctx, req, known)
	if code != wire.OK {
		resp.Code = code
		return resp
	}
	defer s.leave()
	s.apply(b, req)
	resp.Partitions = s.poll(ctx, b, req, buf)
	s.answered = time.Now()
	return resp
}

// checkFetch looks at what concerns the whole request (R13, R19).
func (b *Broker) checkFetch(req *wire.FetchRequest) wire.Code {
	switch s := b.State(); {
	case req.Version < wire.MinVersion || req.Version > wire.Version:
		return wire.CodeVersion
	case req.ClusterID != s.ClusterID:
		return wire.CodeClusterID
	case req.Replica == b.cfg.NodeID || req.BrokerEpoch <= 0:
		return wire.CodeInvalidRequest
	}
	return wire.OK
}

// apply takes over what a request says. Call it with the turn.
func (s *session) apply(b *Broker, req *wire.FetchRequest) {
	now := time.Now()
	for _, id := range req.Forgotten {
		s.forget(id)
	}
	for i := range req.Partitions {
		s.name(b, &req.Partitions[i], now)
	}
	if !req.Full && !req.Ahead && !s.answered.IsZero() {
		s.life.Contact.Prove(s.answered)
	}
	s.life.Contact.Touch(now) // after all was judged
	s.applied = req.Seq
}

// poll waits for news. Call it with the turn.
func (s *session) poll(ctx context.Context, b *Broker, req *wire.FetchRequest, buf *[]byte) []wire.FetchedPartition {
	deadline := time.NewTimer(min(time.Duration(req.MaxWaitMs)*time.Millisecond, maxServeWait))
	defer deadline.Stop()
	last := req.MaxWaitMs <= 0
	for all := last; ; {
		answers, soft := s.collect(b, req, buf, all)
		if len(answers) > 0 || last {
			return answers
		}
		switch s.await(ctx, req.Seq, soft, deadline.C) {
		case lookAgain:
			all = false
		case lookForAll:
			all = true
		case lookLast:
			all, last = true, true
		case giveUp:
			return nil
		}
	}
}

// wakeUp is what ends a wait of a poll.
type wakeUp int

const (
	lookAgain  wakeUp = iota // something can't wait
	lookForAll               // soft news has waited long enough
	lookLast                 // the request's time is over
	giveUp                   // nobody waits for the answer
)

// await waits until there is something to answer. soft: there is soft news already.
func (s *session) await(ctx context.Context, seq int64, soft bool, deadline <-chan time.Time) wakeUp {
	var due <-chan time.Time
	for {
		if soft && due == nil {
			timer := time.NewTimer(coalesceHighWatermark)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-s.wake:
			some, urgent, passed := s.state(seq)
			switch {
			case passed:
				return giveUp
			case urgent:
				return lookAgain
			}
			soft = soft || some
		case <-due:
			return lookForAll
		case <-deadline:
			return lookLast
		case <-ctx.Done():
			return giveUp
		}
	}
}

// news is what a look at a partition finds.
type news int

const (
	noNews   news = iota
	softNews      // the high watermark or the log start; it can wait a little
	hardNews      // records or a refusal
)

// collect answers for the partitions that may have news. Without hard news, and
// unless final, it answers nothing; soft tells then whether there is soft news.
// Call it with the turn.
func (s *session) collect(b *Broker, req *wire.FetchRequest, buf *[]byte, final bool) (answers []wire.FetchedPartition, soft bool) {
	list := s.take()
	var told []*watch
	bytes, used, hard := 0, 0, final
	for i, w := range list {
		if !w.armed {
			continue
		}
		room := int(req.MaxBytes) - bytes
		if bytes > 0 && room <= 0 {
			s.putBack(list[i:])
			break
		}
		answer, kind := b.look(w, min(room, int(w.at.MaxBytes)), (*buf)[used:used:cap(*buf)])
		if kind == noNews {
			continue
		}
		n := len(answer.Batches)
		bytes += n
		switch {
		case n <= cap(*buf)-used:
			used += n
		case cap(answer.Batches) > cap(*buf): // it has memory of its own: the next answer is likely to be as large
			*buf, used = answer.Batches[:0], n
		}
		hard = hard || kind == hardNews
		w.armed = kind == softNews
		answers, told = append(answers, answer), append(told, w)
	}
	if !hard {
		s.putBack(told)
		return nil, len(told) > 0
	}
	for i, w := range told {
		w.toldHighWatermark, w.toldLogStart = answers[i].HighWatermark, answers[i].LogStart
	}
	return answers, false
}

// look makes the answer for one partition of a session, with at most about
// maxBytes of records, read into buf where they fit.
func (b *Broker) look(w *watch, maxBytes int, buf []byte) (wire.FetchedPartition, news) {
	if w.refusal != nil {
		return *w.refusal, hardNews
	}
	p, at := w.p, &w.at
	if !p.leads(at.LeaderEpoch) {
		return b.refuse(p, at), hardNews
	}
	answer := wire.FetchedPartition{TopicPartition: at.TopicPartition, LeaderEpoch: at.LeaderEpoch, Leader: b.cfg.NodeID,
		HighWatermark: p.hw.Load(), LogStart: p.wantedStart(), LeaderEnd: p.log.WrittenEnd()}
	if from := at.ReadFrom(); from < answer.LeaderEnd {
		r, err := p.log.Read(from, answer.LeaderEnd, max(maxBytes, 1), buf)
		end := from
		if len(r.Data) > 0 {
			end = nextOffset(r.Data)
		}
		if !p.sending(at.LeaderEpoch, end) { // then the log may have been cut since
			return b.refuse(p, at), hardNews
		}
		if err != nil {
			answer.Code = b.readFailed(p, err)
			return answer, hardNews
		}
		answer.Batches = r.Data
		return answer, hardNews
	}
	if answer.HighWatermark == w.toldHighWatermark && answer.LogStart == w.toldLogStart {
		return answer, noNews
	}
	return answer, softNews
}

// readFailed is what a follower is told of a read that failed.
func (b *Broker) readFailed(p *Partition, err error) wire.Code {
	if outside := (*storage.OffsetOutOfRangeError)(nil); errors.As(err, &outside) {
		return wire.CodeOffsetOutOfRange // the log start has moved
	}
	if isCorrupt(err) {
		b.damaged(p) // not to be served, nor skipped: another one must lead (S7)
		return wire.CodeCorrupt
	}
	return wire.CodeStorage
}

// leads tells whether this replica leads in just this epoch.
func (p *Partition) leads(epoch int32) bool {
	p.water.Lock()
	defer p.water.Unlock()
	return p.lead != nil && p.lead.Meta().LeaderEpoch == epoch
}

// replicaFor finds the partition that a follower names, or the answer that says why
// there is none here.
func (b *Broker) replicaFor(at *wire.FetchPartition) (*Partition, *wire.FetchedPartition) {
	refusal := &wire.FetchedPartition{TopicPartition: at.TopicPartition, Leader: controller.NoLeader}
	b.mu.RLock()
	t := b.byID[at.Topic]
	b.mu.RUnlock()
	if t == nil || t.deleted.Load() || at.Partition < 0 {
		refusal.Code = wire.CodeUnknownTopicID
		return nil, refusal
	}
	switch p := t.partition(at.Partition); {
	case p == nil:
		refusal.Code = wire.CodeNotLeader
		return nil, refusal
	case p.offline != nil:
		refusal.Code = wire.CodeStorage
		return nil, refusal
	default:
		return p, nil
	}
}

// refuse is the answer to a follower that takes this replica for the leader of an
// epoch in which it doesn't lead.
func (b *Broker) refuse(p *Partition, at *wire.FetchPartition) wire.FetchedPartition {
	e := p.notLeader()
	out := wire.FetchedPartition{TopicPartition: at.TopicPartition, Code: wire.CodeNotLeader, Leader: e.Leader, LeaderEpoch: e.Epoch}
	p.water.Lock()
	if p.lead != nil && at.LeaderEpoch < p.lead.Meta().LeaderEpoch {
		out.Code = wire.CodeFencedLeaderEpoch
	}
	p.water.Unlock()
	if p.topic.deleted.Load() {
		out.Code = wire.CodeUnknownTopicID
	}
	return out
}

// fetched has the leader's rules judge what a follower says (R19-R25) and acts on
// what it proves. It returns the answer when that isn't records.
func (b *Broker) fetched(p *Partition, life *replica.Session, at *wire.FetchPartition, now time.Time) *wire.FetchedPartition {
	p.water.Lock()
	if p.lead == nil {
		p.water.Unlock()
		refusal := b.refuse(p, at)
		return &refusal
	}
	log := p.local()
	verdict := p.lead.Fetched(replica.Fetch{Replica: life.Replica, BrokerEpoch: life.BrokerEpoch, LeaderEpoch: at.LeaderEpoch,
		Offset: at.Offset, LastEpoch: at.LastEpoch, LogStart: at.LogStart, Contact: life.Contact}, log, now)
	meta := p.lead.Meta()
	moved := verdict.Code == wire.OK && p.raise()
	started := p.start > log.Start && at.LogStart >= p.start
	hw := p.hw.Load()
	p.water.Unlock()
	if verdict.Deposed {
		b.depose(p, at.LeaderEpoch, "a follower fetched in a newer leader epoch")
	}
	if verdict.Code != wire.OK || verdict.Diverging != nil {
		return &wire.FetchedPartition{TopicPartition: at.TopicPartition, Code: verdict.Code, LeaderEpoch: meta.LeaderEpoch, Leader: b.cfg.NodeID,
			HighWatermark: hw, LogStart: log.Start, LeaderEnd: log.Written, Diverging: verdict.Diverging}
	}
	if at.Offset >= hw && !slices.Contains(meta.ISR, life.Replica) {
		b.isr.look(p) // it may join (R42)
	}
	if started {
		b.starts.add(p)
	}
	if moved {
		p.moved()
	}
	return nil
}
