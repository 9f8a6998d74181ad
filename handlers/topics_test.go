package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestTopicLife(t *testing.T) {
	b := startBroker(t)
	body := `{"partitions":3,"replication_factor":1,"configs":{"retention.ms":"1000","segment.bytes":2048,"unclean.leader.election.enable":true}}`
	created := b.do("PUT", "/topics/orders", body).want(201)
	if created.header.Get("Location") != "/topics/orders" {
		t.Errorf("Location %q", created.header.Get("Location"))
	}
	got := b.get("/topics/orders").want(200)
	if string(got.body) != string(created.body) {
		t.Errorf("created as %s\nbut is %s", created.body, got.body)
	}
	var topic topicView
	got.into(&topic)
	for name, want := range map[string]string{"retention.ms": "1000", "segment.bytes": "2048", "unclean.leader.election.enable": "true", "cleanup.policy": "delete",
		"compression.type": "producer", "dedupe.window.count": "1000000", "dedupe.window.ms": "3600000", "max.message.bytes": "1048576", "message.timestamp.type": "CreateTime",
		"min.insync.replicas": "1", "retention.bytes": "-1", "segment.ms": "604800000", "delete.retention.ms": "86400000",
		"min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0", "max.compaction.lag.ms": "9223372036854775807"} {
		if topic.Configs[name] != want {
			t.Errorf("%s is %q, want %q", name, topic.Configs[name], want)
		}
	}
	if topic.Name != "orders" || len(topic.TopicID) != 36 || len(topic.Partitions) != 3 || len(topic.Configs) != 16 {
		t.Errorf("got %s", got.body)
	}
	for _, same := range []any{body, nil, "{}", `{"partitions":3}`, `{"configs":{"segment.bytes":"2048"}}`, `{"configs":[{"name":"retention.ms","value":1000}]}`, `{"configs":{"cleanup.policy":"delete"}}`} {
		if a := b.do("PUT", "/topics/orders", same).want(200); string(a.body) != string(got.body) {
			t.Errorf("%v: %s", same, a.body)
		}
	}
	for _, other := range []string{`{"partitions":4}`, `{"configs":{"retention.ms":"1001"}}`} {
		b.do("PUT", "/topics/orders", other).problem(40901)
	}
	b.do("DELETE", "/topics/orders", nil).want(204)
	b.do("DELETE", "/topics/orders", nil).problem(40401)
	b.get("/topics/orders").problem(40401)
	b.do("PATCH", "/topics/orders", `{"partitions":4}`).problem(40401)
}

func TestPartitionShape(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.append("t", 1, recordsBody(5))
	b.do("DELETE", "/topics/t/partitions/1/records?before_offset=2", nil).want(200)
	a := b.get("/topics/t/partitions/1").want(200)
	want := `{"partition":1,"leader":1,"leader_epoch":%d,"isr":[1],"log_start_offset":2,"high_watermark":5,"log_end_offset":5,` +
		`"dedupe":{"ids":0,"producers":0,"oldest_ms":null,"newest_ms":null,"hits":0,"evicted_early":0},"replicas":[{"broker":1,"leader":true,"in_sync":true,"log_end_offset":5,"lag":0,"last_caught_up_ms":0}]}`
	var p partitionView
	a.into(&p)
	if strings.TrimSpace(string(a.body)) != fmt.Sprintf(want, p.LeaderEpoch) {
		t.Errorf("got %s\nwant %s", a.body, want)
	}
	var all []partitionView
	if b.get("/topics/t/partitions").want(200).into(&all); len(all) != 2 || all[0].Partition != 0 || all[1].Partition != 1 || *all[0].HighWatermark != 0 {
		t.Errorf("got %v", all)
	}
	for path, code := range map[string]int{"/topics/t/partitions/2": 40402, "/topics/t/partitions/-1": 40402, "/topics/t/partitions/x": 40402, "/topics/t/partitions/01": 40402, "/topics/x/partitions/0": 40401, "/topics/x/partitions": 40401} {
		b.get(path).problem(code)
	}
}

func TestPostTopic(t *testing.T) {
	b := startBroker(t)
	a := b.post("/topics", `{"topic_name":"a","partitions_count":2,"replication_factor":1,"configs":[{"name":"retention.ms","value":"5000"}]}`).want(201)
	var topic topicView
	if a.into(&topic); topic.Name != "a" || len(topic.Partitions) != 2 || topic.Configs["retention.ms"] != "5000" {
		t.Errorf("got %s", a.body)
	}
	b.post("/topics", `{"topic_name":"b","configs":{"retention.ms":"5000"}}`).want(201)
	b.post("/topics", `{"topic_name":"a","partitions_count":2}`).problem(40901)
	if a := b.get("/topics").want(200); strings.TrimSpace(string(a.body)) != `["a","b"]` {
		t.Errorf("got %s", a.body)
	}
	b.get("/topics?internal=true").want(200)
	b.get("/topics?internal=1").problem(40001)
	b.get("/topics?all=true").problem(40001)
	for body, code := range map[string]int{"": 40001, "{}": 42201, `{"topic_name":null}`: 42201, `{"topic_name":7}`: 42201, `{"topic_name":""}`: 42201, `{"topic_name":"a b"}`: 42201, `{"topic_name":"c","partitions":1}`: 42201} {
		b.post("/topics", body).problem(code)
	}
}

func TestTopicBodiesAreStrict(t *testing.T) {
	b := startBroker(t)
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for body, code := range map[string]int{
		"   ": 40001, "null": 42201, "[]": 42201, `"x"`: 42201, "7": 42201, "{": 40001, `{"partitions":1}x`: 40001, `{"partitions":1}{}`: 40001, "\xef\xbb\xbf{}": 40001,
		`{"partitions":1,"partitions":2}`: 40001, `{"configs":{"retention.ms":"1","retention.ms":"2"}}`: 40001, "{\"a\":\"\xff\"}": 40001, `{"configs":` + deep + `}`: 40001,
		`{"Partitions":1}`: 42201, `{"partition":1}`: 42201, `{"partitions":"3"}`: 42201, `{"partitions":3.0}`: 42201, `{"partitions":0}`: 42201, `{"partitions":-1}`: 42201, `{"partitions":1e1}`: 42201,
		`{"partitions":99999999999999999999}`: 42201, `{"partitions":1000000}`: 42201, `{"replication_factor":2}`: 42201, `{"configs":7}`: 42201, `{"configs":[1]}`: 42201, `{"configs":[{"name":"retention.ms"}]}`: 42201,
		`{"configs":[{"name":"retention.ms","value":"1"},{"name":"retention.ms","value":"1"}]}`: 42201, `{"configs":{"retention.ms":{}}}`: 42201, `{"configs":{"no.such":"1"}}`: 42201,
		`{"configs":{"retention.ms":"-2"}}`: 42201, `{"configs":{"retention.ms":1.5}}`: 42201, `{"configs":{"cleanup.policy":"shred"}}`: 42201, `{"configs":{"min.insync.replicas":"2"}}`: 42201,
	} {
		a := b.do("PUT", "/topics/strict", body)
		p := a.problem(code)
		if strings.Contains(body, "no.such") && (len(p.Errors) != 1 || p.Errors[0].Pointer != "/configs/no.such" || !strings.Contains(p.Errors[0].Detail, "retention.ms")) {
			t.Errorf("the unknown config and the known ones aren't named: %s", a.body)
		}
	}
	if p := b.do("PUT", "/topics/strict", `{"partitions":0,"replication_factor":"x","configs":{"a":[],"b":{}},"more":1}`).problem(42201); len(p.Errors) != 5 {
		t.Errorf("not every fault is told: %+v", p.Errors)
	}
	b.do("PUT", "/topics/strict", `{}`, ofType(typeForm)).problem(41501)
	b.do("PUT", "/topics/strict?partitions=3", nil).problem(40001)
	b.get("/topics/strict").problem(40401) // nothing of all this made it
	b.do("PUT", "/topics/strict", nil, ofType(typeForm)).want(201)
	for _, name := range []string{"..%2Fx", "a%00b", "a%20b", strings.Repeat("x", 250), "caf%C3%A9", "__consumer_offsets", "__txn"} {
		if a := b.do("PUT", "/topics/"+name, nil); a.status != 400 && a.status != 422 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}

func TestPatchTopic(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1, "retention.ms", "1000")
	b.append("t", 0, recordsBody(3))
	a := b.do("PATCH", "/topics/t", `{"partitions":3,"configs":{"retention.ms":null,"max.message.bytes":100}}`).want(200)
	var topic topicView
	if a.into(&topic); len(topic.Partitions) != 3 || topic.Configs["retention.ms"] != "604800000" || topic.Configs["max.message.bytes"] != "100" {
		t.Errorf("got %s", a.body)
	}
	if got := b.get("/topics/t").want(200); string(got.body) != string(a.body) {
		t.Errorf("told %s\nis %s", a.body, got.body)
	}
	b.post("/topics/t", `{"records":[{"value":"`+strings.Repeat("x", 200)+`"}]}`).problem(41302)
	b.append("t", 2, `{"records":[{"value":1}]}`)
	if got := b.fetch("t", 0, ""); len(got) != 3 {
		t.Errorf("the records of partition 0: %v", got)
	}
	b.restart()
	if got := b.get("/topics/t").want(200); !strings.Contains(string(got.body), `"max.message.bytes":"100"`) {
		t.Errorf("after a restart: %s", got.body)
	}
	for body, code := range map[string]int{"": 40001, "{}": 42201, `{"partitions":2}`: 42201, `{"configs":{"x":"1"}}`: 42201, `{"configs":{"segment.bytes":"1"}}`: 42201, `{"replication_factor":1}`: 42201} {
		b.do("PATCH", "/topics/t", body).problem(code)
	}
	b.do("PATCH", "/topics/t", `{"partitions":3}`).want(200) // as it is
}

func TestClusterAndHealth(t *testing.T) {
	notReady := errors.New("logs are being recovered")
	var ready error
	b := startBroker(t, withHandlers(func(c *Config) { c.Ready = func() error { return ready } }))
	var cluster struct {
		ClusterID  string `json:"cluster_id"`
		Controller struct {
			Leader int32   `json:"leader"`
			Term   uint64  `json:"term"`
			Voters []int32 `json:"voters"`
		} `json:"controller"`
		Brokers []struct {
			ID      int32  `json:"id"`
			URL     string `json:"url"`
			State   string `json:"state"`
			Version string `json:"version"`
		} `json:"brokers"`
	}
	a := b.get("/cluster").want(200).into(&cluster)
	if len(cluster.ClusterID) != 36 || cluster.Controller.Leader != 1 || cluster.Controller.Term == 0 || fmt.Sprint(cluster.Controller.Voters) != "[1]" ||
		len(cluster.Brokers) != 1 || cluster.Brokers[0].URL != b.url || cluster.Brokers[0].State != "active" || cluster.Brokers[0].Version != "test" {
		t.Errorf("got %s", a.body)
	}
	if a := b.get("/brokers").want(200); strings.TrimSpace(string(a.body)) != `{"brokers":[1]}` {
		t.Errorf("got %s", a.body)
	}
	if a := b.get("/").want(200); !strings.Contains(string(a.body), `"name":"highwater"`) || !strings.Contains(string(a.body), cluster.ClusterID) || !strings.Contains(string(a.body), `"/openapi.json"`) {
		t.Errorf("got %s", a.body)
	}
	if a := b.get("/", accept("text/html,application/xhtml+xml,*/*;q=0.8")).want(303); a.header.Get("Location") != "console/" {
		t.Errorf("to %q", a.header.Get("Location"))
	}
	b.get("/healthz").want(200)
	b.get("/readyz").want(200)
	ready = notReady
	if p := b.get("/readyz").problem(50305); !strings.Contains(p.Detail, notReady.Error()) {
		t.Errorf("the reason is missing: %+v", p)
	}
	ready = nil
	b.drain()
	b.get("/readyz").problem(50305)
	b.get("/healthz").want(200)
	b.topic("t", 1) // whatever others can do for it, or any broker can, it still does
	b.get("/topics").want(http.StatusOK)
	b.broker.Drain()
	if p := b.post("/topics/t", recordsBody(1)).problem(50305); p.Outcome != "not_written" {
		t.Errorf("outcome %q", p.Outcome)
	}
}
