package replication

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/storage"
)

// Registration is what a broker can prove of its disk when it tells the controller
// that it is there (R66, R71-R73). It recovers every log, and looks at the metadata
// that the controller has now for partitions that this directory never had.
func Registration(ctx context.Context, store *storage.Store, metadata *controller.State, node int32) (controller.Registration, error) {
	held, err := store.Held(ctx)
	if err != nil {
		return controller.Registration{}, err
	}
	directory, err := uuid.Parse(store.Identity().DirectoryID)
	if err != nil {
		return controller.Registration{}, fmt.Errorf("replication: directory id: %w", err)
	}
	r := controller.Registration{Directory: directory, Durable: store.DurableStart(), Held: map[uuid.UUID][]int32{}}
	if epoch, ok := store.PreviousBrokerEpoch(); ok {
		r.PreviousEpoch = epoch
	}
	here := map[storage.PartitionID]bool{}
	for _, log := range held {
		here[log.ID] = true
		if !log.Lossy {
			r.Held[log.ID.Topic] = append(r.Held[log.ID.Topic], log.ID.Partition)
		}
	}
	addNeverHad(&r, here, store, metadata, node)
	return r, nil
}

// addNeverHad adds the partitions that the directory never had, as far as the store
// can vouch for that: a topic may have been made a moment before this broker was
// killed, and is not lost because of that.
func addNeverHad(r *controller.Registration, here map[storage.PartitionID]bool, store *storage.Store, metadata *controller.State, node int32) {
	for t := range metadata.Topics() {
		for i := range t.Partitions {
			id := storage.PartitionID{Topic: t.ID, Partition: int32(i)}
			if here[id] || !slices.Contains(t.Partitions[i].Replicas, node) {
				continue
			}
			if store.NeverHad(id) {
				r.Held[t.ID] = append(r.Held[t.ID], id.Partition)
			}
		}
	}
}
