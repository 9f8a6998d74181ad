package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// crowd is a group at rest: members that own all of a topic's partitions.
func crowd(b *testing.B, members int, partitions int32) (*state, *labTopics, time.Time) {
	b.Helper()
	s, topics, now := newState("g"), newLabTopics(), time.UnixMilli(1_700_000_000_000)
	topics.set("t", partitions)
	options := labOptions()
	options.SessionTimeout = time.Hour
	do := func(call *Call) {
		call.Group, call.ID = "g", uuid.New()
		if _, _, err := s.do(now, topics, call); err != nil {
			b.Fatal(err)
		}
	}
	for i := range members {
		name := fmt.Sprint("m", i)
		do(&Call{Create: &Create{Name: name, Options: options}})
		do(&Call{Subscribe: &Subscribe{Instance: name, Topics: []string{"t"}}})
	}
	for i := range members {
		call := &Call{Begin: &Begin{Instance: fmt.Sprint("m", i)}}
		do(call)
		do(&Call{End: &End{Instance: call.Begin.Instance, Token: callToken(call)}})
	}
	return s, topics, now
}

// A poll of one of 100 members with 1,000 partitions, and its end.
func BenchmarkPoll(b *testing.B) {
	s, topics, now := crowd(b, 100, 1000)
	for b.Loop() {
		begin := &Call{Group: "g", ID: uuid.New(), Begin: &Begin{Instance: "m7"}}
		answer, _, err := s.do(now, topics, begin)
		if err != nil || len(answer.Poll.Positions) != 10 {
			b.Fatal(answer, err)
		}
		if _, _, err := s.do(now, topics, &Call{Group: "g", End: &End{Instance: "m7", Token: callToken(begin)}}); err != nil {
			b.Fatal(err)
		}
	}
}

// A member that joins 99 others with 1,000 partitions, and leaves.
func BenchmarkJoinAndLeave(b *testing.B) {
	s, topics, now := crowd(b, 99, 1000)
	for b.Loop() {
		for _, call := range []*Call{
			{Create: &Create{Name: "x", Options: labOptions()}},
			{Subscribe: &Subscribe{Instance: "x", Topics: []string{"t"}}},
			{Leave: &Leave{Instance: "x"}},
		} {
			call.Group, call.ID = "g", uuid.New()
			if _, _, err := s.do(now, topics, call); err != nil {
				b.Fatal(err)
			}
		}
	}
}
