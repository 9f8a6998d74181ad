package handlers

import (
	"encoding/json"
	"net/http"

	"highwater/replication/wire"
)

// fetch answers a follower's long-poll.
func (in *Internal) fetch(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	req := &wire.FetchRequest{}
	release, err := in.receive(w, r, maxControlMessage, req)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := in.polling(r)
	defer cancel()
	buf := in.buffers.get() // one for each follower, though it waits
	defer func() { in.buffers.put(buf) }()
	return in.answer(w, b.ServeFetch(ctx, req, &buf))
}

// leaderEpoch takes word of newer leaders.
func (in *Internal) leaderEpoch(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.LeaderEpochNotices) *wire.LeaderEpochAnswer {
		return &wire.LeaderEpochAnswer{Version: wire.Version, Code: b.ServeLeaderEpoch(req)}
	})
}

// debugPartitions tells all about this broker's replicas, for checkers.
func (in *Internal) debugPartitions(w http.ResponseWriter, _ *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	return writeDebug(w, b.DebugPartitions())
}

// debugDedupe tells what this broker's replicas of a topic remember of ids and
// producers, and what their logs tell, for checkers.
func (in *Internal) debugDedupe(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	replicas, err := b.DebugDedupe(r.URL.Query().Get("topic"))
	if err != nil {
		return err
	}
	return writeDebug(w, replicas)
}

func writeDebug(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header()["Content-Type"] = []string{typeJSON}
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(body)
	return err
}

// dedupe tells a follower what the leader remembers and the log doesn't tell.
func (in *Internal) dedupe(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	req := &wire.JSON[wire.DedupeRequest]{}
	release, err := in.receive(w, r, maxControlMessage, req)
	if err != nil {
		return err
	}
	release()
	return in.answer(w, b.ServeDedupe(req.V))
}
