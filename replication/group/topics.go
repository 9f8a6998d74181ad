package group

import (
	"hash/maphash"
	"iter"

	"highwater/replication/controller"

	"github.com/google/uuid"
)

// Topics is what groups need of the cluster's metadata, at one raft index.
type Topics interface {
	// Index is the metadata's raft index.
	Index() uint64
	// Shape is equal for two Topics of one view only if names, ids and numbers of
	// partitions are.
	Shape() uint64
	Topic(name string) (TopicInfo, bool)
	TopicByID(id uuid.UUID) (TopicInfo, bool)
	// All yields the topics in the order of their names, internal ones left out.
	All() iter.Seq[TopicInfo]
}

// TopicInfo is a topic.
type TopicInfo struct {
	Name       string
	ID         uuid.UUID
	Partitions int32
}

// view makes Topics of a broker's metadata. Its seed is its own: shapes of two views
// have nothing to do with each other.
type view struct{ seed maphash.Seed }

func newView() *view { return &view{seed: maphash.MakeSeed()} }

// topics of a state of the metadata. It looks at each topic once.
func (v *view) topics(st *controller.State) Topics {
	sum := uint64(0)
	for t := range st.Topics() {
		sum += maphash.Comparable(v.seed, asTopic(t)) // whatever the order
	}
	return &metadata{state: st, shape: sum}
}

// metadata is the controller's state as Topics.
type metadata struct {
	state *controller.State
	shape uint64
}

func (m *metadata) Index() uint64 { return m.state.Index }
func (m *metadata) Shape() uint64 { return m.shape }

func (m *metadata) Topic(name string) (TopicInfo, bool) {
	t, ok := m.state.Topic(name)
	if !ok || controller.IsInternalTopic(name) {
		return TopicInfo{}, false
	}
	return asTopic(t), true
}

func (m *metadata) TopicByID(id uuid.UUID) (TopicInfo, bool) {
	t, ok := m.state.TopicByID(id)
	if !ok || controller.IsInternalTopic(t.Name) {
		return TopicInfo{}, false
	}
	return asTopic(t), true
}

func (m *metadata) All() iter.Seq[TopicInfo] {
	return func(yield func(TopicInfo) bool) {
		for t := range m.state.Topics() {
			if !controller.IsInternalTopic(t.Name) && !yield(asTopic(t)) {
				return
			}
		}
	}
}

func asTopic(t *controller.Topic) TopicInfo {
	return TopicInfo{Name: t.Name, ID: t.ID, Partitions: int32(len(t.Partitions))}
}
