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
type view struct {
	seed maphash.Seed
	// of the state that next returned last
	hashes map[uuid.UUID]uint64
	sum    uint64 // of hashes, wrapping: whatever the order
}

func newView() *view { return &view{seed: maphash.MakeSeed(), hashes: map[uuid.UUID]uint64{}} }

// next is the newest metadata. It looks at the topics that changed since it was
// called last: a broker may know ten thousand, and hear of something every moment.
func (v *view) next(c *controller.Cursor) *metadata {
	s, ids, jump := c.Next()
	if jump {
		clear(v.hashes)
		v.sum = 0
		for t := range s.Topics() {
			ids = append(ids, t.ID)
		}
	}
	for _, id := range ids {
		v.sum -= v.hashes[id]
		delete(v.hashes, id)
		if t, ok := s.TopicByID(id); ok {
			h := maphash.Comparable(v.seed, asTopic(t))
			v.hashes[id] = h
			v.sum += h
		}
	}
	return &metadata{state: s, shape: v.sum}
}

// topics of a state of the metadata, for a group that is nothing yet.
func (v *view) topics(st *controller.State) Topics { return &metadata{state: st} }

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
