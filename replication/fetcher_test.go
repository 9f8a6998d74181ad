package replication

import (
	"testing"

	"github.com/google/uuid"

	"highwater/replication/controller"
)

// A replica that was taken from this broker and given back is another one; which of
// the two changes a fetcher hears of first doesn't matter.
func TestAFetcherLetsAReplicaGoWhenAnotherOneComesInItsPlace(t *testing.T) {
	for _, order := range []string{"the old one goes first", "the new one comes first"} {
		t.Run(order, func(t *testing.T) {
			topic := &topic{}
			topic.meta.Store(&topicMeta{Topic: &controller.Topic{ID: uuid.New()}})
			before, now := &Partition{topic: topic}, &Partition{topic: topic}
			f := newFetcher(nil, 2)
			f.add(before, 0)
			f.takeChanges()
			steps := []func(){func() { f.remove(before) }, func() { f.add(now, 1) }}
			if order == "the new one comes first" {
				steps[0], steps[1] = steps[1], steps[0]
			}
			for _, step := range steps {
				step()
				f.takeChanges()
			}
			if w := f.parts[now.id()]; len(f.parts) != 1 || w == nil || w.p != now {
				t.Errorf("it follows %+v", f.parts)
			}
			for _, w := range f.due {
				if w.isDue != (w.p == now) {
					t.Errorf("to be named: %v, of the replica that is here now: %v", w.isDue, w.p == now)
				}
			}
		})
	}
}
