package controller

import "highwater/replication/replica"

// NewState is the metadata of a cluster that nothing has happened to. Together
// with Apply it is the whole state machine without raft: what a model of the
// cluster steps. mutation leaves rules out, which only a test of such a model
// does; NoR44 and NoR73 are the controller's.
func NewState(mutation replica.Mutation) *State {
	s := newState()
	s.mutation = mutation
	return s
}

// Apply returns the state after a command at a raft index, which must be higher
// than the state's, and the command's result: an error, or what the command's
// documentation says. It is a pure function, and what it takes and gives may be
// kept. The command goes through its encoding, as it does in the log.
func (s *State) Apply(c Command, index uint64) (*State, any) {
	next, _, result := s.apply(encode(c), index)
	return next, result
}
