package replication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"highwater/replication/controller"
	"highwater/storage"
)

// node is a whole broker without HTTP: real store, real raft.
type node struct {
	*Broker
	t     testing.TB
	dir   string
	opts  nodeOptions
	store *storage.Store
	ctl   *controller.Controller

	cancel context.CancelFunc
	loops  sync.WaitGroup
	errs   chan error // what the loops returned
	down   bool
}

type nodeOptions struct {
	defaults Defaults
	store    func(*storage.Options)
}

func startNode(t testing.TB, opts ...func(*nodeOptions)) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	for _, o := range opts {
		o(&n.opts)
	}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	so := storage.Options{Dir: n.dir, Fsync: storage.FsyncCommit, Logger: zerolog.Nop()}
	if n.opts.store != nil {
		n.opts.store(&so)
	}
	var err error
	n.store, err = storage.Open(so)
	n.must(err)
	logs, err := n.store.LogsOnDisk()
	n.must(err)
	n.ctl, err = controller.Open(controller.Config{Dir: filepath.Join(n.dir, "raft"), NodeID: 1, URL: "http://test", Logger: zerolog.Nop(), PartitionsOnDisk: len(logs) > 0})
	n.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.down, n.errs = cancel, false, make(chan error, 3)
	run := func(loop func(context.Context) error) {
		n.loops.Go(func() { n.errs <- loop(ctx) })
	}
	run(n.store.Run)
	n.must(n.ctl.Start(ctx))
	run(n.ctl.Run)
	n.Broker = New(Config{NodeID: 1, Store: n.store, Controller: n.ctl, Logger: zerolog.Nop(), Defaults: n.opts.defaults, Fsync: so.Fsync})
	n.must(n.Broker.Start(ctx))
	run(n.Broker.Run)
}

// stop is a clean shutdown.
func (n *node) stop() {
	if n.down {
		return
	}
	n.down = true
	n.must(n.Broker.Close(context.Background()))
	n.cancel()
	n.loops.Wait()
	close(n.errs)
	for err := range n.errs {
		n.must(err)
	}
	n.must(n.ctl.Close())
	n.must(n.store.Close())
}

func (n *node) restart() { n.t.Helper(); n.stop(); n.start() }

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) create(name string, partitions int, configs ...string) *controller.Topic {
	n.t.Helper()
	req := controller.CreateTopicRequest{Name: name, Partitions: partitions, Configs: map[string]string{}}
	for i := 0; i < len(configs); i += 2 {
		req.Configs[configs[i]] = configs[i+1]
	}
	t, err := n.CreateTopic(context.Background(), req)
	n.must(err)
	return t
}

// batch seals one batch of these values.
func batch(t testing.TB, values ...string) storage.Batch {
	t.Helper()
	b := storage.NewBatchBuilder(nil)
	for i, v := range values {
		b.Append(&storage.Record{Timestamp: 1000 + int64(i), Value: []byte(v)})
	}
	sealed, err := b.Seal(storage.CompressionNone, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func (n *node) append(acks Acks, topic string, partition int32, values ...string) AppendResult {
	n.t.Helper()
	return n.Append(context.Background(), acks, []AppendRequest{{Topic: topic, Partition: partition, Batches: []storage.Batch{batch(n.t, values...)}}})[0]
}

// mustAppend appends and wants success.
func (n *node) mustAppend(acks Acks, topic string, partition int32, values ...string) AppendResult {
	n.t.Helper()
	res := n.append(acks, topic, partition, values...)
	n.must(res.Err)
	return res
}

// values reads all of a partition that is visible from offset on, waiting until
// there are as many as wanted.
func (n *node) values(topic string, partition int32, from int64, want int) []string {
	n.t.Helper()
	var out []string
	for len(out) < want {
		res, err := n.Fetch(context.Background(), FetchRequest{Topic: topic, Partition: partition, Offset: from, MaxBytes: 1 << 20, MaxWait: time.Minute})
		n.must(err)
		for _, r := range records(n.t, res, from) {
			if r.Offset != from {
				n.t.Fatalf("record %d where %d was due", r.Offset, from)
			}
			out = append(out, string(r.Value))
			from++
		}
	}
	return out
}

// records decodes what a reader may use of a fetch.
func records(t testing.TB, res FetchResult, from int64) []storage.Record {
	t.Helper()
	var out []storage.Record
	for data := res.Data; len(data) > 0; {
		b, rest, err := storage.ParseBatch(data)
		if err != nil {
			t.Fatal(err)
		}
		data = rest
		it, err := b.Records()
		if err != nil {
			t.Fatal(err)
		}
		var r storage.Record
		for it.Next(&r) {
			if r.Offset >= from && r.Offset < res.HighWatermark {
				out = append(out, r)
				r = storage.Record{}
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	return out
}

func (n *node) partition(topic string, num int32) *Partition {
	n.t.Helper()
	p, err := n.Broker.Partition(topic, num)
	n.must(err)
	return p
}

// waitVisible waits until the high watermark is at least hw.
func (n *node) waitVisible(topic string, num int32, hw int64) {
	n.t.Helper()
	s := NewSignal()
	p := n.partition(topic, num)
	defer p.Subscribe(s)()
	for p.hw.Load() < hw {
		<-s.C
	}
}

func isUnknownTopic(err error) bool {
	e := (*controller.UnknownTopicError)(nil)
	return errors.As(err, &e)
}

// checkGoroutines fails if there are more goroutines than before for good (V35).
func checkGoroutines(t testing.TB, before int) {
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

const forever = time.Duration(math.MaxInt64)

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}
