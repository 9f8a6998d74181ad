package group

import "context"

// Groups is a broker's way to all groups, whoever coordinates them.
type Groups struct{}

// Listing is one group in a list.
type Listing struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Members     int    `json:"members"`
	Coordinator int32  `json:"coordinator"`
}

// Do has a group's coordinator do a call. What is safe to send again is, as long as
// ctx lasts. Errors: those of the call; ErrNoCoordinator (not done), ErrUnknownOutcome.
func (g *Groups) Do(context.Context, *Call) (*Answer, error) { return nil, ErrNoCoordinator }

// List asks all coordinators for their groups, by name. Errors: ErrNoCoordinator.
func (g *Groups) List(context.Context) ([]Listing, error) { return nil, ErrNoCoordinator }

// Poll begins a poll with this broker as its front. Errors: as Do. Who gets a Poll
// must End it.
func (g *Groups) Poll(context.Context, string, Begin) (*Poll, error) { return nil, ErrNoCoordinator }

// Poll is a poll under way. It is used by one goroutine.
type Poll struct{ state PollState }

// State is what the poll reads, and for whom. It changes with Renew.
func (p *Poll) State() *PollState { return &p.state }

// Changed gets a token when what the member owns may have changed: read nothing more,
// and Renew if nothing was delivered, or answer with what there is.
func (p *Poll) Changed() <-chan struct{} { return nil }

// Renew takes over what the member owns now. Errors: those of a Begin; the poll is
// over then.
func (p *Poll) Renew(context.Context) error { return ErrNoCoordinator }

// Deliver has the coordinator remember what a poll with a request id is about to
// answer with, before the first byte is written.
func (p *Poll) Deliver(_ context.Context, from, to []Position) error { return ErrNoCoordinator }

// End ends the poll. When the answer was written to its end the positions are to from
// now on. An error only says that they may not be: records come again.
func (p *Poll) End(_ context.Context, written bool, to []Position) error { return ErrNoCoordinator }
