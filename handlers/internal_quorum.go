package handlers

import (
	"net/http"
	"strings"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// heartbeat takes a broker's sign of life.
func (in *Internal) heartbeat(w http.ResponseWriter, r *http.Request) error {
	c, err := in.theController()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.Heartbeat) *wire.HeartbeatAnswer { return c.ServeHeartbeat(r.Context(), req) })
}

// propose has the quorum agree on another broker's command.
func (in *Internal) propose(w http.ResponseWriter, r *http.Request) error {
	c, err := in.theController()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.Propose) *wire.ProposeAnswer { return c.ServePropose(r.Context(), req) })
}

// join makes a broker a member of the quorum.
func (in *Internal) join(w http.ResponseWriter, r *http.Request) error {
	c, err := in.theController()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.Join) *wire.JoinAnswer { return c.ServeJoin(r.Context(), req) })
}

// founding answers an initial voter.
func (in *Internal) founding(w http.ResponseWriter, r *http.Request) error {
	c, err := in.theController()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.Founding) *wire.Founding { return c.ServeFounding(r.Context(), req) })
}

// raft turns the connection into one of raft (K3, K4). Raft itself asks nobody who
// they are: what is checked here is all there is.
func (in *Internal) raft(w http.ResponseWriter, r *http.Request) error {
	c, err := in.theController()
	if err != nil {
		return err
	}
	if in.cfg.Raft == nil {
		return errNotUp
	}
	if r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), wire.UpgradeRaft) || !headerHas(r.Header, "Connection", "upgrade") {
		return &requestError{code: codeMalformed, detail: "Raft's connections begin with Upgrade: " + wire.UpgradeRaft + "."}
	}
	to := controller.RaftTarget{Server: r.Header.Get(wire.HeaderRaftServer), ClusterID: r.Header.Get(wire.HeaderClusterID)}
	if err := c.AcceptRaft(to); err != nil {
		return &requestError{code: codeForbidden, detail: "This broker is not the member that is meant: " + err.Error()}
	}
	x := w.(*exchange)
	conn, buffered, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		return err
	}
	x.status, x.detached = http.StatusSwitchingProtocols, true
	// The server's deadlines would end an idle connection.
	err = conn.SetDeadline(time.Time{})
	if err == nil {
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.UpgradeRaft + "\r\n\r\n"))
	}
	if err != nil || !in.cfg.Raft.Deliver(conn, buffered.Reader) {
		_ = conn.Close()
	}
	return nil
}

// headerHas tells whether a list header holds a token.
func headerHas(h http.Header, name, token string) bool {
	for _, line := range h[name] {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
