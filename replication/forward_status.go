package replication

import (
	"context"
	"sync"

	"highwater/replication/wire"
	"highwater/storage"
)

// statuses describes partitions of a topic, each as its leader sees it; every leader
// is asked once, all at the same time. Errors: *controller.UnknownTopicError,
// *UnknownPartitionError.
func (b *Broker) statuses(ctx context.Context, name string, nums []int32) ([]PartitionStatus, error) {
	out := make([]PartitionStatus, len(nums))
	groups := map[string][]int{}
	var topic wire.TopicPartition
	for i, num := range nums {
		var err error
		if out[i], err = b.partitionStatusLocal(name, num); err != nil {
			return nil, err
		}
		if l, err := b.locate(name, num); err == nil && b.elsewhere(&l) {
			topic, out[i].Leader = l.TopicPartition, l.leader
			groups[l.url] = append(groups[l.url], i)
		}
	}
	var asked sync.WaitGroup
	for url, at := range groups {
		asked.Go(func() {
			req := &wire.StatusRequest{Version: wire.Version, Topic: topic.Topic}
			for _, i := range at {
				req.Partitions = append(req.Partitions, nums[i])
			}
			answer, err := ask[wire.StatusRequest, wire.StatusAnswer](ctx, b, url, wire.PathStatus, 0, req)
			if err != nil || answer.Error != nil || len(answer.Partitions) != len(at) {
				return // it stays as it is known here
			}
			for k, i := range at {
				if st := &answer.Partitions[k]; st.LogEnd >= 0 {
					out[i] = statusFrom(nums[i], st)
				}
			}
		})
	}
	asked.Wait()
	return out, nil
}

func statusFrom(num int32, st *wire.PartitionStatus) PartitionStatus {
	out := PartitionStatus{Partition: num, Leader: st.Leader, LeaderEpoch: st.LeaderEpoch, ISR: st.ISR, LogStartOffset: st.LogStart,
		HighWatermark: st.HighWatermark, LogEndOffset: st.LogEnd, SizeBytes: st.SizeBytes, Replicas: make([]ReplicaStatus, len(st.Replicas))}
	for i, r := range st.Replicas {
		out.Replicas[i] = ReplicaStatus{Broker: r.Broker, Leader: r.Leader, InSync: r.InSync, LogEndOffset: r.LogEnd, Lag: r.Lag, LastCaughtUpMs: r.LastCaughtUpMs}
	}
	if d := st.Dedupe; d != nil {
		out.Dedupe = &storage.DedupeFigures{Ids: d.IDs, Producers: d.Producers, OldestMs: d.OldestMs, NewestMs: d.NewestMs, Hits: d.Hits, EvictedEarly: d.EvictedEarly}
	}
	return out
}

// ServeStatus answers another broker for the partitions that this one leads.
func (b *Broker) ServeStatus(req *wire.StatusRequest) *wire.StatusAnswer {
	answer := &wire.StatusAnswer{Version: wire.Version}
	name, err := b.topicName(wire.TopicPartition{Topic: req.Topic})
	for _, num := range req.Partitions {
		if err != nil {
			break
		}
		var st PartitionStatus
		st, err = b.partitionStatusLocal(name, num)
		w := wire.PartitionStatus{Leader: st.Leader, LeaderEpoch: st.LeaderEpoch, ISR: st.ISR, LogStart: st.LogStartOffset,
			HighWatermark: st.HighWatermark, LogEnd: st.LogEndOffset, SizeBytes: st.SizeBytes, Replicas: make([]wire.ReplicaStatus, len(st.Replicas))}
		for i, r := range st.Replicas {
			w.Replicas[i] = wire.ReplicaStatus{Broker: r.Broker, Leader: r.Leader, InSync: r.InSync, LogEnd: r.LogEndOffset, Lag: r.Lag, LastCaughtUpMs: r.LastCaughtUpMs}
		}
		if d := st.Dedupe; d != nil {
			w.Dedupe = &wire.DedupeStatus{IDs: d.Ids, Producers: d.Producers, OldestMs: d.OldestMs, NewestMs: d.NewestMs, Hits: d.Hits, EvictedEarly: d.EvictedEarly}
		}
		answer.Partitions = append(answer.Partitions, w)
	}
	answer.Error = encodeError(err)
	return answer
}
