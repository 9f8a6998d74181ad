package controller

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/wire"
)

// manyPartitions is a cluster of three with 10,000 partitions in 100 topics.
func manyPartitions(b *testing.B) (*State, Registration) {
	s := NewState(0)
	index := uint64(0)
	apply := func(c Command) any {
		index++
		var result any
		if s, result = s.Apply(c, index); result != nil {
			if err, ok := result.(error); ok {
				b.Fatal(err)
			}
		}
		return result
	}
	for id := int32(1); id <= 3; id++ {
		broker := apply(&RegisterBroker{ID: id, Incarnation: uuid.New()}).(*Broker)
		apply(&SetBroker{ID: id, Epoch: broker.Epoch})
	}
	data := Registration{Durable: true, Held: map[uuid.UUID][]int32{}}
	for i := range 100 {
		topic := apply(&CreateTopic{Name: fmt.Sprintf("t%03d", i), ID: uuid.New(), Replicas: assign([]int32{1, 2, 3}, i, 100, 3)}).(*Topic)
		for p := range topic.Partitions {
			data.Held[topic.ID] = append(data.Held[topic.ID], int32(p))
		}
	}
	return s, data
}

// K18: one entry for all partitions of a broker.
func BenchmarkFence10000Partitions(b *testing.B) {
	s, _ := manyPartitions(b)
	c := &SetBroker{ID: 1, Epoch: s.Brokers[1].Epoch, Fenced: true}
	for b.Loop() {
		s.Apply(c, s.Index+1)
	}
}

func BenchmarkRegister10000Partitions(b *testing.B) {
	s, data := manyPartitions(b)
	c := &RegisterBroker{ID: 1, Incarnation: uuid.New(), Replaces: s.Brokers[1].Epoch, Data: data}
	b.ReportMetric(float64(len(encode(c))), "B/entry")
	for b.Loop() {
		s.Apply(c, s.Index+1)
	}
}

// A leader proposes for all that it leads, as after the loss of a follower.
func BenchmarkAlter3333Partitions(b *testing.B) {
	s, _ := manyPartitions(b)
	c := &AlterPartitions{Broker: 1, Epoch: s.Brokers[1].Epoch}
	for t := range s.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == 1 {
				c.Changes = append(c.Changes, wire.AlterPartition{Topic: t.ID, Partition: int32(i),
					ISR: []wire.Member{{Broker: 1, Epoch: c.Epoch}, {Broker: 2, Epoch: s.Brokers[2].Epoch}}})
			}
		}
	}
	for b.Loop() {
		s.Apply(c, s.Index+1)
	}
}
