package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func (m *member) delete(topic string, before int64) {
	m.c.t.Helper()
	if _, err := m.deleteRecordsLocal(context.Background(), topic, 0, before); err != nil {
		m.c.t.Fatal(err)
	}
}

func TestR89_FollowersFollowTheLogStart(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		for i := range 10 {
			c.broker(1).mustAppend(AcksAll, "a", 0, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
		}
		c.broker(1).delete("a", 6)
		for _, m := range c.members {
			if start := m.replica("a", 0).log.StartOffset(); start != 6 {
				t.Errorf("broker %d: log start %d when the deletion is answered", m.id, start)
			}
		}
		c.isr("a", 0, 1, 2, 3)

		c.links(3, false) // what one of the ISR can't hear of isn't promised
		if _, err := c.broker(1).deleteRecordsLocal(context.Background(), "a", 0, 8); !errors.Is(err, ErrTimeout) {
			t.Errorf("with an in-sync replica cut off: %v", err)
		}
		c.links(3, true)
		time.Sleep(time.Second)
		c.broker(1).delete("a", 8)
	})
}

// R90, F44: a follower whose log ends before the leader's begins starts anew there,
// also when that is in the middle of a batch.
func TestR90_AFollowerThatWasAwayTooLongStartsAnew(t *testing.T) {
	for _, before := range []int64{8, 9, 20} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			inCluster(t, clusterOptions{}, func(c *testCluster) {
				c.create("a", 1, []int32{1, 2, 3})
				c.broker(1).mustAppend(AcksAll, "a", 0, "0", "1")
				time.Sleep(time.Second)
				c.fail(3)
				for i := range 9 {
					c.broker(1).mustAppend(AcksAll, "a", 0, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"))
				}
				c.broker(1).delete("a", before)
				c.broker(3).start()
				time.Sleep(2 * time.Second)
				c.broker(1).mustAppend(AcksAll, "a", 0, "x")
				time.Sleep(time.Second)
				c.isr("a", 0, 1, 2, 3)
				p := c.broker(3).replica("a", 0)
				if start, end, hw := p.log.StartOffset(), p.log.WrittenEnd(), p.hw.Load(); start != before || end != 21 || hw != 21 {
					t.Errorf("log start %d, end %d, high watermark %d", start, end, hw)
				}
				if figure(c.broker(3).metrics.resets) != 1 {
					t.Errorf("%v resets", figure(c.broker(3).metrics.resets))
				}
				c.fail(1)
				c.fail(2)
				c.leads(3, "a", 0)
				if res, err := c.broker(3).fetchLocal(context.Background(), FetchRequest{Topic: "a", Offset: before, MaxBytes: 1 << 20}); err != nil {
					t.Error(err)
				} else if got := records(t, res, before); len(got) != int(21-before) || got[0].Offset != before {
					t.Errorf("%d records from %d on", len(got), before)
				}
			})
		})
	}
}

// F45, R34, R72: a replica that lost what it once reported is no candidate, and
// fetches it again.
func TestF45_AReplicaThatLostRecordsIsOutOfSyncUntilItHasThemAgain(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint("value ", i))
			c.broker(1).mustAppend(AcksAll, "a", 0, want[i])
		}
		time.Sleep(time.Second)
		id := c.broker(3).replica("a", 0).id()
		c.fail(3)
		c.fail(2) // 2 and 3 are out of the ISR; 2 is in the ELR
		files, err := filepath.Glob(filepath.Join(c.broker(3).dir, "partitions", fmt.Sprintf("%s-0", id.Topic), "*.log"))
		c.must(err)
		info, err := os.Stat(files[0])
		c.must(err)
		c.must(os.Truncate(files[0], info.Size()/2))
		c.fail(1)
		c.broker(3).start()
		time.Sleep(2 * time.Second)
		if meta := c.meta("a", 0); meta.Leader != -1 {
			t.Fatalf("R34: %+v", meta)
		}
		c.broker(1).start()
		time.Sleep(3 * time.Second)
		c.broker(2).start()
		time.Sleep(3 * time.Second)
		c.same("a", 0, want, 1, 2, 3)
		c.isr("a", 0, 1, 2, 3)
	})
}

// V24: the next leader may know of an older high watermark than this replica's log start proves.
func TestV24_TheHighWatermarkIsWithinTheLog(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		for i := range 10 {
			c.broker(1).mustAppend(AcksAll, "a", 0, fmt.Sprint(i))
		}
		c.broker(1).delete("a", 6)
		p := c.broker(2).replica("a", 0)
		for _, hw := range []int64{7, 3} {
			if p.followed(hw); p.hw.Load() != max(hw, 6) {
				t.Errorf("told of %d, the high watermark is %d of a log that begins at 6", hw, p.hw.Load())
			}
		}
		// Nor is it above the end of a log that begins anew, first where the leader's starts, then at
		// the begin of the batch around that.
		c.links(2, false)
		for _, offset := range []int64{50, 48} {
			if err := p.resetTo(offset); err != nil || p.hw.Load() != offset || p.log.WrittenEnd() != offset {
				t.Errorf("%v; the high watermark is %d of a log that ends at %d", err, p.hw.Load(), p.log.WrittenEnd())
			}
		}
	})
}

// R89, V11: the log start that a client was told never goes back, whoever leads
// next.
func TestR89_V11_TheLogStartNeverGoesBack(t *testing.T) {
	inCluster(t, clusterOptions{}, func(c *testCluster) {
		c.create("a", 2, []int32{1, 2, 3})
		for i := range 10 {
			c.broker(1).mustAppend(AcksAll, "a", 0, fmt.Sprint(i))
		}
		c.broker(1).delete("a", 6) // and at once:
		c.fail(1)
		c.leads(2, "a", 0)
		if start := c.broker(2).replica("a", 0).log.StartOffset(); start != 6 {
			t.Errorf("the next leader's log starts at %d", start)
		}
		// One that a follower doesn't know of yet isn't told.
		c.links(3, false)
		deleted := make(chan error, 1)
		go func() {
			_, err := c.broker(2).deleteRecordsLocal(context.Background(), "a", 0, 8)
			deleted <- err
		}()
		time.Sleep(time.Second)
		if start := c.broker(2).replica("a", 0).log.StartOffset(); start != 6 || len(deleted) != 0 {
			t.Errorf("log start %d, though broker 3 may lead next, from 6 on", start)
		}
		c.links(3, true)
		if err := <-deleted; err != nil {
			t.Error(err)
		}
		for _, id := range []int32{2, 3} {
			if start := c.broker(id).replica("a", 0).log.StartOffset(); start != 8 {
				t.Errorf("broker %d: log start %d", id, start)
			}
		}
	})
}
