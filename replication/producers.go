package replication

import (
	"context"

	"highwater/storage"
)

// InitProducer gives out a producer id that nobody has had, in epoch 0; with a
// transactional id the one that belongs to that, in its next epoch, which fences
// those before. Errors: as controller.Controller.InitProducer.
func (b *Broker) InitProducer(ctx context.Context, transactionalID string) (pid int64, epoch int16, err error) {
	return b.cfg.Controller.InitProducer(ctx, transactionalID)
}

// CheckProducer tells whether a producer was ever given out, in this epoch or a later
// one; it takes two seconds at most. *storage.UnknownProducerError: it wasn't;
// controller.ErrNoController: that can't be told now.
func (b *Broker) CheckProducer(ctx context.Context, pid int64, epoch int16) error {
	given, err := b.cfg.Controller.ProducerGiven(ctx, pid, epoch)
	if err != nil {
		return err
	}
	if !given {
		return &storage.UnknownProducerError{ProducerID: pid}
	}
	return nil
}
