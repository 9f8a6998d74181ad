package replication

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"highwater/replication/controller"
)

// flip changes a byte in the middle of a replica's first segment.
func (m *member) flip(topic string, at int64) {
	m.c.t.Helper()
	id := m.replica(topic, 0).id()
	files, err := filepath.Glob(filepath.Join(m.dir, "partitions", fmt.Sprintf("%s-%d", id.Topic, id.Partition), "*.log"))
	m.c.must(err)
	if len(files) == 0 {
		m.c.t.Fatal("no segment")
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	m.c.must(err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	m.c.must(err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b[:], at)
	m.c.must(err)
}

// S7: one flipped bit costs no record, wherever it is.
func TestS7_F42_ADamagedFollowerIsMadeWholeAgain(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		want := []string{}
		for i := range 20 {
			want = append(want, fmt.Sprint("value ", i))
			c.broker(1).mustAppend(AcksAll, "a", 0, want[i])
		}
		time.Sleep(time.Second)
		m := c.broker(3)
		m.flip("a", 400)
		p := m.replica("a", 0)
		if _, err := p.log.Read(0, 20, 1<<20, nil); err != nil { // as the scrub does
			t.Log(err)
		}
		for at := range int64(20) {
			_, _ = p.log.Read(at, 20, 1, nil)
		}
		if len(p.log.Damage()) == 0 {
			t.Fatal("the damage was not found")
		}
		time.Sleep(20 * time.Second)
		if n := c.changes("a"); n != 2 || figure(m.metrics.repairs) != 1 {
			t.Errorf("%d ISR changes, out and in again; %v repairs", n, figure(m.metrics.repairs))
		}
		c.same("a", 0, want, 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
		c.leads(1, "a", 0)
	})
}

func TestS7_F42_ADamagedLeaderGivesWay(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		want := []string{}
		for i := range 20 {
			want = append(want, fmt.Sprint("value ", i))
			c.broker(1).mustAppend(AcksAll, "a", 0, want[i])
		}
		c.broker(1).flip("a", 400)
		seen := 0
		for at := range int64(20) {
			res, err := c.broker(1).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: at, MaxBytes: 1})
			switch {
			case err == nil:
				if r := records(t, res, at); len(r) > 0 && string(r[0].Value) != want[at] {
					t.Errorf("V2: offset %d reads %q", at, r[0].Value)
				}
			case isCorrupt(err):
				seen++
			}
		}
		if seen == 0 {
			t.Fatal("nobody met the damage")
		}
		time.Sleep(20 * time.Second)
		if leader := c.meta("a", 0).Leader; leader == 1 || leader == controller.NoLeader {
			t.Errorf("broker %d leads", leader)
		}
		c.same("a", 0, want, 2, 1, 3)
		c.isr("a", 0, 1, 2, 3)
		if figure(c.broker(1).metrics.repairs) != 1 {
			t.Errorf("%v repairs", figure(c.broker(1).metrics.repairs))
		}
	})
}

// Where nobody else has the records, the damaged leader stays: what is sound can be
// read.
func TestS7_TheOnlyInSyncReplicaStaysLeaderThoughDamaged(t *testing.T) {
	inCluster(t, clusterOptions{lagMax: time.Second}, func(c *testCluster) {
		c.create("a", 1, []int32{1, 2})
		c.broker(1).mustAppend(AcksAll, "a", 0, "first, whole")
		c.links(2, false)
		time.Sleep(3 * time.Second)
		c.isr("a", 0, 1)
		for i := range 10 {
			c.broker(1).mustAppend(AcksAll, "a", 0, fmt.Sprint("value ", i))
		}
		c.links(2, true)
		c.broker(1).flip("a", 400)
		time.Sleep(10 * time.Second)
		c.leads(1, "a", 0)
		if got := c.broker(2).replica("a", 0).log.WrittenEnd(); got >= 11 {
			t.Errorf("broker 2 has %d records, one of them damaged", got)
		}
		c.isr("a", 0, 1)
	})
}
