package controller

import (
	"fmt"
	"slices"

	"highwater/replication/wire"
)

// apply of a reassignment is all or nothing: the first item that can't be is the
// reason that none is.
func (c *Reassign) apply(e *edit) any {
	for i := range c.Items {
		if err := e.checkReassignment(&c.Items[i]); err != nil {
			return err
		}
	}
	for i := range c.Items {
		item := &c.Items[i]
		t, p := e.partition(item.Topic, item.Partition)
		target := p.target(item)
		e.update(t, item.Partition, func(p *Partition) {
			original := minus(p.Replicas, p.Adding)
			p.Adding, p.Removing = minus(target, original), minus(original, target)
			p.Replicas = slices.Concat(target, p.Removing)
			p.ISR, p.ELR, p.LastKnownELR = only(p.ISR, p.Replicas), only(p.ELR, p.Replicas), only(p.LastKnownELR, p.Replicas)
		})
	}
	return nil
}

// target is what the partition's replicas are to be in the end.
func (p *Partition) target(r *Reassignment) []int32 {
	if len(r.Replicas) == 0 {
		return minus(p.Replicas, p.Adding)
	}
	return r.Replicas
}

func (e *edit) checkReassignment(r *Reassignment) error {
	t, p := e.partition(r.Topic, r.Partition)
	if p == nil {
		return &UnknownTopicError{Topic: r.Topic.String()}
	}
	refuse := func(code wire.Code, format string, args ...any) error {
		return &RefusedError{Code: code, Reason: fmt.Sprintf("%s-%d: %s", t.Name, r.Partition, fmt.Sprintf(format, args...))}
	}
	target := p.target(r)
	original := minus(p.Replicas, p.Adding)
	switch {
	case len(r.Replicas) == 0 && len(p.Adding)+len(p.Removing) == 0:
		return refuse(wire.CodeInvalidRequest, "no reassignment is under way")
	case len(target) != t.ReplicationFactor || repeats(target):
		return refuse(wire.CodeInvalidRequest, "%v are not %d different replicas", target, t.ReplicationFactor)
	}
	for _, id := range minus(target, original) {
		if e.next.Brokers[id] == nil {
			return refuse(wire.CodeInvalidRequest, "there is no broker %d", id)
		}
	}
	// What was being added and isn't wanted any more goes at once. That must not
	// cost a whole copy that the ISR can't spare (R82, F68).
	dropped := minus(p.Replicas, slices.Concat(target, original))
	if len(only(slices.Concat(p.ISR, p.ELR), dropped)) > 0 && len(minus(p.ISR, dropped)) < t.EffectiveMinInSync() {
		return refuse(wire.CodeIneligibleReplica, "of those in sync only %v would be left", minus(p.ISR, dropped))
	}
	return nil
}

// completeReassignment ends a reassignment once all new replicas are in sync and
// enough of those that stay are (R82, R83).
func (e *edit) completeReassignment(t *Topic, p *Partition) {
	if len(p.Adding)+len(p.Removing) == 0 {
		return
	}
	isr := minus(p.ISR, p.Removing)
	if len(minus(p.Adding, isr)) > 0 || len(isr) < t.EffectiveMinInSync() {
		return
	}
	p.Replicas, p.ISR = minus(p.Replicas, p.Removing), isr
	p.ELR, p.LastKnownELR = minus(p.ELR, p.Removing), minus(p.LastKnownELR, p.Removing)
	p.Adding, p.Removing = nil, nil
}

// only returns those of ids that are in others: ids itself when all are.
func only(ids, others []int32) []int32 {
	if out := minus(ids, others); len(out) > 0 {
		return minus(ids, out)
	}
	return ids
}
