package replication

import "highwater/storage"

// damaged is what a leader does about a damaged batch of its log that a follower
// asks for (S7): TODO
func (b *Broker) damaged(p *Partition, offset int64, err *storage.CorruptError) {
	b.cfg.Logger.Error().Err(err).Str("topic", p.topic.name()).Int32("partition", p.num).Int64("offset", offset).Msg("a follower asks for a damaged batch")
}
