package replication

import (
	"testing"

	"highwater/replication/controller"
)

func TestAPartitionIsThereAMomentBeforeItsMetadata(t *testing.T) {
	topic := &topic{b: &Broker{}}
	topic.meta.Store(&topicMeta{Topic: &controller.Topic{Partitions: make([]controller.Partition, 1)}})
	p := &Partition{topic: topic, num: 1}
	if e := p.notLeader(); e.Leader != controller.NoLeader {
		t.Errorf("%+v", e)
	}
}
