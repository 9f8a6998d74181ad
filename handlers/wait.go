package handlers

import (
	"context"
	"time"

	"highwater/replication"
)

// await calls try until it is done, wait has passed, the client has left or the
// broker shuts down; between the calls it sleeps until a partition of rd changes.
// It holds no buffer and no lock while it sleeps.
func (a *api) await(ctx context.Context, rd *reader, wait time.Duration, try func() (done bool, err error)) error {
	done, err := try()
	if err != nil || done || wait == 0 {
		return err
	}
	release, err := a.enterWait()
	if err != nil {
		return err
	}
	defer release()
	signal := replication.NewSignal()
	defer rd.close()
	if err := rd.subscribe(signal); err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		// What came before the subscription woke nobody: look again.
		if done, err := try(); err != nil || done {
			return err
		}
		select {
		case <-signal.C:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		case <-a.cfg.Draining:
			return nil
		}
	}
}
