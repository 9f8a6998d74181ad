package controller

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// A snapshot is JSON lines, so that neither side ever holds all of it:
//
//	{"v":1,"index":…,"cluster_id":…,"protocol":1,"voters":[…],"brokers":n,"topics":n,"next_producer_id":n,"producers":n}
//	one Broker a line, in the order of ids
//	one Topic a line, in the order of names
//	one Producer a line, in the order of ids
//	{"hash":"…"}   the state's Hash, in hex: proof that nothing is missing
const snapshotVersion = 1

type snapshotHeader struct {
	Version   int     `json:"v"`
	Index     uint64  `json:"index"`
	ClusterID string  `json:"cluster_id"`
	Protocol  int     `json:"protocol"`
	Voters    []int32 `json:"voters,omitempty"`
	Brokers   int     `json:"brokers"`
	Topics    int     `json:"topics"`
	// Versions before 0.2 know no producers; they read what has none.
	NextProducerID int64 `json:"next_producer_id,omitempty"`
	Producers      int   `json:"producers,omitempty"`
}

type snapshotTrailer struct {
	Hash string `json:"hash"`
}

type fsmSnapshot struct {
	state   *State
	saved   int64         // of the entries in state, those that unsaved counts
	unsaved *atomic.Int64 // the state machine's
}

// Persist writes the snapshot; raft calls it while later commands are applied.
func (s *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	if err := writeSnapshot(sink, s.state); err != nil {
		return errors.Join(fmt.Errorf("controller: snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("controller: snapshot: %w", err)
	}
	s.unsaved.Add(-s.saved)
	return nil
}

// Release does nothing: the state is garbage when nobody reads it.
func (*fsmSnapshot) Release() {}

func writeSnapshot(w io.Writer, s *State) error {
	buf := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buf)
	header := snapshotHeader{Version: snapshotVersion, Index: s.Index, ClusterID: s.ClusterID, Protocol: s.Protocol, Voters: s.Voters, Brokers: len(s.Brokers), Topics: s.TopicCount(),
		NextProducerID: s.NextProducerID, Producers: s.producers.count()}
	if err := enc.Encode(header); err != nil {
		return err
	}
	for _, id := range s.BrokerIDs() {
		if err := enc.Encode(s.Brokers[id]); err != nil {
			return err
		}
	}
	for t := range s.Topics() {
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	for p := range s.producers.all() {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	hash := s.Hash()
	if err := enc.Encode(snapshotTrailer{hex.EncodeToString(hash[:])}); err != nil {
		return err
	}
	return buf.Flush()
}

func readSnapshot(r io.ReadCloser) (_ *State, err error) {
	defer func() {
		err = errors.Join(err, r.Close())
		if err != nil {
			err = fmt.Errorf("controller: snapshot: %w", err)
		}
	}()
	lines := bufio.NewReaderSize(r, 64<<10)
	next := func(v any) error {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("cut off: %w", err)
		}
		return unmarshalStrict(bytes.TrimSuffix(line, []byte{'\n'}), v)
	}
	var h snapshotHeader
	if err := next(&h); err != nil {
		return nil, err
	}
	if h.Version != snapshotVersion {
		return nil, fmt.Errorf("version %d, this program reads %d", h.Version, snapshotVersion)
	}
	e := newEdit(newState(), h.Index)
	e.next.ClusterID, e.next.Protocol, e.next.Voters = h.ClusterID, h.Protocol, h.Voters
	for range h.Brokers {
		var b Broker
		if err := next(&b); err != nil {
			return nil, err
		}
		e.putBroker(&b)
	}
	for range h.Topics {
		var t Topic
		if err := next(&t); err != nil {
			return nil, err
		}
		e.putTopic(&t)
	}
	e.next.NextProducerID = h.NextProducerID
	for range h.Producers {
		var p Producer
		if err := next(&p); err != nil {
			return nil, err
		}
		e.producers().put(&p)
	}
	var trailer snapshotTrailer
	if err := next(&trailer); err != nil {
		return nil, err
	}
	s := e.finish()
	if hash := s.Hash(); hex.EncodeToString(hash[:]) != trailer.Hash {
		return nil, errors.New("its content does not match its hash")
	}
	return s, nil
}
