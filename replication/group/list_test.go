package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// fixedMetadata never changes.
type fixedMetadata struct{ state *controller.State }

func (m fixedMetadata) State() *controller.State   { return m.state }
func (fixedMetadata) Changed() <-chan struct{}     { return nil }
func (fixedMetadata) Watch() *controller.Cursor    { return nil }
func (fixedMetadata) Newest(context.Context) error { return nil }

// slowPeers answer nothing in time.
type slowPeers struct{ Peers }

func (slowPeers) GroupList(ctx context.Context, _ string, _ *wire.GroupList) (*wire.GroupListAnswer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// That a coordinator doesn't answer in time is no unknown outcome: a list does nothing.
func TestListWithoutACoordinatorIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controller.NewState(0)
		for i, c := range []controller.Command{
			&controller.InitCluster{ClusterID: "list"},
			&controller.RegisterBroker{ID: 2, Incarnation: uuid.UUID{2}, URL: "http://two"},
			&controller.CreateTopic{Name: Topic, ID: uuid.UUID{1}, Replicas: [][]int32{{2}}},
		} {
			s, _ = s.Apply(c, uint64(i+1))
		}
		topic, ok := s.Topic(Topic)
		if !ok {
			t.Fatal("no topic")
		}
		topic.Partitions[0].Leader = 2
		g := New(Config{NodeID: 1, Metadata: fixedMetadata{s}, Peers: slowPeers{}, Logger: zerolog.Nop()})
		if _, err := g.List(t.Context()); !errors.Is(err, ErrNoCoordinator) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("List: %v", err)
		}
	})
}
