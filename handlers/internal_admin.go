package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"highwater/replication"
	"highwater/replication/controller"
)

// maxAdminBody bounds what an operator asks for, in bytes: a few names and numbers.
const maxAdminBody = 64 << 10

// administer serves one thing that an operator asks of the cluster as a whole: JSON
// in, JSON out, for curl. Whoever can prove to be a broker may ask: an operator has
// the secret, or sits at the machine.
func administer[Q any](act func(ctx context.Context, c *controller.Controller, req *Q) (any, error)) func(*Internal, http.ResponseWriter, *http.Request) error {
	return administered((*Internal).theController, act)
}

// administerHere serves what an operator asks of this broker alone.
func administerHere[Q any](act func(ctx context.Context, b *replication.Broker, req *Q) (any, error)) func(*Internal, http.ResponseWriter, *http.Request) error {
	return administered((*Internal).theBroker, act)
}

func administered[R, Q any](room func(*Internal) (R, error), act func(ctx context.Context, asked R, req *Q) (any, error)) func(*Internal, http.ResponseWriter, *http.Request) error {
	return func(in *Internal, w http.ResponseWriter, r *http.Request) error {
		asked, err := room(in)
		if err != nil {
			return err
		}
		// Nothing that a page in a browser can send without asking first.
		if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != typeJSON {
			return &requestError{code: codeUnsupportedType, detail: "Send " + typeJSON + "."}
		}
		req := new(Q)
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAdminBody))
		d.DisallowUnknownFields()
		if err := d.Decode(req); err != nil {
			return &requestError{code: codeMalformed, detail: "The body can't be read: " + err.Error() + "."}
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return &requestError{code: codeMalformed, detail: "There is something behind the JSON object."}
		}
		// It goes on when who asked leaves: half a change would be worse.
		out, err := act(context.WithoutCancel(r.Context()), asked, req)
		if err != nil {
			return err
		}
		return answerJSON(w, r, http.StatusOK, out)
	}
}

// doneView says that it is done; how much there was of it, where that is a number.
type doneView struct {
	Done       bool `json:"done"`
	Partitions *int `json:"partitions,omitempty"`
}

type electLeaderBody struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Broker    int32  `json:"broker"`
	// Unclean: what that broker lacks is lost. For a partition without a leader.
	Unclean bool `json:"unclean"`
}

// electLeader makes a replica the leader (R79, R81).
func electLeader(ctx context.Context, c *controller.Controller, req *electLeaderBody) (any, error) {
	return doneView{Done: true}, c.ElectLeader(ctx, req.Topic, req.Partition, req.Broker, req.Unclean)
}

type reassignBody struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Replicas that the partition is to have, the preferred leader first; none: what
	// is under way is taken back.
	Replicas []int32 `json:"replicas"`
}

// reassign begins to give a partition other replicas (R82).
func reassign(ctx context.Context, c *controller.Controller, req *reassignBody) (any, error) {
	return doneView{Done: true}, c.Reassign(ctx, req.Topic, req.Partition, req.Replicas)
}

type replaceBrokerBody struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// replaceBroker begins to give all replicas of one broker to another (R82).
func replaceBroker(ctx context.Context, c *controller.Controller, req *replaceBrokerBody) (any, error) {
	n, err := c.ReplaceBroker(ctx, req.From, req.To)
	return doneView{Done: true, Partitions: &n}, err
}

type removeBrokerBody struct {
	Broker int32 `json:"broker"`
	// Force: also if it may have the only whole copy of something.
	Force bool `json:"force"`
}

// removeBroker forgets a broker for good.
func removeBroker(ctx context.Context, c *controller.Controller, req *removeBrokerBody) (any, error) {
	err := c.RemoveBroker(ctx, req.Broker, req.Force)
	if stale := (*controller.StaleBrokerEpochError)(nil); errors.As(err, &stale) && stale.Epoch == 0 {
		return nil, &requestError{code: codeNotFound, detail: "There is no such broker."}
	}
	return doneView{Done: true}, err
}

type compactBody struct {
	Topic string `json:"topic"`
}

// compactedView is what a compaction did to the replicas of a topic on one broker.
type compactedView struct {
	Partitions []compactedPartition `json:"partitions"`
}

type compactedPartition struct {
	Partition       int32 `json:"partition"`
	CompactedBefore int64 `json:"compacted_before"` // every key stands once below this offset, or it is a tombstone besides
	Records         int64 `json:"records"`
	Removed         int64 `json:"removed"`
	BytesBefore     int64 `json:"bytes_before"`
	BytesAfter      int64 `json:"bytes_after"`
}

// compactTopic compacts this broker's replicas of a topic at once.
func compactTopic(ctx context.Context, b *replication.Broker, req *compactBody) (any, error) {
	done, err := b.CompactNow(ctx, req.Topic)
	if not := (*replication.NotCompactedError)(nil); errors.As(err, &not) {
		return nil, unprocessable("The topic %s is not compacted: its cleanup.policy has no compact.", shown(not.Topic))
	}
	if err != nil {
		return nil, err
	}
	out := compactedView{Partitions: make([]compactedPartition, len(done))}
	for i := range done {
		c := &done[i]
		out.Partitions[i] = compactedPartition{Partition: c.Partition, CompactedBefore: c.To, Records: c.Records, Removed: c.Replaced + c.Tombstones + c.Keyless,
			BytesBefore: c.BytesBefore, BytesAfter: c.BytesAfter}
	}
	return out, nil
}
