package peer

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"highwater/replication/controller"
	"highwater/replication/wire"
)

// raftServer upgrades every connection and delivers it to in. The first bytes
// behind the upgrade go out in one piece with it.
func raftServer(t *testing.T, in *Stream, greeting string) string {
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != wire.UpgradeRaft || r.Header.Get(wire.HeaderRaftServer) != "m2" {
			http.Error(w, "not me", http.StatusForbidden)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raft/1\r\n\r\n" + greeting))
		if !in.Deliver(conn, rw.Reader) {
			_ = conn.Close()
		}
	})
}

func TestRaftConnectionsGoOverTheHTTPPort(t *testing.T) {
	here, there := NewStream(newClient(t, Config{})), NewStream(newClient(t, Config{}))
	defer here.Close()
	defer there.Close()
	to := controller.RaftTarget{URL: raftServer(t, there, "early"), Server: "m2"}
	conn, err := here.Dial(to, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	other, err := there.Accept()
	if err != nil {
		t.Fatal(err)
	}
	early := make([]byte, 5)
	if _, err := io.ReadFull(conn, early); err != nil || string(early) != "early" {
		t.Fatalf("%q %v: bytes that came with the upgrade are lost", early, err)
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	ping := make([]byte, 4)
	if _, err := io.ReadFull(other, ping); err != nil || string(ping) != "ping" {
		t.Fatalf("%q %v", ping, err)
	}
	// Close cuts what is open on both its sides, and ends Accept.
	_ = there.Close()
	if _, err := conn.Read(ping); err == nil {
		t.Fatal("the connection outlives its Stream")
	}
	if _, err := there.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if c, err := here.Dial(to, time.Minute); err == nil {
		if _, err := c.Read(make([]byte, 16)); err == nil {
			_, err = c.Read(make([]byte, 16))
			if err == nil {
				t.Fatal("a closed Stream took a connection")
			}
		}
	}
}

func TestARaftConnectionThatIsRefused(t *testing.T) {
	s := NewStream(newClient(t, Config{}))
	defer s.Close()
	refused := (*RefusedError)(nil)
	if _, err := s.Dial(controller.RaftTarget{URL: raftServer(t, s, ""), Server: "m3"}, time.Minute); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not me") {
		t.Fatal(err)
	}
	if _, err := s.Dial(controller.RaftTarget{URL: "nonsense", Server: "m3"}, time.Minute); err == nil {
		t.Fatal("dialled nowhere")
	}
}

// Nobody accepts: Deliver must not hold up the HTTP handler.
func TestDeliverNeverBlocks(t *testing.T) {
	s := NewStream(newClient(t, Config{}))
	defer s.Close()
	taken := 0
	for range acceptQueue + 5 {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		if s.Deliver(a, bufio.NewReader(a)) {
			taken++
		}
	}
	if taken != acceptQueue {
		t.Fatalf("%d of %d were taken", taken, acceptQueue+5)
	}
}

// Close ends what is on its way to a member that is there and doesn't answer: raft
// waits for it before it ends (K16). Afterwards nothing is dialled any more.
func TestStreamCloseEndsADial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	asked := make(chan net.Conn, 1)
	go func() {
		if conn, err := silent.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // the request has come
			asked <- conn
		}
	}()
	s := NewStream(newClient(t, Config{}))
	to := controller.RaftTarget{URL: "http://" + silent.Addr().String(), Server: "2"}
	dialled := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := s.Dial(to, time.Hour)
		dialled <- err
	}()
	conn := <-asked
	defer func() { _ = conn.Close() }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-dialled; err == nil {
		t.Error("a member that never answered is connected")
	}
	if took := time.Since(began); took >= dialTimeout {
		t.Errorf("the dial went on for %s", took)
	}
	if conn, err := s.Dial(to, time.Hour); err == nil {
		t.Error("a closed stream dials")
		_ = conn.Close()
	}
}
