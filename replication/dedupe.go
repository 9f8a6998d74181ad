package replication

import (
	"errors"
	"sync/atomic"

	"highwater/storage"
)

// dedupeCounters count what a topic's message ids and producers came to on this
// broker since the start of the process.
type dedupeCounters struct {
	hits   atomic.Int64 // records that were duplicates
	reused atomic.Int64 // requests refused because an id belongs to another message
	gaps   atomic.Int64 // requests refused because of a producer's sequence or epoch
}

// count counts a request's duplicates.
func (c *dedupeCounters) count(duplicate []bool) {
	var n int64
	for _, d := range duplicate {
		if d {
			n++
		}
	}
	if n > 0 {
		c.hits.Add(n)
	}
}

// CountRefused counts an append that was refused because of an id or a producer before it came to a partition.
func (b *Broker) CountRefused(topic string, err error) {
	if t, unknown := b.localTopic(topic); unknown == nil {
		t.dedupe.refused(err)
	}
}

// refused counts what was refused because of an id or a producer.
func (c *dedupeCounters) refused(err error) {
	var reused *storage.MessageReusedError
	var gap *storage.SequenceGapError
	var unknown *storage.UnknownProducerError
	var fenced *storage.ProducerFencedError
	switch {
	case errors.As(err, &reused):
		c.reused.Add(1)
	case errors.As(err, &gap), errors.As(err, &unknown), errors.As(err, &fenced):
		c.gaps.Add(1)
	}
}
