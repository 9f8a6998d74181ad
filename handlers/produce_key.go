package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"highwater/storage"
)

// keyWait bounds the look-up of an Idempotency-Key: while some partition has no leader,
// the partitions that the request is for judge it alone.
const keyWait = 2 * time.Second

// checkKey refuses a request whose Idempotency-Key has come with another body before.
// Each partition would notice for its own records only: others of the request might go
// where the first body had none, and half of it would be written. So the key's first
// record is looked for in the whole topic.
func (a *api) checkKey(r *http.Request, p *produceRequest, plan *plan) error {
	if plan.idPrefix == "" || plan.fixed != anyPartition || plan.partitions < 2 || !plan.dedupes {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), min(keyWait, p.timeout))
	defer cancel()
	defer context.AfterFunc(a.cfg.LastCall, cancel)()
	found, err := a.cfg.Broker.FindMessage(ctx, plan.topic, plan.idPrefix+"0")
	if err != nil {
		return nil // it is new, or can't be told: the append says the rest
	}
	for _, h := range found.Record.Headers {
		if string(h.Key) == storage.RequestHashHeader && string(h.Value) == string(plan.hash.value[:]) {
			return nil
		}
	}
	a.cfg.Broker.CountRefused(plan.topic, &storage.MessageReusedError{})
	key := plan.idPrefix[:len(plan.idPrefix)-1]
	return &requestError{code: codeMessageReused,
		detail:  fmt.Sprintf("The Idempotency-Key %s came with another body before; its first record is at offset %d of %s-%d. Nothing was written.", shown(key), found.Record.Offset, plan.topic, found.Partition),
		fix:     "Give the new request a key of its own, or send the first one again as it was.",
		members: []member{{"partition", int64(found.Partition)}, {"first_offset", found.Record.Offset}}}
}
