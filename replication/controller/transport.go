package controller

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// Of the connections to another member (K5): kept ones, requests in flight on
	// one, and what a request may take. One in flight means no pipeline: raft's can
	// block for ever when a term ends, or a member refuses entries, while a second
	// request waits to be handed over (v1.7.3: decodeResponses offers an answer that
	// pipelineDecode doesn't take any more). That member would get nothing until the
	// term ends, and Shutdown wouldn't return.
	raftPool     = 3
	raftInFlight = 1
	raftTimeout  = 10 * time.Second
	// redial is the pause between two tries to reach a member that is to get entries.
	redial = 100 * time.Millisecond
)

// newTransport makes the transport, which outlives a restart of raft.
func (c *Controller) newTransport(logger hclog.Logger) raft.Transport {
	if c.cfg.Stream == nil {
		_, loopback := raft.NewInmemTransport(raftAddress(c.cfg.URL, c.dir.server()))
		return loopback
	}
	return lasting{c: c, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{ServerAddressProvider: addresses{c}, Logger: logger,
		Stream: streams{c.cfg.Stream, c}, MaxPool: raftPool, MaxRPCsInFlight: raftInFlight, Timeout: raftTimeout, MsgpackUseNewTimeFormat: true})}
}

// closeTransport ends all connections.
func (c *Controller) closeTransport() error {
	switch t := c.transport.(type) {
	case *raft.InmemTransport:
		return t.Close()
	case lasting:
		t.CloseStreams()
		return t.NetworkTransport.Close()
	}
	if c.cfg.Stream != nil { // raft never ran
		return c.cfg.Stream.Close()
	}
	return nil
}

// lasting is a transport that doesn't end with the raft that uses it, and that
// waits for a member which can't be reached. raft itself would try less and less
// often, and leave one that comes back without the log for up to ten seconds.
type lasting struct {
	*raft.NetworkTransport
	c *Controller
}

// Close does nothing: see closeTransport.
func (lasting) Close() error { return nil }

// AppendEntries sends entries as soon as the member can be reached. Heartbeats,
// which have goroutines of their own, don't wait.
func (l lasting) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0 && args.LeaderCommitIndex == 0
	for {
		err := l.NetworkTransport.AppendEntries(id, target, args, resp)
		if heartbeat || !errors.As(err, new(*unreachedError)) || !l.c.waitToRedial(id, args.Term) {
			return err
		}
	}
}

// InstallSnapshot sends a snapshot as soon as the member can be reached.
func (l lasting) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	for {
		err := l.NetworkTransport.InstallSnapshot(id, target, args, resp, data)
		if !errors.As(err, new(*unreachedError)) || !l.c.waitToRedial(id, args.Term) {
			return err // of the data nothing was read without a connection
		}
	}
}

// waitToRedial waits a moment and tells whether this member is to go on trying:
// it still leads in the term, and the other one is still a member.
func (c *Controller) waitToRedial(id raft.ServerID, term uint64) bool {
	m := c.member.Load()
	if m == nil {
		return false
	}
	select {
	case <-m.ending:
		return false
	case <-time.After(redial):
	}
	return m.raft.State() == raft.Leader && m.raft.CurrentTerm() == term &&
		slices.ContainsFunc(servers(m.raft), func(s raft.Server) bool { return s.ID == id })
}

// unreachedError: there is no connection to the member.
type unreachedError struct{ error }

func (e *unreachedError) Unwrap() error { return e.error }

// A raft address is a broker's advertised URL and, behind a '#', the server id
// that is meant there: "http://10.0.0.1:8080#1-550e8400-…". The id goes along
// when a connection is made, and AcceptRaft holds it against the member's own, so
// that a broker that came back without its metadata is never taken for the voter
// that it was (K9).
func raftAddress(url string, id raft.ServerID) raft.ServerAddress {
	return raft.ServerAddress(url + "#" + string(id))
}

func splitRaftAddress(a raft.ServerAddress) (url string, id raft.ServerID) {
	before, after, _ := strings.Cut(string(a), "#")
	return before, raft.ServerID(after)
}

// addresses tells raft where a member is now: what its entry in the configuration
// says may be years old.
type addresses struct{ c *Controller }

// ServerAddr is raft.ServerAddressProvider's.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == a.c.dir.server() {
		return raftAddress(a.c.cfg.URL, id), nil
	}
	if urls := a.c.memberURLs(id); len(urls) > 0 {
		return raftAddress(urls[0], id), nil
	}
	return "", fmt.Errorf("no URL of member %s is known", id)
}

// memberURLs lists where a member may be, the likeliest first: where it said that
// it is when it came back, where its broker registered, where the settings have it.
func (c *Controller) memberURLs(id raft.ServerID) []string {
	broker := serverBroker(id)
	var urls []string
	add := func(url string) {
		if url != "" && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	if moved, ok := c.moved.Load(id); ok {
		add(moved.(string))
	}
	if b := c.State().Brokers[broker]; b != nil && b.RaftID == string(id) {
		add(b.URL)
	}
	add(c.cfg.Cluster[broker])
	return urls
}

// streams lets raft dial over the StreamLayer.
type streams struct {
	StreamLayer
	c *Controller
}

type streamAddr string

// Network is net.Addr's.
func (streamAddr) Network() string { return "raft" }

// String is the raft address.
func (a streamAddr) String() string { return string(a) }

// Addr is this member's raft address.
func (s streams) Addr() net.Addr { return streamAddr(raftAddress(s.c.cfg.URL, s.c.dir.server())) }

// Dial tries each place where the member may be. A wrong one is no danger: the
// member there says that it isn't the one meant.
func (s streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	url, id := splitRaftAddress(address)
	urls := []string{url}
	for _, u := range s.c.memberURLs(id) {
		if u != url {
			urls = append(urls, u)
		}
	}
	var errs []error
	for _, u := range urls {
		conn, err := s.StreamLayer.Dial(RaftTarget{URL: u, Server: string(id), ClusterID: s.c.ClusterID()}, timeout/time.Duration(len(urls)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, &unreachedError{errors.Join(errs...)}
}
