package replication

import (
	"context"
	"slices"
	"testing"
	"time"

	"highwater/replication/group"
	"highwater/replication/wire"
)

// A client that was told that nothing was done polls elsewhere. What of its former poll
// comes to the coordinator then changes nothing: it doesn't commit what the client is
// at, and doesn't give back what it reads (G6).
func TestGroups_ABeginThatComesLate(t *testing.T) {
	inGroupCluster(t, func(c *groupCluster) {
		c.join(2, "a", func(o *group.Options) { o.AutoCommit = true })
		c.end(c.polling(2, "a"))
		sent := false
		c.net.faults(func(from, _ int32, path string) forwardFault {
			if from != 2 || path != wire.PathGroupCall || sent {
				return noFault
			}
			sent = true
			return comeLate
		})
		_, err := c.poll(2, "a", 500*time.Millisecond)
		c.refused("a poll that the coordinator hasn't heard of", err)

		p := c.polling(3, "a")
		if got := partitionsOf(p); !slices.Equal(got, []int32{0, 1, 2, 3}) {
			t.Fatalf("it reads %v", got)
		}
		at := p.State().Positions[0]
		at.Offset = 7
		c.must(p.End(context.Background(), true, []group.Position{at}))
		c.join(3, "b") // half of it is to be b's when a polls again
		time.Sleep(arrivalDelay)

		c.is(-1, 1)
		answer := c.done(1, group.Call{Member: &group.MemberQuery{Instance: "a"}})
		if n := len(answer.Member.Assignments); n != 4 {
			t.Errorf("it owns %d partitions without having polled: %+v", n, answer.Member.Assignments)
		}
	})
}
