package replication

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// link cuts or mends what from sends to to: requests one way, answers the other.
func (c *testCluster) link(from, to int32, open bool) {
	c.mu.Lock()
	c.cut[[2]int32{from, to}] = !open
	c.mu.Unlock()
	if !open {
		c.hangUp(func(call *call) bool { return call.from == from && call.to == to || call.from == to && call.to == from })
	}
}

// links cuts or mends all links of a broker, both ways.
func (c *testCluster) links(id int32, open bool) {
	for _, m := range c.members {
		if m.id != id {
			c.link(id, m.id, open)
			c.link(m.id, id, open)
		}
	}
}

func (c *testCluster) hangUp(which func(*call) bool, of ...int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range c.calls {
		if which(call) && (len(of) == 0 || slices.Contains(of, call.from) || slices.Contains(of, call.to)) {
			call.cancel()
		}
	}
}

var errCut = errors.New("the link is cut")

// testPeers is the network as one broker sees it.
type testPeers struct{ m *member }

func (p *testPeers) dial(ctx context.Context, url string) (*member, context.Context, func() error, error) {
	id, err := strconv.Atoi(url)
	if err != nil {
		return nil, nil, nil, err
	}
	c, from, to := p.m.c, p.m.id, int32(id)
	ctx, cancel := context.WithCancel(ctx)
	one := &call{from: from, to: to, cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	target := c.broker(to)
	if c.cut[[2]int32{from, to}] || !target.up {
		cancel()
		return nil, nil, nil, errCut
	}
	c.calls[one] = struct{}{}
	return target, ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, one)
		err := ctx.Err()
		cancel()
		if c.cut[[2]int32{to, from}] {
			return errCut
		}
		return err
	}, nil
}

func (p *testPeers) Fetch(ctx context.Context, url string, req *wire.FetchRequest, buf *[]byte) (*wire.FetchResponse, error) {
	target, ctx, end, err := p.dial(ctx, url)
	if err != nil {
		return nil, err
	}
	resp := target.ServeFetch(ctx, req, buf)
	p.m.c.mu.Lock()
	answered := p.m.c.answered
	p.m.c.mu.Unlock()
	if answered != nil {
		answered(p.m.id, target.id, req, resp)
	}
	return resp, end()
}

func (p *testPeers) Dedupe(ctx context.Context, url string, req *wire.DedupeRequest) (*wire.DedupeAnswer, error) {
	target, _, end, err := p.dial(ctx, url)
	if err != nil {
		return nil, err
	}
	answer := target.ServeDedupe(req)
	return answer, end()
}

func (p *testPeers) LeaderEpoch(ctx context.Context, url string, notices *wire.LeaderEpochNotices) error {
	target, _, end, err := p.dial(ctx, url)
	if err != nil {
		return err
	}
	if code := target.ServeLeaderEpoch(notices); code != wire.OK {
		return errors.New(string(code))
	}
	return end()
}

// testMetadata is the metadata quorum as one broker sees it.
type testMetadata struct {
	*controller.Memory
	m *member
}

func (m *member) metadata() *testMetadata { return &testMetadata{m.meta, m} }

func (d *testMetadata) propose(cmd controller.Command) (any, error) {
	d.m.mu.Lock()
	lonely := d.m.lonely
	d.m.mu.Unlock()
	if lonely {
		return nil, controller.ErrNoController
	}
	result := d.m.c.apply(cmd)
	err, _ := result.(error)
	return result, err
}

func (d *testMetadata) Quorum() controller.QuorumInfo { return controller.QuorumInfo{} }

func (d *testMetadata) CreateTopic(context.Context, controller.CreateTopicRequest) (*controller.Topic, error) {
	return nil, controller.ErrNoController
}

func (d *testMetadata) AlterTopic(context.Context, string, map[string]*string, int) (*controller.Topic, error) {
	return nil, controller.ErrNoController
}

func (d *testMetadata) DeleteTopic(_ context.Context, name string) error {
	t, ok := d.State().Topic(name)
	if !ok {
		return &controller.UnknownTopicError{Topic: name}
	}
	_, err := d.propose(&controller.DeleteTopic{ID: t.ID})
	return err
}

func (d *testMetadata) InitProducer(_ context.Context, transactionalID string) (int64, int16, error) {
	var cmd controller.Command = &controller.ReserveProducers{Count: 1}
	if transactionalID != "" {
		cmd = &controller.InitProducer{TransactionalID: transactionalID}
	}
	result, err := d.propose(cmd)
	if err != nil {
		return 0, 0, err
	}
	ids := result.(*controller.ProducerIDs)
	return ids.First, ids.Epoch, nil
}

func (d *testMetadata) ProducerGiven(_ context.Context, pid int64, epoch int16) (bool, error) {
	return d.State().ProducerGiven(pid, epoch), nil
}

func (d *testMetadata) BrokerEpoch() int64 { return d.m.epoch }

func (d *testMetadata) SessionValid() bool {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return !d.m.expired
}

func (d *testMetadata) Newest(context.Context) error { return nil }

func (d *testMetadata) Unfence(context.Context) error {
	_, err := d.propose(&controller.SetBroker{ID: d.m.id, Epoch: d.m.epoch})
	return err
}

func (d *testMetadata) DropReplicas(_ context.Context, partitions []wire.TopicPartition) ([]wire.AlterResult, error) {
	result, err := d.propose(&controller.DropReplicas{Broker: d.m.id, Epoch: d.m.epoch, Partitions: partitions})
	if err != nil {
		return nil, err
	}
	return result.([]wire.AlterResult), nil
}

func (d *testMetadata) AlterPartitions(_ context.Context, changes []wire.AlterPartition) ([]wire.AlterResult, error) {
	d.m.c.mu.Lock()
	hook := d.m.c.proposals
	d.m.c.mu.Unlock()
	if hook != nil {
		if results, err, done := hook(d.m.id, changes); done {
			return results, err
		}
	}
	result, err := d.propose(&controller.AlterPartitions{Broker: d.m.id, Epoch: d.m.epoch, Changes: changes})
	if err != nil {
		return nil, err
	}
	return result.([]wire.AlterResult), nil
}
