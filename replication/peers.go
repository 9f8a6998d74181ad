package replication

import (
	"context"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// Peers reaches the other brokers with the traffic of replicas. A method returns
// when ctx ends, and what it is given may be reused from then on.
type Peers interface {
	// Fetch sends a follower's long-poll to the broker at url (R12). The answer's
	// batches lie in *buf where they fit; it may be replaced by a larger one. They
	// are good until the next call with buf.
	Fetch(ctx context.Context, url string, req *wire.FetchRequest, buf *[]byte) (*wire.FetchResponse, error)
	// Dedupe asks the leader at url for what it remembers of records that its log
	// doesn't hold any more.
	Dedupe(ctx context.Context, url string, req *wire.DedupeRequest) (*wire.DedupeAnswer, error)
	// LeaderEpoch tells the broker at url of newer leaders (R64). Best effort.
	LeaderEpoch(ctx context.Context, url string, notices *wire.LeaderEpochNotices) error
}

// Metadata is what a broker needs of the metadata quorum: what it has agreed on, and
// a way to propose changes. *controller.Controller is one.
type Metadata interface {
	// State is the newest metadata that is applied here; Changed is closed at its next
	// change, and Watch tells of each.
	State() *controller.State
	Changed() <-chan struct{}
	Watch() *controller.Cursor
	// Newest makes State as new as the quorum's, and asks for it until ctx ends;
	// controller.ErrNoController when nobody could be asked.
	Newest(ctx context.Context) error
	Quorum() controller.QuorumInfo

	// CreateTopic, AlterTopic and DeleteTopic change topics; State has the change
	// when they return.
	CreateTopic(ctx context.Context, req controller.CreateTopicRequest) (*controller.Topic, error)
	AlterTopic(ctx context.Context, name string, configs map[string]*string, partitions int) (*controller.Topic, error)
	DeleteTopic(ctx context.Context, name string) error

	// InitProducer gives out a producer id; ProducerGiven tells whether one was given
	// out, by the newest metadata if need be.
	InitProducer(ctx context.Context, transactionalID string) (pid int64, epoch int16, err error)
	ProducerGiven(ctx context.Context, pid int64, epoch int16) (bool, error)

	// BrokerEpoch is this broker's epoch, 0 before it is registered.
	BrokerEpoch() int64
	// SessionValid tells that the controller can't have fenced this broker yet, by
	// a clock that goes on while the machine sleeps (R59).
	SessionValid() bool
	// Unfence lets this broker lead and be in sync; State has it when it returns.
	Unfence(ctx context.Context) error
	// AlterPartitions proposes ISRs (R43). An error that is controller.ErrNoController
	// says that nothing was proposed; after any other one nobody knows (R45). Without
	// an error there is a result for each change, in their order.
	AlterPartitions(ctx context.Context, changes []wire.AlterPartition) ([]wire.AlterResult, error)
	// DropReplicas has this broker's copies of partitions leave ISR and leadership:
	// they are damaged (S7). A result for each; CodeIneligibleReplica: nobody else
	// can lead.
	DropReplicas(ctx context.Context, partitions []wire.TopicPartition) ([]wire.AlterResult, error)
}

var _ Metadata = (*controller.Controller)(nil)
