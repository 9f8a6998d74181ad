package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chaos/check"
	"chaos/cluster"
	"chaos/history"
	"chaos/linear"
	"chaos/load"
	"chaos/nemesis"
	"chaos/segment"
)

const (
	// startLimit is how long a cluster may take to stand, and to stand again when
	// every fault is mended: elections, recovery and catching up of all.
	startLimit = 60 * time.Second
	// finalWithin is how long each partition may then take to accept a produce
	// through every broker.
	finalWithin = 20 * time.Second
	// drainWithin is how long fresh members of the groups may then take to read what
	// was left, the expiry of those who vanished included.
	drainWithin = 40 * time.Second
	// stopLimit is how long a broker may take to end in order; it promises 10 s.
	stopLimit = 20 * time.Second
	// sampleEvery is the time between two looks into the brokers.
	sampleEvery = 200 * time.Millisecond
	// linearLimit is how long porcupine may think about one partition, and
	// linearMost how long a run may be for it to be asked.
	linearLimit = 20 * time.Second
	linearMost  = 3 * time.Minute
)

// run is one run.
type run struct {
	options
	dir     string
	rec     *history.Recorder
	cluster *cluster.Cluster
	topics  []*load.Topic // that all clients use
	grouped *load.Topic   // that the groups read
	again   []*load.Topic // whose requests are all sent again
	named   []string      // all of these topics, and that which holds the groups
	nemesis *nemesis.Nemesis
	watch   *watch
	churn   *churn
	wrong   []check.Violation // found by the run itself

	// Records that compactions took away: of groups, and of messages with ids.
	compacted, outlived atomic.Int64
}

// layout is the topics of a run, with what is special about each.
var layout = []struct {
	name       string
	partitions int
	factor     int
	configs    string
}{
	{"orders", 3, 3, `{"min.insync.replicas":"2"}`},
	{"small", 2, 3, `{"min.insync.replicas":"2","segment.bytes":"16384"}`}, // segments roll all the time
	{"trim", 1, 3, `{"min.insync.replicas":"2","segment.bytes":"8192"}`},   // its oldest records are deleted all the time
	{"pair", 1, 2, `{"min.insync.replicas":"1"}`},                          // two copies, one is enough
	{groupTopic, 4, 3, `{"min.insync.replicas":"2","segment.bytes":"65536"}`},
	{"stamped", 1, 3, `{"min.insync.replicas":"2","message.timestamp.type":"LogAppendTime"}`}, // batches are changed by the leader
}

func (r *run) logf(format string, args ...any) {
	fmt.Printf("%7.1f s  %s\n", float64(r.rec.Now())/1e9, fmt.Sprintf(format, args...))
}

func (r *run) fail(invariant, format string, args ...any) {
	r.wrong = append(r.wrong, check.Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)})
}

// do makes the run and judges it. An error is a run that could not be made.
func (r *run) do(ctx context.Context) (*verdict, error) {
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = r.cluster.Close() }()

	background, stopBackground := context.WithCancel(context.Background())
	defer stopBackground()
	r.watch = newWatch(r.cluster, r.rec)
	var watching sync.WaitGroup
	watching.Go(func() { r.watch.run(background) })
	watching.Go(func() { stalls(background, r.rec) })

	clients, stopClients := context.WithCancel(background)
	fleet := r.fleet()
	fleet.Start(clients)
	r.churn = newChurn(r)
	var churning sync.WaitGroup
	churning.Go(func() { r.churn.run(clients) })
	churning.Go(func() { r.compact(clients) })
	churning.Go(func() { r.grow(clients) })

	faults, stopFaults := context.WithTimeout(ctx, r.duration)
	r.nemesis = nemesis.New(nemesis.Config{Cluster: r.cluster, Record: r.rec, Seed: r.seed, Topics: r.named, Groups: r.groupNames(), Only: r.only, Session: r.session, Log: r.logf})
	r.nemesis.Run(faults)
	stopFaults()

	r.heal()
	stopClients()
	churning.Wait()
	fleet.Wait()
	r.grown()
	r.end(fleet)
	r.watch.last()
	stopBackground()
	watching.Wait()
	r.stop()
	h, err := r.rec.Close()
	if err != nil {
		return nil, err
	}
	return r.judge(h), nil // also of a run that was told to end early
}

func (r *run) start(ctx context.Context) (err error) {
	r.cluster, err = cluster.New(cluster.Config{Binary: r.binary, Dir: r.dir, Brokers: r.brokers, Record: r.rec, Flags: []string{
		"--broker-session-timeout=" + r.session.String(), "--replica-lag-time-max=" + (r.session * 3 / 4).String(),
		"--quorum-timeout=" + (r.session / 4).String(), "--log-level=info", "--disk-reserve=1MiB",
	}})
	if err != nil {
		return err
	}
	for _, b := range r.cluster.Brokers {
		if err := b.Start(); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := r.cluster.AwaitReady(limited); err != nil {
		_ = r.cluster.Close()
		return err
	}
	if err := r.createTopics(); err != nil {
		_ = r.cluster.Close()
		return err
	}
	if lacking := r.awaitSync(startLimit); lacking != "" {
		_ = r.cluster.Close()
		return fmt.Errorf("a new topic is not in sync: %s", lacking)
	}
	return nil
}

func (r *run) createTopics() error {
	for _, l := range layout {
		t, err := createTopic(r.cluster.Broker(1), l.name, l.partitions, min(l.factor, r.brokers), r.alone(l.configs))
		if err != nil {
			return err
		}
		r.named = append(r.named, t.Name)
		if l.name == groupTopic {
			r.grouped = t
		} else {
			r.topics = append(r.topics, t)
		}
	}
	if err := r.createStorm(); err != nil || !r.groups {
		return err
	}
	return r.firstGroup()
}

// alone are configs that one broker can keep, too.
func (r *run) alone(configs string) string {
	if r.brokers > 1 {
		return configs
	}
	return strings.ReplaceAll(configs, `"min.insync.replicas":"2"`, `"min.insync.replicas":"1"`)
}

func createTopic(b *cluster.Broker, name string, partitions, factor int, configs string) (*load.Topic, error) {
	status, answer, err := b.Do("PUT", "/topics/"+name, fmt.Sprintf(`{"partitions":%d,"replication_factor":%d,"configs":%s}`, partitions, factor, configs))
	if err != nil {
		return nil, err
	}
	var got struct {
		ID string `json:"topic_id"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || status != 201 {
		return nil, fmt.Errorf("creating topic %s: %d %.300s", name, status, answer)
	}
	return &load.Topic{Name: name, ID: got.ID, Partitions: partitions}, nil
}

func (r *run) fleet() *load.Fleet {
	cfg := load.Config{Topics: r.topics, Record: r.rec, Seed: r.seed, Think: 60 * time.Millisecond,
		Producers: r.clients / 2, Consumers: r.clients / 4, Tails: r.clients / 6, Watchers: max(r.clients/12, 1)}
	if cfg.GroupTopic = r.grouped; r.groups {
		cfg.GroupSession = 2 * r.session
	}
	cfg.Again, cfg.Stormers, cfg.StormThink = r.again, r.retries, stormThink
	for _, b := range r.cluster.Brokers {
		cfg.URLs = append(cfg.URLs, b.URL())
	}
	return load.New(cfg)
}

// awaitSync waits until every replica is in sync; it returns what lacks at the end
// of the limit.
func (r *run) awaitSync(limit time.Duration) string {
	deadline := time.Now().Add(limit)
	for good := 0; ; {
		lacking := r.cluster.OutOfSync(r.named)
		if good++; len(lacking) > 0 {
			good = 0
		}
		if good == 2 { // asking takes a while, in which things change
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(lacking, "; ") + "."
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// heal mends everything, and waits until the cluster is whole.
func (r *run) heal() {
	r.cluster.Heal()
	for _, b := range r.cluster.Brokers {
		b.Resume()
		if err := b.Start(); err != nil {
			r.fail("start", "%v", err)
		}
	}
	r.rec.Event(history.EventHealed, 0, "")
	r.logf("all faults are mended")
	limited, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := r.cluster.AwaitReady(limited); err != nil {
		r.fail("V15", "%v, %v after all faults were mended", err, startLimit)
	}
	if lacking := r.awaitSync(startLimit); lacking != "" {
		r.fail("V15", "not in sync %v after all faults were mended: %s", startLimit, lacking)
		return
	}
	r.logf("every replica is in sync")
}

// end makes the last produces and reads all logs through every broker.
func (r *run) end(fleet *load.Fleet) {
	r.rec.Event(history.EventFinal, 0, "")
	limited, cancel := context.WithTimeout(context.Background(), finalWithin)
	defer cancel()
	fleet.Final(limited)
	settle, cancelSettle := context.WithTimeout(context.Background(), settleWithin)
	defer cancelSettle()
	for _, lacking := range fleet.Settle(settle) {
		r.fail("V15", "%v after all faults were mended: %s", settleWithin, lacking)
	}
	if lacking := r.awaitSync(startLimit); lacking != "" {
		r.fail("V15", "not in sync at the end: %s", lacking)
	}
	drain, cancelDrain := context.WithTimeout(context.Background(), drainWithin)
	defer cancelDrain()
	for _, lacking := range fleet.Drain(drain) {
		r.fail("V15", "not read to the end %v after all faults were mended: %s", drainWithin, lacking)
	}
	r.churn.check(r.cluster.Brokers[0])
	if err := fleet.Views(); err != nil {
		r.fail("V15", "%v", err)
	}
	r.memories()
}

// stop ends every broker in order and reads what each has on disk.
func (r *run) stop() {
	var wg sync.WaitGroup
	codes := make([]string, len(r.cluster.Brokers))
	for i, b := range r.cluster.Brokers {
		wg.Go(func() {
			if code, err := b.Stop(stopLimit); err != nil || code != 0 {
				codes[i] = fmt.Sprintf("SIGTERM of broker %d at the end: exit code %d, %v", b.ID, code, err)
			}
		})
	}
	wg.Wait()
	for i, b := range r.cluster.Brokers {
		if codes[i] != "" {
			r.fail("exit", "%s", codes[i])
		}
		for _, how := range b.UnaskedExits() {
			r.fail("exit", "broker %d ended by itself: %s", b.ID, how)
		}
		if err := r.readDisk(b); err != nil {
			r.fail("V27", "broker %d: %v", b.ID, err)
		}
	}
	for _, m := range r.nemesis.Misdeeds() {
		r.fail("exit", "%s", m)
	}
}

// readDisk takes the logs in a stopped broker's directory down as views.
func (r *run) readDisk(b *cluster.Broker) error {
	logs, err := segment.Read(b.Dir())
	if err != nil {
		return err
	}
	for _, l := range logs {
		if !slices.ContainsFunc(append(slices.Concat(r.topics, r.again), r.grouped), func(t *load.Topic) bool { return t.ID == l.Topic && !t.Compacted }) {
			continue
		}
		v := &history.View{Partition: history.Partition{Topic: l.Topic, Index: l.Partition}, Source: fmt.Sprintf("disk %d", b.ID), Disk: true}
		for i, x := range l.Batches {
			if i == 0 {
				v.Start = x.Base
			}
			v.End = x.Last + 1
			out := history.Batch{Base: x.Base, Last: x.Last, Epoch: x.Epoch, Sum: fmt.Sprintf("%x", x.Sum)}
			if x.Bad != nil {
				out.Bad = x.Bad.Error()
			}
			v.Batches = append(v.Batches, out)
			for j, value := range x.Values {
				v.Records = append(v.Records, history.Record{Offset: x.Base + int64(j), Value: load.Name(value)})
			}
		}
		if len(l.Batches) > 0 {
			r.rec.View(v)
		}
	}
	return nil
}

// judge checks the history and counts the evidence.
func (r *run) judge(h *history.History) *verdict {
	var ids []int
	for _, b := range r.cluster.Brokers {
		ids = append(ids, b.ID)
	}
	v := &verdict{seed: r.seed, wrong: r.wrong}
	v.wrong = append(v.wrong, check.Check(h, check.Options{FinalWithin: int64(finalWithin), Brokers: ids, Deleted: r.churn.deletedIDs()})...)
	if r.duration <= linearMost {
		for _, l := range linear.Check(h, linearLimit) {
			v.linear(l)
		}
	}
	v.faults = r.nemesis.Counts()
	v.evidence = slices.Concat(evidence(h, readSigns(filepath.Join(r.dir, "node-*.log"))), groupEvidence(h, r.duration), againEvidence(h))
	if r.groups {
		v.evidence = append(v.evidence, count{what: "records of groups compacted away", n: int(r.compacted.Load()), needed: true})
	}
	if r.retries > 0 {
		v.evidence = append(v.evidence, count{what: "records with ids compacted away", n: int(r.outlived.Load())})
	}
	v.evidence = append(v.evidence, count{what: "KiB through the links between brokers", n: int(r.cluster.Passed() >> 10), needed: true}) // else their faults hit nobody
	v.judge()
	v.trouble = trouble(filepath.Join(r.dir, "node-*.log"))
	v.topics = r.churn.counts
	v.clients = slices.Concat(clientCounts(h), groupCounts(h), againCounts(h))
	return v
}

// span is how long a history goes on.
func span(h *history.History) (longest time.Duration) {
	for i := range h.Ops {
		longest = max(longest, time.Duration(h.Ops[i].Return))
	}
	return longest
}

// checkAgain checks an old history.
func checkAgain(path string) error {
	h, err := history.Read(path)
	if err != nil {
		return err
	}
	v := &verdict{again: true, clients: slices.Concat(clientCounts(h), groupCounts(h), againCounts(h)), evidence: slices.Concat(groupEvidence(h, span(h)), againEvidence(h))}
	deleted := map[string]bool{}
	for _, e := range h.Events {
		if e.What == eventDeleted {
			deleted[e.Detail] = true
		}
	}
	v.wrong = check.Check(h, check.Options{Deleted: deleted})
	for _, l := range linear.Check(h, linearLimit) {
		v.linear(l)
	}
	v.print(os.Stdout)
	if !v.good() {
		return errFailed
	}
	return nil
}
