package controller

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
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

func open(t *testing.T, cfg Config) *Controller {
	t.Helper()
	cfg.Logger = zerolog.Nop()
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func start(t *testing.T, c *Controller) {
	t.Helper()
	if err := errors.Join(c.Start(context.Background()), c.Unfence(context.Background())); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c *Controller, name string, partitions int) *Topic {
	t.Helper()
	topic, err := c.CreateTopic(context.Background(), CreateTopicRequest{Name: name, Partitions: partitions, ReplicationFactor: 1})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// checkGoroutines fails if goroutines of before are exceeded for good (V35).
func checkGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 1_000_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	buf := make([]byte, 1<<20)
	t.Errorf("V35: %d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

func TestARestartKeepsTheMetadataAndTellsTheIncarnationsApart(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 7, URL: "http://x", Version: "1"})
	start(t, c)
	cluster, epoch := c.State().ClusterID, c.State().Brokers[7].Epoch
	if cluster == "" || c.State().Brokers[7].URL != "http://x" {
		t.Fatalf("new cluster: %+v", c.State())
	}
	a := create(t, c, "a", 3)
	create(t, c, "gone", 1)
	if err := c.DeleteTopic(context.Background(), "gone"); err != nil {
		t.Fatal(err)
	}
	if q := c.Quorum(); q.Leader != 7 || q.Term == 0 || !slices.Equal(q.Voters, []int32{7}) {
		t.Errorf("quorum %+v", q)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkGoroutines(t, before)

	c = open(t, Config{Dir: dir, NodeID: 7, PartitionsOnDisk: true})
	start(t, c)
	s := c.State()
	again, ok := s.Topic("a")
	if !ok || again.ID != a.ID || s.ClusterID != cluster || s.TopicCount() != 1 {
		t.Fatalf("after the restart: topic %+v, cluster %s, %d topics", again, s.ClusterID, s.TopicCount())
	}
	if s.Brokers[7].Epoch <= epoch {
		t.Errorf("R67: broker epoch %d, before %d", s.Brokers[7].Epoch, epoch)
	}
	for i, p := range again.Partitions {
		// One for the former life's end, one for the new one's beginning.
		if p.LeaderEpoch != a.Partitions[i].LeaderEpoch+2 || p.Leader != 7 {
			t.Errorf("R2: partition %d leads in epoch %d, before %d", i, p.LeaderEpoch, a.Partitions[i].LeaderEpoch)
		}
	}
}

// A copy of the directory taken while the member runs is what a kill -9 leaves:
// bbolt's file is consistent at any moment.
func TestACopyOfARunningDirectoryStarts(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	var names []string
	for i := range 40 {
		names = append(names, create(t, c, fmt.Sprintf("t%02d", i), 1).Name)
		if i%10 != 9 {
			continue
		}
		copied := filepath.Join(t.TempDir(), "raft")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		other := open(t, Config{Dir: copied, NodeID: 1})
		start(t, other)
		var got []string
		for topic := range other.State().Topics() {
			got = append(got, topic.Name)
		}
		if !slices.Equal(got, names) {
			t.Fatalf("the copy holds %v, answered were %v", got, names)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSnapshotAndLogGiveTheSameStateAfterARestart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	create(t, c, "in-snapshot", 5)
	if err := c.member.Load().raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	create(t, c, "in-log", 5)
	want := map[string]uuid.UUID{}
	for topic := range c.State().Topics() {
		want[topic.Name] = topic.ID
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	if c.State().TopicCount() != 2 {
		t.Fatalf("%d topics", c.State().TopicCount())
	}
	for name, id := range want {
		if topic, ok := c.State().Topic(name); !ok || topic.ID != id {
			t.Errorf("%s is %+v", name, topic)
		}
	}
	if err := checkInvariants(c.State()); err != nil {
		t.Error(err)
	}
}

func TestManyEntriesAreSnapshotAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	create(t, c, "a", 1)
	id := c.State().Brokers[1]
	for i := range closeSnapshotThreshold + 20 {
		if _, err := c.propose(context.Background(), &SetBroker{ID: 1, Epoch: id.Epoch, Draining: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			if err := c.member.Load().raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			if n := c.fsm.unsaved.Load(); n > 2 {
				t.Errorf("%d entries are counted behind a new snapshot", n)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := c.fsm.unsaved.Load(); n < 0 || n >= closeSnapshotThreshold {
		t.Errorf("%d entries are behind the snapshot", n)
	}
	c = open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	if _, ok := c.State().Topic("a"); !ok || c.fsm.unsaved.Load() > 20 {
		t.Errorf("after the restart: %v, %d entries applied", ok, c.fsm.unsaved.Load())
	}
}

// dirOfFiftyTopics is the directory of a controller that has ended.
func dirOfFiftyTopics(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	for i := range 50 {
		create(t, c, fmt.Sprint("t", i), 20)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// K9 and S11: whatever is wrong with the directory, it is said, and no new
// cluster is made in its place.
func TestK9_ADamagedDirectoryIsNeverANewCluster(t *testing.T) {
	db, id := raftFile, identityFile
	truncate := func(to int64) func(string) error {
		return func(p string) error { return os.Truncate(filepath.Join(p, db), to) }
	}
	overwrite := func(name string, from, to int) func(string) error {
		return func(p string) error {
			data, err := os.ReadFile(filepath.Join(p, name))
			if err != nil {
				return err
			}
			for i := from; i < min(to, len(data)); i++ {
				data[i] ^= 0xa5
			}
			return os.WriteFile(filepath.Join(p, name), data, 0o640)
		}
	}
	remove := func(name string) func(string) error {
		return func(p string) error { return os.Remove(filepath.Join(p, name)) }
	}
	base := dirOfFiftyTopics(t)
	info, err := os.Stat(filepath.Join(base, db))
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func(string) error{
		"raft.db lost":           remove(db),
		"raft.db empty":          truncate(0),
		"raft.db cut in half":    truncate(info.Size() / 2 / 4096 * 4096),
		"raft.db cut to 1 page":  truncate(4096),
		"raft.db cut mid page":   truncate(5000),
		"both meta pages":        overwrite(db, 0, 8192),
		"everything behind them": overwrite(db, 8192, 1<<30),
		"identity lost":          remove(id),
		"identity garbage":       overwrite(id, 0, 10),
		"identity empty":         func(p string) error { return os.Truncate(filepath.Join(p, id), 0) },
		"raft.db of another kind": func(p string) error {
			return os.WriteFile(filepath.Join(p, db), []byte(strings.Repeat("not a database", 5000)), 0o640)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "raft")
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if err := harm(dir); err != nil {
				t.Fatal(err)
			}
			c, err := Open(Config{Dir: dir, NodeID: 1, Logger: zerolog.Nop()})
			if err == nil {
				// Only where nothing of value was in what was taken away.
				start(t, c)
				if n := c.State().TopicCount(); n != 50 {
					t.Errorf("started with %d topics", n)
				}
				_ = c.Close()
				return
			}
			damaged := (*DirError)(nil)
			if !errors.As(err, &damaged) || damaged.Fix == "" || damaged.Dir != dir {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestK9_APartOfTheDirectoryIsLost, or it is the directory of another node.
func TestK9_APartOfTheDirectoryIsLost(t *testing.T) {
	base := dirOfFiftyTopics(t)
	compacted := func(dir string) error {
		store, err := (&raftDir{path: dir}).openStore()
		if err != nil {
			return err
		}
		return errors.Join(store.DeleteRange(1, 20), store.Close())
	}
	t.Run("snapshots lost", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "raft")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		c := open(t, Config{Dir: dir, NodeID: 1})
		start(t, c)
		if err := c.member.Load().raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), compacted(dir)); err != nil {
			t.Fatal(err)
		}
		c = open(t, Config{Dir: dir, NodeID: 1})
		start(t, c)
		if n := c.State().TopicCount(); n != 50 {
			t.Errorf("snapshot and the rest of the log give %d topics", n)
		}
		if err := errors.Join(c.Close(), os.RemoveAll(filepath.Join(dir, "snapshots"))); err != nil {
			t.Fatal(err)
		}
		damaged := (*DirError)(nil)
		if _, err := Open(Config{Dir: dir, NodeID: 1}); !errors.As(err, &damaged) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the log's beginning lost", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "raft")
		if err := errors.Join(os.CopyFS(dir, os.DirFS(base)), compacted(dir)); err != nil {
			t.Fatal(err)
		}
		damaged := (*DirError)(nil)
		if _, err := Open(Config{Dir: dir, NodeID: 1}); !errors.As(err, &damaged) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("the directory lost, partitions there", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "raft")
		damaged := (*DirError)(nil)
		if _, err := Open(Config{Dir: dir, NodeID: 1, PartitionsOnDisk: true}); !errors.As(err, &damaged) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("another node's directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "raft")
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		damaged := (*DirError)(nil)
		if _, err := Open(Config{Dir: dir, NodeID: 2}); !errors.As(err, &damaged) || !strings.Contains(damaged.Fix, "--node-id 1") {
			t.Errorf("error %v", err)
		}
	})
}

// A process that dies while it founds the quorum may try again: nothing was decided.
func TestK6_AnUnfinishedFoundingStartsOver(t *testing.T) {
	dir := t.TempDir()
	d, err := openDir(Config{Dir: dir, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, raftFile), []byte("half"), 0o640); err != nil {
		t.Fatal(err)
	}
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	if c.dir.ServerID != d.ServerID {
		t.Errorf("K7: server id %s, drawn was %s", c.dir.ServerID, d.ServerID)
	}
	if f := c.member.Load().raft.GetConfiguration(); f.Error() != nil || len(f.Configuration().Servers) != 1 || f.Configuration().Servers[0].ID != serverID(1, d.ServerID) {
		t.Errorf("configuration %+v", f.Configuration())
	}
}

func TestAlterTopic(t *testing.T) {
	c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
	start(t, c)
	create(t, c, "a", 2)
	ctx, text := context.Background(), func(s string) *string { return &s }

	topic, err := c.AlterTopic(ctx, "a", map[string]*string{ConfigRetentionMs: text("5"), ConfigSegmentMs: text("6")}, 4)
	if err != nil || len(topic.Partitions) != 4 || topic.Configs[ConfigRetentionMs] != "5" {
		t.Fatalf("%+v, %v", topic, err)
	}
	topic, err = c.AlterTopic(ctx, "a", map[string]*string{ConfigRetentionMs: nil}, 0)
	if _, there := topic.Configs[ConfigRetentionMs]; err != nil || there || topic.Configs[ConfigSegmentMs] != "6" || len(topic.Partitions) != 4 {
		t.Fatalf("%+v, %v", topic, err)
	}
	index := c.State().Index
	if same, err := c.AlterTopic(ctx, "a", nil, 4); err != nil || same != topic || c.State().Index != index {
		t.Errorf("asking for what is there proposed something: %v", err)
	}
	var (
		impossible *ImpossibleError
		invalid    *InvalidConfigError
		unknown    *UnknownTopicError
	)
	if _, err := c.AlterTopic(ctx, "a", nil, 3); !errors.As(err, &impossible) || !strings.Contains(impossible.Reason, "4") {
		t.Errorf("fewer partitions: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "a", nil, -1); !errors.As(err, &impossible) {
		t.Errorf("negative: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "a", nil, maxPartitions+1); !errors.As(err, &impossible) {
		t.Errorf("too many: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "a", map[string]*string{ConfigMinInSyncReplicas: text("2")}, 0); !errors.As(err, &impossible) {
		t.Errorf("min.insync.replicas over the factor: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "a", map[string]*string{"nope": nil}, 0); !errors.As(err, &invalid) || invalid.Name != "nope" {
		t.Errorf("removing an unknown config: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "a", map[string]*string{ConfigSegmentMs: text("0")}, 5); !errors.As(err, &invalid) {
		t.Errorf("invalid value: %v", err)
	}
	if _, err := c.AlterTopic(ctx, "b", nil, 5); !errors.As(err, &unknown) || unknown.Topic != "b" {
		t.Errorf("unknown topic: %v", err)
	}
	if now, _ := c.State().Topic("a"); now != topic {
		t.Errorf("a refused change changed %+v", now)
	}
}

// Many callers at once: each one's change is there, and each name is made once.
func TestConcurrentChanges(t *testing.T) {
	c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
	start(t, c)
	const callers, names = 8, 40
	made := make([]int, names)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range names {
				_, err := c.CreateTopic(context.Background(), CreateTopicRequest{Name: fmt.Sprint("t", i), Partitions: 1, ReplicationFactor: 1})
				if exists := (*TopicExistsError)(nil); err != nil && !errors.As(err, &exists) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					made[i]++
					mu.Unlock()
				}
			}
		}()
	}
	wg.Wait()
	for i, n := range made {
		if n != 1 {
			t.Errorf("t%d was made %d times", i, n)
		}
	}
	// Growing one topic from many sides ends at the largest, never in between.
	for n := 2; n <= callers+1; n++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := c.AlterTopic(context.Background(), "t0", nil, n)
			if impossible, conflict := (*ImpossibleError)(nil), (*ConflictError)(nil); err != nil && !errors.As(err, &impossible) && !errors.As(err, &conflict) {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	topic, _ := c.State().Topic("t0")
	if len(topic.Partitions) < 2 {
		t.Errorf("%d partitions", len(topic.Partitions))
	}
	if err := checkInvariants(c.State()); err != nil {
		t.Error(err)
	}
}

func TestProposalsBeforeLeadershipAndAfterTheDeadlineAreNotMade(t *testing.T) {
	c := open(t, Config{Dir: t.TempDir(), NodeID: 1})
	if _, err := c.propose(context.Background(), &InitCluster{ClusterID: "x"}); err != nil && !errors.Is(err, ErrNoController) {
		t.Errorf("before Start: %v", err)
	}
	start(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.CreateTopic(ctx, CreateTopicRequest{Name: "a", Partitions: 1, ReplicationFactor: 1}); !errors.Is(err, ErrNoController) {
		t.Errorf("with a dead context: %v", err)
	}
	if c.State().TopicCount() != 0 {
		t.Error("it was made")
	}
}

func TestAMetadataCommandOfANewerVersionStopsTheBroker(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir, NodeID: 1})
	start(t, c)
	if err := c.member.Load().raft.Apply([]byte(`{"v":9,"t":"split_partition","d":{}}`), 0).Error(); err != nil {
		t.Fatal(err)
	}
	incompatible := (*IncompatibleError)(nil)
	if err := c.Run(context.Background()); !errors.As(err, &incompatible) || incompatible.Index == 0 {
		t.Errorf("Run: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, Config{Dir: dir, NodeID: 1})
	if err := c.Start(context.Background()); !errors.As(err, &incompatible) {
		t.Errorf("Start: %v", err)
	}
}
