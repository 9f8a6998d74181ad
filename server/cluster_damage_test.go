package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// segments are the files of a node's copy of partition 0, in order.
func (m *node) segments(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.dir, "partitions", "*-0", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("segments of node %d: %v, %v", m.id, files, err)
	}
	slices.Sort(files)
	return files
}

// bytesOf is all of a node's copy of partition 0.
func (m *node) bytesOf(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, name := range m.segments(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// flip changes a bit in the middle of a file, behind everybody's back.
func flip(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		t.Fatalf("%s: %d bytes, %v", name, len(data), err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := len(data) / 2
	_, err = f.WriteAt([]byte{data[at] ^ 0x10}, int64(at))
	if closeErr := f.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
}

// fill produces numbered records one by one.
func fill(t *testing.T, c *client, topic string, from, to int) {
	t.Helper()
	pad := strings.Repeat("x", 200)
	for i := from; i < to; i++ {
		c.must(t, 200, "POST", "/topics/"+topic+"?acks=-1", "application/json", fmt.Sprintf(`{"records":[{"key":"%d","value":"%s"}]}`, i, pad))
	}
}

// wantRecords reads all records from a node.
func wantRecords(t *testing.T, c *client, topic string, n int64) {
	t.Helper()
	next := c.read(t, topic, 0, 0, func(r *stored) {
		if string(r.Key) != fmt.Sprintf("%q", fmt.Sprint(r.Offset)) {
			t.Errorf("offset %d holds key %s", r.Offset, r.Key)
		}
	})
	if next != n {
		t.Errorf("%d records, want %d", next, n)
	}
}

// wantSameBytes stops all nodes and compares their disks (V23).
func (c *cluster) wantSameBytes() {
	c.t.Helper()
	for _, m := range c.running() {
		m.stop()
	}
	want := c.nodes[0].bytesOf(c.t)
	for _, m := range c.nodes[1:] {
		if got := m.bytesOf(c.t); !bytes.Equal(got, want) {
			c.t.Errorf("node %d has %d bytes, which aren't the %d of node 1", m.id, len(got), len(want))
		}
	}
}

// TestF42_DamagedFollower: bits flipped and files lost while a follower was down
// cost no record; it comes back, is made whole, and is in sync again (S6, S7, R73).
func TestF42_DamagedFollower(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "2", "segment.bytes", "4096")
	leader := c.leader("orders", 0)
	fill(t, c.client(leader), "orders", 0, 150)
	for round, harm := range []func(files []string){
		func(files []string) { flip(t, files[1]); flip(t, files[3]) },
		func(files []string) {
			if err := os.Remove(files[2]); err != nil {
				t.Error(err)
			}
		},
		func(files []string) {
			if err := os.Remove(files[0]); err != nil {
				t.Error(err)
			}
		},
	} {
		follower := c.others(c.leader("orders", 0))[0]
		follower.kill()
		harm(follower.segments(t))
		fill(t, c.client(c.leader("orders", 0)), "orders", 150+10*round, 160+10*round)
		if round == 0 { // else only a reader or the scrub would look at closed segments
			if err := os.Remove(filepath.Join(follower.dir, "index.db")); err != nil {
				t.Fatal(err)
			}
		}
		c.start(follower)
		c.waitInSync("orders", 3)
	}
	wantRecords(t, c.client(c.running()[0]), "orders", 180)
	c.wantSameBytes()
}

// TestF42_DamagedLeader: a leader that meets a damaged record shows it to nobody and
// passes over none; another one leads, and the damaged copy is made whole.
func TestF42_DamagedLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3, "min.insync.replicas", "2", "segment.bytes", "4096")
	leader := c.leader("orders", 0)
	fill(t, c.client(leader), "orders", 0, 100)
	flip(t, leader.segments(t)[2])
	reader := c.client(c.others(leader)[0])
	until(t, "all records can be read", func() bool {
		for offset := range 100 {
			status, answer, err := reader.do(t.Context(), "GET", fmt.Sprintf("/topics/orders/partitions/0/records?offset=%d&max_bytes=1", offset), "", nil)
			if err != nil || status != 200 || !bytes.Contains(answer, fmt.Appendf(nil, `"key":"%d"`, offset)) {
				return false
			}
		}
		return true
	})
	if now := c.leader("orders", 0); now == leader {
		t.Errorf("node %d leads still", now.id)
	}
	c.waitInSync("orders", 3)
	if !strings.Contains(leader.output(), "damage mended") {
		t.Errorf("not mended:\n%s", leader.output())
	}
	fill(t, reader, "orders", 100, 110)
	wantRecords(t, reader, "orders", 110)
	c.wantSameBytes()
}
