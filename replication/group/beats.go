package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// polls is the polls under way of this broker's clients. While a broker coordinates
// some of them a beater tells it once a second of all of these together, in a
// long-poll that ends when there is news for one.
type polls struct {
	g *Groups

	mu      sync.Mutex // guards what follows
	ctx     context.Context
	closed  bool
	all     map[*Poll]struct{}
	beating map[int32]bool // brokers that are told
	loops   sync.WaitGroup
}

func newPolls(g *Groups) *polls {
	return &polls{g: g, all: map[*Poll]struct{}{}, beating: map[int32]bool{}}
}

func (p *polls) start(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx = ctx
}

func (p *polls) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.loops.Wait()
}

// Poll is a poll under way. It is used by one goroutine.
type Poll struct {
	g       *Groups
	group   string
	state   PollState
	begin   Begin
	changed chan struct{}
	at      coordinator    // guarded by polls.mu
	id      wire.GroupPoll // of state; guarded by polls.mu
}

// add has the poll's coordinator told of it.
func (p *polls) add(poll *Poll, at coordinator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	poll.at, poll.id = at, wire.GroupPoll{Instance: poll.state.Instance, Token: poll.state.Token}
	p.all[poll] = struct{}{}
	p.tell(at.leader)
}

// tell sees to it that a beater for a broker runs. Call it under mu.
func (p *polls) tell(broker int32) {
	if p.closed || p.ctx == nil || p.beating[broker] || broker == controller.NoLeader {
		return
	}
	p.beating[broker] = true
	p.loops.Go(func() { p.beat(p.ctx, broker) })
}

func (p *polls) remove(poll *Poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, poll)
}

// follow takes over metadata: a poll whose group has another coordinator now, or the
// same one anew, has to look.
func (p *polls) follow(s *controller.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for poll := range p.all {
		at, ok := p.g.locate(s, poll.group)
		if !ok || at == poll.at {
			continue
		}
		if at.leader != poll.at.leader || at.epoch != poll.at.epoch {
			give(poll.changed)
		}
		poll.at = at
		p.tell(at.leader)
	}
}

const (
	// beatPause is the least time between two beats, however much news there is;
	// beatRetry is the pause after one that failed or told nothing new.
	beatPause, beatRetry = 25 * time.Millisecond, 250 * time.Millisecond
	// beatTimeout is how long a beat may take beyond its wait.
	beatTimeout = 2 * time.Second
)

// beat tells a broker of the polls that it coordinates, as long as there are any.
func (p *polls) beat(ctx context.Context, broker int32) {
	var told map[uint64]struct{}
	for {
		req, url := p.list(ctx, broker)
		if req == nil {
			return
		}
		answer, err := p.send(ctx, broker, url, req)
		if err != nil {
			pause(ctx, beatRetry)
			continue
		}
		news := p.heard(answer)
		fresh := len(news) == 0
		for token := range news {
			if _, ok := told[token]; !ok {
				fresh = true
			}
		}
		if told = news; fresh {
			pause(ctx, beatPause)
		} else { // those who have to look are at something else
			pause(ctx, beatRetry)
		}
	}
}

// list is a beat for a broker; nil: there is nothing to tell, and the beater is over.
func (p *polls) list(ctx context.Context, broker int32) (req *wire.GroupBeat, url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	groups := map[string][]wire.GroupPoll{}
	for poll := range p.all {
		if poll.at.leader == broker {
			groups[poll.group] = append(groups[poll.group], poll.id)
			url = poll.at.url
		}
	}
	if len(groups) == 0 || ctx.Err() != nil {
		delete(p.beating, broker)
		return nil, ""
	}
	req = &wire.GroupBeat{Version: wire.Version, Front: p.g.cfg.NodeID, MaxWaitMs: maxBeatWait.Milliseconds()}
	for group, list := range groups {
		req.Groups = append(req.Groups, wire.GroupPolls{Group: group, Polls: list})
	}
	return req, url
}

func (p *polls) send(ctx context.Context, broker int32, url string, req *wire.GroupBeat) (*wire.GroupBeatAnswer, error) {
	if broker == p.g.cfg.NodeID {
		return p.g.ServeBeat(ctx, req), nil
	}
	if url == "" || p.g.cfg.Peers == nil {
		return nil, ErrNoCoordinator
	}
	ctx, cancel := context.WithTimeout(ctx, maxBeatWait+beatTimeout)
	defer cancel()
	return p.g.cfg.Peers.GroupBeat(ctx, url, req)
}

// heard wakes the polls that have to look again, and tells their tokens.
func (p *polls) heard(answer *wire.GroupBeatAnswer) map[uint64]struct{} {
	if len(answer.Changed) == 0 {
		return nil
	}
	changed := map[uint64]struct{}{}
	for i := range answer.Changed {
		for _, poll := range answer.Changed[i].Polls {
			changed[poll.Token] = struct{}{}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for poll := range p.all {
		if _, ok := changed[poll.id.Token]; ok {
			give(poll.changed)
		}
	}
	return changed
}

// ownWait is how long the coordinator itself waits with the answer to a Begin for
// something that the member can own. After that it is told by beats: that costs a
// coordinator less.
const ownWait = 750 * time.Millisecond

// Poll begins a poll with this broker as its front. Errors: as Do. Who gets a Poll
// must End it. When the member owns nothing yet, its State has no positions: wait for
// Changed then, and Renew.
func (g *Groups) Poll(ctx context.Context, group string, b Begin) (*Poll, error) {
	b.Front, b.WaitMs = g.cfg.NodeID, min(b.WaitMs, ownWait.Milliseconds())
	p := &Poll{g: g, group: group, begin: b, changed: make(chan struct{}, 1)}
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// ask begins the poll, anew if it has begun.
func (p *Poll) ask(ctx context.Context) error {
	call := &Call{Group: p.group, ID: uuid.New(), Begin: &p.begin}
	answer, at, err := p.g.do(ctx, call)
	if err == nil && answer.Poll == nil {
		err = ErrNoCoordinator // it answers something else
	}
	if err != nil {
		p.g.polls.remove(p)
		p.disown(call, err)
		return err
	}
	p.state = *answer.Poll
	p.begin.Instance, p.begin.Token = p.state.Instance, p.state.Token
	p.g.polls.add(p, at)
	return nil
}

// disown ends, in the background, what a Begin that failed may have left at the
// coordinator: the poll that it asked for, or the one that it was to renew. Otherwise
// the member's next poll would have to wait until beats are missed.
func (p *Poll) disown(call *Call, err error) {
	var tokens []uint64
	if errors.As(err, new(*noAnswerError)) {
		tokens = append(tokens, callToken(call))
	}
	if p.begin.Token != 0 {
		tokens = append(tokens, p.begin.Token)
	}
	if len(tokens) > 0 {
		p.g.polls.endSoon(p.group, p.begin.Instance, tokens)
	}
}

// endSoon ends polls in the background.
func (p *polls) endSoon(group, instance string, tokens []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.ctx == nil {
		return
	}
	ctx := p.ctx
	p.loops.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		for _, token := range tokens { // best effort: the coordinator misses their beats, too
			_, _ = p.g.Do(ctx, &Call{Group: group, End: &End{Instance: instance, Token: token}})
		}
	})
}

// State is what the poll reads, and for whom. It changes with Renew.
func (p *Poll) State() *PollState { return &p.state }

// Changed gets a token when what the member owns may have changed: read nothing more,
// and Renew if nothing was delivered, or answer with what there is.
func (p *Poll) Changed() <-chan struct{} { return p.changed }

// Renew takes over what the member owns now. Errors: those of a Begin; the poll is
// over then.
func (p *Poll) Renew(ctx context.Context) error {
	p.begin.WaitMs = 0
	return p.ask(ctx)
}

// Deliver has the coordinator remember what a poll with a request id is about to
// answer with, before the first byte is written.
func (p *Poll) Deliver(ctx context.Context, from, to []Position) error {
	_, err := p.g.Do(ctx, &Call{Group: p.group, Deliver: &Deliver{Instance: p.state.Instance, Token: p.state.Token, From: from, To: to}})
	return err
}

// endTimeout is how long a poll's End looks for the coordinator.
const endTimeout = 2 * time.Second

// End ends the poll, also when ctx is over. When the answer was written to its end
// the positions are to from now on. An error only says that they may not be: records
// come again.
func (p *Poll) End(ctx context.Context, written bool, to []Position) error {
	defer p.g.polls.remove(p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_, err := p.g.Do(ctx, &Call{Group: p.group, End: &End{Instance: p.state.Instance, Token: p.state.Token, Written: written, To: to}})
	return err
}
