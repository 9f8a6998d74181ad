package load

import (
	"context"
	"fmt"
	"time"

	"chaos/history"
)

// maxAgain is the most records in a request that is sent again.
const maxAgain = 5

// message is a record with an id. It is sent any number of times, always with the
// same content.
type message struct {
	id   string
	name string // of its value
	key  string // "": none
	// pin is the partition that it is in, or would be: chosen by the client, or told by
	// the first answer; -1: not known.
	pin    int
	chosen bool // by the client, from the start
	acked  bool // at acks=-1
}

// parcel is messages that were first sent together.
type parcel struct {
	topic    *Topic
	key      string // Idempotency-Key; "": each message has an id of its own
	messages []*message
	sent     int
	// left: it is never sent again. Either a partition may have been chosen that the
	// client wasn't told, in a topic that grows: a message could be written to another
	// one (D8). Or the client believes that it is not written, so that a lie shows.
	left bool
}

func (p *parcel) acked() bool {
	for _, m := range p.messages {
		if !m.acked {
			return false
		}
	}
	return true
}

// pinned tells that every message's partition is known.
func (p *parcel) pinned() bool {
	for _, m := range p.messages {
		if m.pin < 0 {
			return false
		}
	}
	return true
}

// plan is one request to be.
type plan struct {
	topic    *Topic
	broker   int
	acks     int
	timeout  time.Duration
	patience time.Duration // after which the client goes away; 0: it waits
	form     string
	key      string // Idempotency-Key
	pin      bool   // name the partitions that are known
	settles  bool

	messages []*message
	foul     []string // other content for messages[i]; "": its own
	refused  []bool   // messages[i] has to be refused

	producer *history.Producer
}

// stormer is a client that sends everything again.
type stormer struct {
	*client
	fleet   *Fleet
	parcels []*parcel
	number  int // of other contents
}

// startStorm lets the clients that send everything again run until ctx ends: every
// fourth is an idempotent producer.
func (f *Fleet) startStorm(ctx context.Context) {
	for i := range f.cfg.Stormers {
		c := f.newClient(fmt.Sprintf("s%d", i))
		if i%4 == 3 {
			p := &sequencer{client: c, fleet: f, named: i%8 == 7}
			f.sequencers = append(f.sequencers, p)
			f.wg.Go(func() { p.run(ctx) })
			continue
		}
		s := &stormer{client: c, fleet: f}
		f.stormers = append(f.stormers, s)
		f.wg.Go(func() { s.run(ctx) })
	}
}

func (s *stormer) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch n := s.rnd.IntN(100); {
		case n < 35 || len(s.parcels) == 0:
			s.parcels = append(s.parcels, s.make())
			s.post(s.parcels[len(s.parcels)-1])
		case n < 70:
			s.post(s.pick())
		case n < 78:
			s.mix(s.pick(), s.pick())
		case n < 84:
			s.reuse(s.pick())
		default:
			s.look()
		}
		s.pause(ctx, s.fleet.cfg.StormThink)
	}
}

// pick chooses a parcel that was sent before: mostly a young one.
func (s *stormer) pick() *parcel {
	young := min(len(s.parcels), 20)
	if s.rnd.IntN(4) == 0 {
		young = len(s.parcels)
	}
	return s.parcels[len(s.parcels)-1-s.rnd.IntN(young)]
}

// odd are ids that a path, a header or a JSON string may trip over.
var odd = [...]string{"%s", "%s", "%s", "%s", "urn:%s", "%s/a b", "%s%%2F", "ü%s", "%s?x=1&y", "\"%s\"", "%s+1"}

func (s *stormer) make() *parcel {
	t := s.fleet.cfg.Again[s.rnd.IntN(len(s.fleet.cfg.Again))]
	p := &parcel{topic: t}
	if s.rnd.IntN(3) == 0 {
		p.key = "key-" + s.value()
	}
	one, asks := s.rnd.IntN(t.Partitions), s.rnd.IntN(3) == 0
	for i := range 1 + s.rnd.IntN(maxAgain) {
		m := &message{name: s.value(), pin: -1}
		m.id = fmt.Sprintf(odd[s.rnd.IntN(len(odd))], m.name)
		if p.key != "" {
			m.id = fmt.Sprintf("%s/%d", p.key, i)
		}
		if t.Compacted || s.rnd.IntN(2) == 0 {
			m.key = fmt.Sprintf("k%d", s.rnd.IntN(50))
		}
		if asks {
			m.chosen, m.pin = true, one
		}
		p.messages = append(p.messages, m)
	}
	return p
}

// post sends a parcel, now and then twice at once through any brokers.
func (s *stormer) post(p *parcel) {
	if p.left {
		return
	}
	copies := 1
	if s.rnd.IntN(3) == 0 && (!p.topic.Grows || p.pinned()) {
		copies = 2
	}
	var plans []*plan
	for range copies {
		l := s.plan(p.topic)
		l.key, l.messages = p.key, p.messages
		l.form = s.form(p)
		plans = append(plans, l)
	}
	s.sendAll(p, plans...)
}

func (s *stormer) plan(t *Topic) *plan {
	l := &plan{topic: t, broker: s.broker(), acks: -1, timeout: time.Duration(minTimeoutMs+s.rnd.IntN(maxTimeoutMs-minTimeoutMs)) * time.Millisecond,
		pin: t.Grows || s.rnd.IntN(2) == 0}
	if s.rnd.IntN(5) == 0 {
		l.acks = 1
	}
	if s.rnd.IntN(12) == 0 {
		l.patience = time.Duration(1+s.rnd.IntN(200)) * time.Millisecond
	}
	return l
}

// form of a parcel's next attempt: any that gives its records the same content.
func (s *stormer) form(p *parcel) string {
	switch {
	case p.key != "":
		return history.FormIdempotencyKey
	case len(p.messages) == 1 && plain(p.messages[0].id) && s.rnd.IntN(2) == 0:
		return history.FormMessageID
	case s.rnd.IntN(2) == 0:
		return history.FormLines
	default:
		return history.FormID
	}
}

func plain(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			return false
		}
	}
	return true
}

// sendAll sends these requests of a parcel at once, and learns from the answers.
func (s *stormer) sendAll(p *parcel, plans ...*plan) {
	p.sent++
	attempts := s.attempts(plans)
	for i, a := range attempts {
		learn(plans[i], a)
	}
	for i, a := range attempts {
		for j := range a.Items {
			if p.topic.Grows && a.Items[j].Outcome == history.Unknown && plans[i].messages[j].pin < 0 {
				p.left = true
			}
		}
	}
	if p.sent == 1 && s.rnd.IntN(2) == 0 && denied(attempts) {
		p.left = true
	}
}

// denied tells that nothing of these was written, by the answers.
func denied(attempts []*history.Attempt) bool {
	for _, a := range attempts {
		for i := range a.Items {
			if a.Items[i].Outcome != history.NotWritten {
				return false
			}
		}
	}
	return true
}

// learn takes over what an answer tells of the messages.
func learn(l *plan, a *history.Attempt) {
	for i := range a.Items {
		item, m := &a.Items[i], l.messages[i]
		if item.Refuse {
			continue
		}
		if item.Partition >= 0 && item.Outcome != history.NotWritten {
			m.pin = item.Partition
		}
		if item.Outcome == history.OK && a.Acks == -1 {
			m.acked = true
		}
	}
}

// mix sends some messages of two parcels in one request: some records may be
// duplicates, others not (D10). New ones come on top.
func (s *stormer) mix(a, b *parcel) {
	if a.key != "" || b.key != "" || a.topic != b.topic || a.left || b.left || a == b {
		return
	}
	fresh := s.make()
	p := &parcel{topic: a.topic}
	for _, m := range append(append([]*message{}, a.messages...), b.messages...) {
		if s.rnd.IntN(2) == 0 {
			p.messages = append(p.messages, m)
		}
	}
	if fresh.key == "" && fresh.topic == p.topic {
		s.parcels = append(s.parcels, fresh)
		p.messages = append(p.messages, fresh.messages...)
	}
	s.rnd.Shuffle(len(p.messages), func(i, j int) { p.messages[i], p.messages[j] = p.messages[j], p.messages[i] })
	if len(p.messages) == 0 {
		return
	}
	l := s.plan(p.topic)
	l.messages, l.form = p.messages, history.FormID
	s.sendAll(p, l)
	if p.left {
		a.left, b.left, fresh.left = true, true, true
	}
}

// reuse sends ids that were acknowledged with other content. All of the parcel's
// messages stand in their partitions, so every part has to be refused (D7).
func (s *stormer) reuse(p *parcel) {
	if !p.acked() || p.left {
		return
	}
	l := s.plan(p.topic)
	l.acks, l.pin, l.patience = -1, true, 0
	l.key, l.form, l.messages = p.key, s.form(p), p.messages
	if p.key != "" && len(p.messages) > 1 && s.rnd.IntN(2) == 0 {
		l.messages = p.messages[:1+s.rnd.IntN(len(p.messages)-1)] // each record as it was, but not the whole
		l.foul = make([]string, len(l.messages))
	} else {
		for range l.messages {
			s.number++
			l.foul = append(l.foul, fmt.Sprintf("%s.foul%d", s.name, s.number))
		}
	}
	l.refused = make([]bool, len(l.messages))
	for i := range l.refused {
		l.refused[i] = true
	}
	if other := s.bystander(p, l); other != nil {
		s.parcels = append(s.parcels, other)
	}
	learn(l, s.attempt(l))
}

// bystander adds a new message to a request that is to be refused, in the partition
// of another: it has to be refused too, and may be written later.
func (s *stormer) bystander(p *parcel, l *plan) *parcel {
	if p.key != "" || s.rnd.IntN(2) == 0 {
		return nil
	}
	name := s.value()
	m := &message{id: name, name: name, key: p.messages[0].key, pin: p.messages[0].pin, chosen: true}
	l.messages = append(append([]*message{}, l.messages...), m)
	l.foul, l.refused, l.form = append(l.foul, ""), append(l.refused, false), history.FormID
	return &parcel{topic: p.topic, messages: []*message{m}, sent: 1}
}
