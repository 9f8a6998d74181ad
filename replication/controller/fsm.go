package controller

import (
	"io"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// fsm applies commands. raft's own goroutine alone calls its methods; readers
// load the published state.
type fsm struct {
	state  atomic.Pointer[State]
	feed   *feed
	logger zerolog.Logger
	// unsaved counts the entries applied since the newest snapshot.
	unsaved atomic.Int64
	// incompatible is closed when State.Incompatible is set.
	incompatible chan struct{}
	// configuration is the index of the newest committed change of members; 0: it
	// is in a snapshot.
	configuration atomic.Uint64
	// restored is called when a snapshot has taken the state's place; nil: nobody asks.
	restored func()
}

func newFSM(logger zerolog.Logger) *fsm {
	f := &fsm{feed: newFeed(), logger: logger, incompatible: make(chan struct{})}
	f.state.Store(newState())
	return f
}

// Apply is ApplyBatch of one entry.
func (f *fsm) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch applies what raft committed in one go and publishes once.
func (f *fsm) ApplyBatch(entries []*raft.Log) []any {
	s := f.state.Load()
	results := make([]any, len(entries))
	var changed []uuid.UUID
	for i, entry := range entries {
		if entry.Type != raft.LogCommand {
			if entry.Type == raft.LogConfiguration { // batching state machines are given these, too
				f.configuration.Store(entry.Index)
			}
			continue
		}
		was := s.Incompatible
		var c []uuid.UUID
		s, c, results[i] = s.apply(entry.Data, entry.Index)
		changed = append(changed, c...)
		if was == 0 && s.Incompatible != 0 {
			f.logger.Error().Uint64("index", entry.Index).Msg("metadata command of a newer version: this state is no longer the cluster's")
			close(f.incompatible)
		}
	}
	f.unsaved.Add(int64(len(entries)))
	f.state.Store(s)
	f.feed.publish(changed, false)
	return results
}

// apply returns the next state, the topics that changed, and the command's
// result: an error, or what its documentation says. It is a pure function.
func (s *State) apply(entry []byte, index uint64) (*State, []uuid.UUID, any) {
	e := newEdit(s, index)
	p, err := decode(entry)
	if err != nil {
		if e.next.Incompatible == 0 {
			e.next.Incompatible = index
		}
		return e.next, nil, &IncompatibleError{Index: index, Reason: err.Error()}
	}
	result := p.apply(e)
	return e.finish(), e.changed, result
}

// Snapshot is instant: the state is immutable.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	s := f.state.Load()
	if s.Incompatible != 0 {
		// The log is the only place where that command still is: a snapshot would
		// have raft throw it away before a newer version can apply it.
		return nil, &IncompatibleError{Index: s.Incompatible, Reason: "no snapshot of a state that lacks it"}
	}
	return &fsmSnapshot{state: s, saved: f.unsaved.Load(), unsaved: &f.unsaved}, nil
}

// Restore replaces the state by a snapshot; watchers see a jump (K10).
func (f *fsm) Restore(r io.ReadCloser) error {
	s, err := readSnapshot(r)
	if err != nil {
		return err
	}
	f.unsaved.Store(0)
	f.state.Store(s)
	f.feed.publish(nil, true)
	if f.restored != nil {
		f.restored()
	}
	return nil
}
