package group

import (
	"context"

	"highwater/replication/controller"
	"highwater/replication/wire"
	"highwater/storage"
)

// Log is the partitions of __consumer_offsets that this broker leads. Whoever
// coordinates does so in one leader epoch: each method but Make refuses with an
// error that wraps ErrNoCoordinator, and without having done anything, when this
// broker doesn't lead the partition in just that epoch, or can't vouch for it.
type Log interface {
	// Make creates the topic unless it is there, and returns when this broker knows it.
	Make(ctx context.Context) error
	// Bounds tells where the log starts and where it ends: what was appended, committed
	// or not, ends there.
	Bounds(partition, epoch int32) (start, end int64, err error)
	// Read waits until the high watermark is above offset, or ctx ends, and returns
	// whole batches from there on, in the memory of buf if they fit.
	Read(ctx context.Context, partition, epoch int32, offset int64, buf []byte) ([]byte, error)
	// Leads is nil when nobody else can have led the partition until it was called.
	Leads(partition, epoch int32) error
	// Ready is nil when an append would be taken now; else it is the error of it.
	Ready(partition, epoch int32) error
	// Append appends batches and returns when they are committed. An error that wraps
	// ErrUnknownOutcome leaves open whether they are or will be; any other says that
	// they are nowhere.
	Append(ctx context.Context, partition, epoch int32, batches []storage.Batch) error
}

// Metadata is what the cluster has agreed on.
type Metadata interface {
	// State is the newest that is known here; Changed is closed at its next change.
	State() *controller.State
	Changed() <-chan struct{}
	// Watch tells of each change.
	Watch() *controller.Cursor
	// Newest makes State as new as the quorum's, and asks for it until ctx ends;
	// controller.ErrNoController when nobody could be asked.
	Newest(ctx context.Context) error
}

// Peers reaches other brokers. An error that wraps wire.ErrNotSent says that the
// request came to nothing; after any other nobody knows.
type Peers interface {
	GroupCall(ctx context.Context, url string, req *wire.GroupCall) (*wire.GroupAnswer, error)
	GroupBeat(ctx context.Context, url string, req *wire.GroupBeat) (*wire.GroupBeatAnswer, error)
	GroupList(ctx context.Context, url string, req *wire.GroupList) (*wire.GroupListAnswer, error)
}

// Errors carries errors that aren't this package's from broker to broker.
type Errors interface {
	Encode(err error) *wire.Error
	Decode(e *wire.Error) error
}

// Topic is the name of the topic that holds all groups; Partitions is how many
// partitions it is made with. A group's partition never changes.
const (
	Topic      = "__consumer_offsets"
	Partitions = 8
)
