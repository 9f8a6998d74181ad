package group

import (
	"errors"
	"fmt"
)

func (c *client) begin() {
	w := c.w
	b := &Begin{Instance: c.memberID(), Front: w.rng.Int32N(3), WaitMs: 2000}
	if c.join {
		b.Join = &Join{Topics: c.topics, Options: c.options}
	}
	if c.ids && c.requestID == "" {
		w.ids++
		c.requestID = fmt.Sprint("r", w.ids)
		c.promised = nil
	}
	b.RequestID = c.requestID
	c.done = nil
	c.ask(&Call{Begin: b})
}

// ask begins a poll, or asks again for one.
func (c *client) ask(call *Call) {
	w := c.w
	before := w.seen["committed"]
	answer, err := w.call(call)
	w.logf("%s polls %+v: %v", c.memberID(), *call.Begin, err)
	if w.seen["committed"] > before {
		w.seen["automatic"]++
	}
	switch {
	case errors.Is(err, errWait):
		w.seen["waited"]++
		c.open = &openPoll{call: call}
	case err != nil:
		c.open = nil
		none := (*NotSubscribedError)(nil)
		if errors.As(err, &none) {
			c.subscribed = false
		}
		c.gone(err)
	default:
		c.open = &openPoll{call: call, state: answer.Poll}
		c.polled = true
		if c.join {
			w.seen["joined by polling"]++
		}
		c.kept(answer.Poll)
	}
}

// kept checks that a request id brings the same again, as long as the coordinator
// lives.
func (c *client) kept(state *PollState) {
	if len(c.promised) == 0 || c.promisedIn != c.w.loads {
		return
	}
	found := 0
	for i, at := range state.Positions {
		if s, ok := c.promised[at.part()]; ok && state.Repeat != nil {
			found++
			if s != (span{at.Offset, state.Repeat[i]}) {
				c.w.fail("%s: %v is repeated as %d to %d, was %v", c.memberID(), at.part(), at.Offset, state.Repeat[i], s)
			}
		}
	}
	if found > 0 {
		c.w.seen["repeated"]++
		return
	}
	for p, generation := range c.grants {
		if m := c.w.lab.s.members[c.name]; m != nil && m.owned[p] == generation {
			c.w.fail("%s: %v isn't repeated", c.memberID(), p)
		}
	}
}

// polling has the front of an open poll go on.
func (c *client) polling() {
	w, o := c.w, c.open
	switch {
	case w.chance(4): // the front dies
		c.open = nil
		return
	case o.state == nil && w.chance(20):
		call := *o.call
		begin := *call.Begin
		begin.WaitMs = 0
		call.Begin = &begin
		c.ask(&call)
		return
	case o.state == nil:
		c.ask(o.call)
		return
	}
	if !o.found {
		c.find()
		return
	}
	switch w.lab.s.beat(w.lab.now, c.memberID(), o.state.Token) {
	case pollOver:
		c.open = nil
	case pollChanged:
		c.renew()
	default:
		if w.chance(60) {
			c.answer()
		}
	}
}

func (c *client) renew() {
	c.w.seen["renewed"]++
	again := *c.open.call.Begin
	again.Token = c.open.state.Token
	c.ask(&Call{Begin: &again})
}

// find looks for the positions that aren't known, and tells those at the end.
func (c *client) find() {
	w, o := c.w, c.open
	o.found = true
	var from []Position
	for i := range o.state.Positions {
		at := &o.state.Positions[i]
		if at.Offset >= 0 {
			continue
		}
		at.Offset = 0
		if o.state.Options.Reset == ResetLatest {
			at.Offset = w.end[at.part()]
			from = append(from, *at)
		}
	}
	if len(from) == 0 {
		return
	}
	_, err := w.call(&Call{Deliver: &Deliver{Instance: c.memberID(), Token: o.state.Token, From: from, To: from}})
	if err != nil {
		c.open = nil
		c.gone(err)
		return
	}
	w.seen["found the end"]++
	for _, at := range from { // from now on nothing more is skipped
		if v := w.shadow.offsets[at.part()]; v == nil {
			if _, ok := w.base[at.part()]; !ok {
				w.base[at.part()] = at.Offset
			}
		}
	}
}

// answer delivers what there is, and ends the poll.
func (c *client) answer() {
	w, o := c.w, c.open
	batch := map[part]span{}
	to := make([]Position, len(o.state.Positions))
	for i, at := range o.state.Positions {
		end := min(w.end[at.part()], at.Offset+w.rng.Int64N(5))
		if o.state.Repeat != nil {
			end = o.state.Repeat[i]
		}
		to[i] = at
		to[i].Offset = max(at.Offset, end)
		if to[i].Offset > at.Offset {
			batch[at.part()] = span{at.Offset, to[i].Offset}
		}
	}
	if o.call.Begin.RequestID != "" {
		_, err := w.call(&Call{Deliver: &Deliver{Instance: c.memberID(), Token: o.state.Token, From: o.state.Positions, To: to}})
		if err != nil {
			c.open = nil
			c.gone(err)
			return
		}
		c.promised, c.promisedIn, c.grants = batch, w.loads, map[part]int32{}
		for p := range batch {
			if generation, owns := w.lab.s.members[c.name].owned[p]; owns {
				c.grants[p] = generation
			}
		}
	}
	c.open = nil
	written := w.chance(90)
	received := written && (c.requestID == "" || w.chance(80))
	w.logf("%s is answered %v, written %v, received %v", c.memberID(), batch, written, received)
	if received {
		c.batch, c.requestID = batch, ""
	} else {
		w.seen["answer lost"]++
	}
	if w.chance(5) {
		w.seen["end lost"]++
		return
	}
	_, err := w.call(&Call{End: &End{Instance: c.memberID(), Token: o.state.Token, Written: written, To: to}})
	if err != nil && !errors.Is(err, errLost) {
		w.logf("%s ends: %v", c.memberID(), err)
	}
}

// calmly polls and ends without reading anything new.
func (c *client) calmly() {
	c.silent = 0
	if c.zombie {
		c.retire = 0
		return
	}
	switch {
	case c.instance == "" && !c.join:
		c.create()
		return
	case !c.subscribed && !c.join:
		c.subscribe()
		return
	}
	if c.open == nil {
		c.process()
		c.begin()
	}
	o := c.open
	switch {
	case o == nil:
	case o.state != nil && o.state.Repeat != nil:
		c.answer() // or it would hold what it has to give back
	default:
		c.open = nil
		_, _ = c.w.call(&Call{End: &End{Instance: c.memberID(), Token: callToken(o.call)}})
	}
}
