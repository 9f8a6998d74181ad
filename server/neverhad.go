package main

import (
	"slices"

	"highwater/replication/controller"
	"highwater/storage"
)

// neverHad adds to what the disk holds the partitions that it never had, as far as
// the store can vouch for that: a topic may have been made a moment before this
// broker was killed, and is not lost because of that.
func (p *process) neverHad(r *controller.Registration) error {
	held := map[storage.PartitionID]bool{}
	for topic, partitions := range r.Held {
		for _, num := range partitions {
			held[storage.PartitionID{Topic: topic, Partition: num}] = true
		}
	}
	for t := range p.ctl.State().Topics() {
		for i := range t.Partitions {
			id := storage.PartitionID{Topic: t.ID, Partition: int32(i)}
			if held[id] || !slices.Contains(t.Partitions[i].Replicas, p.cfg.NodeID) {
				continue
			}
			ok, err := p.store.NeverHad(id)
			if err != nil {
				return err
			}
			if ok {
				r.Held[t.ID] = append(r.Held[t.ID], id.Partition)
			}
		}
	}
	return nil
}
