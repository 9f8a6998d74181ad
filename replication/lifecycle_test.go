package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/controller"
	"highwater/storage"
)

func TestARestartKeepsRecordsAndStartsANewEpoch(t *testing.T) {
	n := startNode(t)
	n.create("a", 2)
	n.mustAppend(AcksAll, "a", 0, "1", "2")
	n.mustAppend(AcksLeader, "a", 1, "3")
	n.mustAppend(AcksNone, "a", 1, "4")
	n.restart()
	if got := n.values("a", 0, 0, 2); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("partition 0: %q", got)
	}
	if got := n.values("a", 1, 0, 2); !slices.Equal(got, []string{"3", "4"}) {
		t.Errorf("partition 1: %q", got)
	}
	if res := n.mustAppend(AcksAll, "a", 0, "5"); res.BaseOffset != 2 || res.LeaderEpoch != 2 {
		t.Errorf("R2: %+v", res)
	}
	if n.store.Identity().ClusterID != n.State().ClusterID || n.store.Identity().NodeID != 1 {
		t.Errorf("R66: the data directory is %+v's", n.store.Identity())
	}
	if err := n.Ready(); err != nil {
		t.Errorf("readiness: %v", err)
	}
	epoch := n.State().Brokers[1].Epoch
	n.restart()
	if before, ok := n.store.PreviousBrokerEpoch(); !ok || before != epoch {
		t.Errorf("R71: the clean shutdown noted epoch %d, %v; it was %d", before, ok, epoch)
	}
}

func TestF53_ATopicMadeAgainIsAnotherOne(t *testing.T) {
	n := startNode(t)
	first := n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, "old")
	n.must(n.DeleteTopic(context.Background(), "a"))
	if res := n.append(AcksAll, "a", 0, "x"); !isUnknownTopic(res.Err) || res.Unknown {
		t.Errorf("deleted: %+v", res)
	}
	if err := n.DeleteTopic(context.Background(), "a"); !isUnknownTopic(err) {
		t.Errorf("deleted twice: %v", err)
	}
	if ids, err := n.store.LogsOnDisk(); err != nil || len(ids) != 0 {
		t.Errorf("R86: on disk are %v, %v", ids, err)
	}
	second := n.create("a", 1)
	if first.ID == second.ID {
		t.Error("R84: same id")
	}
	if res := n.mustAppend(AcksAll, "a", 0, "new"); res.BaseOffset != 0 {
		t.Errorf("%+v", res)
	}
	n.restart()
	if got := n.values("a", 0, 0, 1); got[0] != "new" {
		t.Errorf("read %q", got)
	}
}

// Create, delete, produce and read at once, by many: every answer is one of the
// few that are right, and afterwards all agree.
func TestTopicLifeCycleRaces(t *testing.T) {
	before := runtime.NumGoroutine()
	n := startNode(t)
	const topics, workers, rounds = 3, 6, 25
	var appended atomic.Int64
	var wg sync.WaitGroup
	ctx := context.Background()
	for w := range workers {
		wg.Go(func() {
			for i := 0; i < rounds || appended.Load() == 0 && i < 100*rounds; i++ {
				name := fmt.Sprint("t", (w+i)%topics)
				switch (w + i/2) % 4 {
				case 0:
					_, _, err := n.PutTopic(ctx, controller.CreateTopicRequest{Name: name, Partitions: 2})
					if err != nil {
						t.Errorf("put %s: %v", name, err)
					}
				case 1:
					if err := n.DeleteTopic(ctx, name); err != nil && !isUnknownTopic(err) {
						t.Errorf("delete %s: %v", name, err)
					}
				case 2:
					res := n.append([]Acks{AcksAll, AcksLeader, AcksNone}[i%3], name, int32(i%2), "v")
					if res.Err != nil && !isUnknownTopic(res.Err) {
						t.Errorf("append to %s: %v", name, res.Err)
					} else if res.Err == nil {
						appended.Add(1)
					}
				case 3:
					if _, err := n.Fetch(ctx, FetchRequest{Topic: name, MaxBytes: 1 << 20, MaxWait: 1}); err != nil && !isUnknownTopic(err) {
						t.Errorf("fetch from %s: %v", name, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if appended.Load() == 0 {
		t.Error("no append was ever accepted: the test proves nothing")
	}
	n.restart()
	want := map[uuid.UUID]int{}
	for topic := range n.State().Topics() {
		want[topic.ID] = len(topic.Partitions)
		for i := range topic.Partitions {
			n.mustAppend(AcksAll, topic.Name, int32(i), "after")
		}
	}
	ids, err := n.store.LogsOnDisk()
	n.must(err)
	for _, id := range ids {
		want[id.Topic]--
	}
	for id, left := range want {
		if left != 0 {
			t.Errorf("V33: topic %s: %d directories too few on disk", id, left)
		}
	}
	n.stop()
	checkGoroutines(t, before)
}

func TestPutTopicIsIdempotent(t *testing.T) {
	n := startNode(t)
	ctx := context.Background()
	req := controller.CreateTopicRequest{Name: "a", Partitions: 2, Configs: map[string]string{controller.ConfigRetentionMs: "9"}}
	made, created, err := n.PutTopic(ctx, req)
	if err != nil || !created {
		t.Fatalf("%v, %v", created, err)
	}
	for name, same := range map[string]controller.CreateTopicRequest{"the same": req, "less said": {Name: "a"}, "default config": {Name: "a", Configs: map[string]string{controller.ConfigSegmentMs: "604800000"}}} {
		if again, created, err := n.PutTopic(ctx, same); err != nil || created || again.ID != made.ID {
			t.Errorf("%s: %v, %v", name, created, err)
		}
	}
	var exists *controller.TopicExistsError
	other := controller.CreateTopicRequest{Name: "a", Partitions: 3, ReplicationFactor: 2, Configs: map[string]string{controller.ConfigRetentionMs: "8"}}
	if _, _, err := n.PutTopic(ctx, other); !errors.As(err, &exists) || !slices.Equal(exists.Differs, []string{"configs.retention.ms", "partitions", "replication_factor"}) {
		t.Errorf("different: %v, %+v", err, exists)
	}
	var invalid *controller.InvalidConfigError
	other.Configs = map[string]string{controller.ConfigRetentionMs: "soon"}
	if _, _, err := n.PutTopic(ctx, other); !errors.As(err, &invalid) {
		t.Errorf("invalid and existing: %v", err)
	}
	var impossible *controller.ImpossibleError
	if _, _, err := n.PutTopic(ctx, controller.CreateTopicRequest{Name: "b", ReplicationFactor: 2}); !errors.As(err, &impossible) {
		t.Errorf("factor over brokers: %v", err)
	}
	// A race of equal requests: one makes it, nobody fails.
	var makers atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, created, err := n.PutTopic(ctx, controller.CreateTopicRequest{Name: "race"})
			if err != nil {
				t.Error(err)
			}
			if created {
				makers.Add(1)
			}
			if res := n.append(AcksAll, "race", 0, "x"); res.Err != nil {
				t.Errorf("answered, and not ready: %v", res.Err)
			}
		})
	}
	wg.Wait()
	if makers.Load() != 1 {
		t.Errorf("%d made it", makers.Load())
	}
}

func TestAutoCreate(t *testing.T) {
	n := startNode(t)
	if _, err := n.EnsureTopic(context.Background(), "a"); !isUnknownTopic(err) {
		t.Errorf("off: %v", err)
	}
	n = startNode(t, func(o *nodeOptions) { o.defaults = Defaults{AutoCreateTopics: true, Partitions: 3} })
	topic, err := n.EnsureTopic(context.Background(), "a")
	if err != nil || len(topic.Partitions) != 3 {
		t.Fatalf("on: %+v, %v", topic, err)
	}
	var bad *controller.InvalidNameError
	for _, name := range []string{"../x", "__txn", ""} {
		if _, err := n.EnsureTopic(context.Background(), name); !errors.As(err, &bad) {
			t.Errorf("H51: %q: %v", name, err)
		}
	}
}

func TestMorePartitionsAndChangedConfigsHoldAtOnce(t *testing.T) {
	n := startNode(t)
	n.create("a", 1, controller.ConfigMaxMessageBytes, "10")
	n.mustAppend(AcksAll, "a", 0, "x")
	text := func(s string) *string { return &s }
	_, err := n.AlterTopic(context.Background(), "a", map[string]*string{controller.ConfigSegmentBytes: text("1024"), controller.ConfigMaxMessageBytes: nil}, 4)
	n.must(err)
	if res := n.mustAppend(AcksAll, "a", 3, "y"); res.BaseOffset != 0 {
		t.Errorf("R87: %+v", res)
	}
	if res := n.mustAppend(AcksAll, "a", 0, "z"); res.BaseOffset != 1 || res.LeaderEpoch != 0 {
		t.Errorf("R87: an existing partition changed: %+v", res)
	}
	if _, c, err := n.TopicConfig("a"); err != nil || c.SegmentBytes != 1024 || c.MaxMessageBytes != 1<<20 {
		t.Errorf("configs %+v, %v", c, err)
	}
	for range 5 {
		n.mustAppend(AcksAll, "a", 0, strings.Repeat("v", 1000))
	}
	segments, err := filepath.Glob(filepath.Join(n.dir, "partitions", "*-0", "*.log"))
	if err != nil || len(segments) < 4 {
		t.Errorf("segment.bytes=1024 doesn't hold for the open log: %v, %v", segments, err)
	}
}

func TestRetentionFollowsTheConfigs(t *testing.T) {
	n := startNode(t)
	n.create("a", 1, controller.ConfigSegmentBytes, "1024", controller.ConfigRetentionBytes, "0", controller.ConfigCleanupPolicy, "compact")
	for range 6 {
		n.mustAppend(AcksAll, "a", 0, strings.Repeat("v", 1000))
	}
	p := n.partition("a", 0)
	n.must(n.retain(p))
	if start := p.log.StartOffset(); start != 0 {
		t.Errorf("cleanup.policy=compact, and records up to %d are gone", start)
	}
	text := "delete"
	_, err := n.AlterTopic(context.Background(), "a", map[string]*string{controller.ConfigCleanupPolicy: &text}, 0)
	n.must(err)
	stall(p)
	for range 3 { // above the high watermark, in segments of their own
		n.mustAppend(AcksLeader, "a", 0, strings.Repeat("v", 1000))
	}
	setISR(p) // its high watermark will move at the next append
	n.must(n.retain(p))
	if start := p.log.StartOffset(); start != 6 {
		t.Errorf("retention.bytes=0: the log starts at %d; all closed segments below the high watermark should be gone", start)
	}
	if hw := p.hw.Load(); p.log.StartOffset() > hw {
		t.Errorf("R91: log start %d above the high watermark %d", p.log.StartOffset(), hw)
	}
}

func TestR85_StrayDirectoriesAreSetAsideNotUsedNotLost(t *testing.T) {
	n := startNode(t)
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, "x")
	n.stop()
	parts := filepath.Join(n.dir, "partitions")
	ours, err := os.ReadDir(parts)
	n.must(err)
	stray := uuid.NewString() + "-0"
	beyond := strings.TrimSuffix(ours[0].Name(), "-0") + "-7" // a partition that the topic doesn't have
	for _, name := range []string{stray, beyond} {
		n.must(os.CopyFS(filepath.Join(parts, name), os.DirFS(filepath.Join(parts, ours[0].Name()))))
	}
	n.start()
	if got := n.values("a", 0, 0, 1); got[0] != "x" {
		t.Errorf("read %q", got)
	}
	for _, name := range []string{stray, beyond} {
		if _, err := os.Stat(filepath.Join(parts, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
		if kept, err := filepath.Glob(filepath.Join(parts, name+".*", "*.log")); err != nil || len(kept) == 0 {
			t.Errorf("%s is lost: %v, %v", name, kept, err)
		}
	}
	n.restart()
	if err := n.Ready(); err != nil {
		t.Error(err)
	}
}

// One partition whose log can't be opened doesn't keep the broker down, and is
// opened as soon as it can be.
func TestAPartitionThatCannotBeOpenedIsOfflineAlone(t *testing.T) {
	n := startNode(t)
	topic := n.create("a", 2)
	n.mustAppend(AcksAll, "a", 0, "x")
	n.mustAppend(AcksAll, "a", 1, "y")
	n.stop()
	dir := filepath.Join(n.dir, "partitions", storage.PartitionID{Topic: topic.ID, Partition: 1}.String())
	n.must(os.Rename(dir, dir+".away"))
	n.must(os.WriteFile(dir, []byte("in the way"), 0o600))
	n.start()
	n.mustAppend(AcksAll, "a", 0, "x2")
	var offline *OfflineError
	if res := n.append(AcksAll, "a", 1, "y2"); !errors.As(res.Err, &offline) || res.Unknown || offline.Partition != 1 || offline.Cause == nil {
		t.Errorf("append: %+v", res)
	}
	if _, err := n.Fetch(context.Background(), FetchRequest{Topic: "a", Partition: 1, MaxBytes: 1}); !errors.As(err, &offline) {
		t.Errorf("fetch: %v", err)
	}
	if st, err := n.PartitionStatus(context.Background(), "a", 1); err != nil || st.Leader != controller.NoLeader || st.HighWatermark != -1 || len(st.Replicas) != 1 || st.Replicas[0].LogEndOffset != -1 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if got := gather(t, n)["highwater_offline_partitions"]; got != 1 {
		t.Errorf("%v partitions are offline", got)
	}
	n.must(os.Remove(dir))
	n.must(os.Rename(dir+".away", dir))
	n.must(n.catchUp(context.Background()))
	if got := n.values("a", 1, 0, 1); got[0] != "y" {
		t.Errorf("after the repair: %q", got)
	}
	n.mustAppend(AcksAll, "a", 1, "y2")
	if len(n.retry) != 0 {
		t.Errorf("still to be tried again: %v", n.retry)
	}
}

// Creating many topics, or one of many partitions, works incrementally: nothing
// is opened twice and each is ready when its creator is told.
func TestManyTopicsAtOnce(t *testing.T) {
	n := startNode(t)
	const creators, each = 16, 15
	var wg sync.WaitGroup
	for c := range creators {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("t-%d-%d", c, i)
				if _, err := n.CreateTopic(context.Background(), controller.CreateTopicRequest{Name: name, Partitions: 2}); err != nil {
					t.Error(err)
					return
				}
				if res := n.append(AcksLeader, name, 1, "x"); res.Err != nil {
					t.Errorf("%s isn't ready: %v", name, res.Err)
				}
			}
		})
	}
	wg.Wait()
	big := n.create("big", 1000)
	for _, p := range []int32{0, 499, 999} {
		n.mustAppend(AcksAll, "big", p, "x")
	}
	if len(big.Partitions) != 1000 {
		t.Errorf("%d partitions", len(big.Partitions))
	}
	if got := len(n.openPartitions(nil)); got != creators*each*2+1000 {
		t.Errorf("%d partitions are open", got)
	}
}

// A broker that is fenced stops leading; unfenced it leads in a new epoch that
// begins where the log ends (R49, R69, R80).
func TestR49_LeadershipLostAndGainedWhileRunning(t *testing.T) {
	n := startNode(t)
	ctx := context.Background()
	n.create("a", 1)
	n.mustAppend(AcksAll, "a", 0, "e0")
	p := n.partition("a", 0)
	n.must(n.ctl.Fence(ctx))
	n.must(n.catchUp(ctx))
	var not *NotLeaderError
	if res := n.append(AcksLeader, "a", 0, "x"); !errors.As(res.Err, &not) || res.Unknown || not.Leader != controller.NoLeader {
		t.Errorf("append while fenced: %+v", res)
	}
	if _, _, err := n.offer(context.Background(), p, AcksLeader, &AppendRequest{Batches: []storage.Batch{batch(t, "x")}}); !errors.As(err, &not) {
		t.Errorf("R7: staged by a replica that doesn't lead: %v", err)
	}
	if _, err := n.Fetch(ctx, FetchRequest{Topic: "a", MaxBytes: 1}); !errors.As(err, &not) {
		t.Errorf("fetch while fenced: %v", err)
	}
	if st, err := n.PartitionStatus(ctx, "a", 0); err != nil || st.Leader != controller.NoLeader || st.LogEndOffset != -1 {
		t.Errorf("status while fenced: %+v, %v", st, err)
	}
	if n.Ready() == nil {
		t.Error("ready while fenced")
	}
	n.must(n.ctl.Unfence(ctx))
	n.must(n.catchUp(ctx))
	if res := n.mustAppend(AcksAll, "a", 0, "e2"); res.BaseOffset != 1 || res.LeaderEpoch != 2 {
		t.Errorf("after: %+v", res)
	}
	want := []storage.EpochEntry{{Epoch: 0, StartOffset: 0}, {Epoch: 2, StartOffset: 1}}
	if got := p.log.Epochs(); !slices.Equal(got, want) {
		t.Errorf("epochs %v, want %v", got, want)
	}
	if got := n.values("a", 0, 0, 2); !slices.Equal(got, []string{"e0", "e2"}) {
		t.Errorf("read %q", got)
	}
}

func TestClusterTellsOfADrain(t *testing.T) {
	n := startNode(t)
	c := n.Cluster()
	if c.ID == "" || len(c.Brokers) != 1 || c.Brokers[0].ID != 1 || c.Brokers[0].Draining || c.Quorum.Leader != 1 || !slices.Equal(c.Quorum.Voters, []int32{1}) {
		t.Errorf("%+v", c)
	}
	n.Drain()
	if !n.Cluster().Brokers[0].Draining || n.State().Brokers[1].Draining {
		t.Error("a drain isn't told, or was written into shared metadata")
	}
}
