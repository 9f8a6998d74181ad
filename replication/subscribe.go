package replication

// Subscribe has s woken at every change of what consumers may read of a
// partition; see Partition.Subscribe. Errors are those of Partition.
func (b *Broker) Subscribe(topic string, num int32, s *Signal) (cancel func(), err error) {
	p, err := b.Partition(topic, num)
	if err != nil {
		return nil, err
	}
	return p.Subscribe(s), nil
}

// Changed is closed at the next change of State. Take it before reading State.
func (b *Broker) Changed() <-chan struct{} { return b.cfg.Controller.Changed() }
