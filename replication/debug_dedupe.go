package replication

import (
	"encoding/hex"
	"errors"

	"github.com/google/uuid"
)

// DebugDedupe is what one replica remembers of message ids and producers, for a
// checker of V29: Digest of what it would go by, Recomputed of what its log tells.
type DebugDedupe struct {
	Topic      string    `json:"topic"`
	TopicID    uuid.UUID `json:"topic_id"`
	Partition  int32     `json:"partition"`
	LogEnd     int64     `json:"log_end"`
	Digest     string    `json:"digest"`
	Recomputed string    `json:"recomputed"`
	Ids        int64     `json:"ids"`
	Producers  int64     `json:"producers"`
}

// DebugDedupe reads the whole log of each replica of a topic that this broker has.
// The two digests are of one moment only while nothing is appended. Errors:
// *controller.UnknownTopicError; those of reading a log.
func (b *Broker) DebugDedupe(name string) ([]DebugDedupe, error) {
	t, err := b.localTopic(name)
	if err != nil {
		return nil, err
	}
	var out []DebugDedupe
	var errs []error
	for _, p := range *t.partitions.Load() {
		if p == nil || p.offline != nil {
			continue
		}
		d := DebugDedupe{Topic: name, TopicID: t.meta.Load().ID, Partition: p.num, LogEnd: p.log.WrittenEnd()}
		digest, err1 := p.log.DedupeDigest()
		recomputed, err2 := p.log.RecomputeDedupeDigest()
		errs = append(errs, err1, err2)
		figures := p.log.DedupeFigures()
		d.Digest, d.Recomputed = hex.EncodeToString(digest[:]), hex.EncodeToString(recomputed[:])
		d.Ids, d.Producers = figures.Ids, figures.Producers
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}
