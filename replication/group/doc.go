// Package group coordinates consumer groups: who of a group reads what, and how far
// it has come.
//
// The coordinator of a group is the leader of its partition of __consumer_offsets, a
// compacted topic; all that has to survive it is records there, committed at acks=-1
// before anybody is told. What is lost with a coordinator is soft: polls under way,
// positions since the last commit, when a member was heard last.
//
// A member's reads are done by whichever broker its request came to, its front:
//
//	front                                  coordinator
//	Begin ──────────────────────────────▶  sign of life; gives back, takes, commits if automatic
//	      ◀── token, partitions, positions
//	reads from the partitions' leaders
//	waits; one beat for all its polls ──▶  alive; changed? then Begin again with the token
//	writes the answer to the client
//	End ────────────────────────────────▶  positions move
//
// A partition moves to another member when its owner begins its next poll, or is
// waiting in one with nothing delivered, or has left, or has been silent too long.
package group
