package controller

import (
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// Memory is one member's view of the metadata without a quorum: the state machine
// and its feed. With one for each broker, a test decides which of them learns of
// what, and when.
type Memory struct{ fsm *fsm }

// NewMemory begins with the metadata of a cluster that nothing has happened to.
func NewMemory() *Memory { return &Memory{fsm: newFSM(zerolog.Nop())} }

// Apply applies a command at a raft index and tells those who watch; see
// State.Apply. Call it from one goroutine at a time.
func (m *Memory) Apply(c Command, index uint64) any {
	return m.fsm.Apply(&raft.Log{Type: raft.LogCommand, Index: index, Data: encode(c)})
}

// State is the newest.
func (m *Memory) State() *State { return m.fsm.state.Load() }

// Watch returns a cursor that stands before everything.
func (m *Memory) Watch() *Cursor { return m.fsm.watch() }

// Changed is closed at the next change of State. Take it before reading State.
func (m *Memory) Changed() <-chan struct{} {
	m.fsm.feed.mu.Lock()
	defer m.fsm.feed.mu.Unlock()
	return m.fsm.feed.last.done
}
