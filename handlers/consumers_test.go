package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"

	"highwater/replication/group"
)

// The quickstarts of the REST proxy's v2 API, as its users have them in their scripts.
func TestQuickstartsOfTheDialect(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the quickstarts need curl")
	}
	b := startBroker(t)
	b.topic("jsontest", 1)
	b.topic("binarytest", 1)
	const first = `curl -s -X POST -H "Content-Type: application/vnd.kafka.json.v2+json" \
      -H "Accept: application/vnd.kafka.v2+json" \
      --data '{"records":[{"value":{"foo":"bar"}}]}' "http://localhost:8082/topics/jsontest"`
	for _, step := range []struct{ command, want string }{
		{first, `{"offsets":[{"partition":0,"offset":0,"error_code":null,"error":null}]`},
		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.v2+json" \
      --data '{"name": "my_consumer_instance", "format": "json", "auto.offset.reset": "earliest"}' \
      http://localhost:8082/consumers/my_json_consumer`,
			`{"instance_id":"my_consumer_instance","base_uri":"http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance"}`},
		{`curl -s -i -X POST -H "Content-Type: application/vnd.kafka.v2+json" --data '{"topics":["jsontest"]}' \
 http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance/subscription`, "HTTP/1.1 204 No Content"},
		{`curl -s -i -X GET -H "Accept: application/vnd.kafka.json.v2+json" \
      http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance/records`,
			"Content-Type: application/vnd.kafka.json.v2+json"},
		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.v2+json" --data '{"offsets":[{"topic":"jsontest","partition":0,"offset":1}]}' \
      -o /dev/null -w '%{http_code}' http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance/offsets`, "204"},
		{`curl -s -X GET -H "Content-Type: application/vnd.kafka.v2+json" --data '{"partitions":[{"topic":"jsontest","partition":0}]}' \
      http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance/offsets`, `{"offsets":[{"topic":"jsontest","partition":0,"offset":1,"next_offset":1,"metadata":""}]}`},
		{`curl -s -i -X DELETE -H "Content-Type: application/vnd.kafka.v2+json" \
      http://localhost:8082/consumers/my_json_consumer/instances/my_consumer_instance`, "HTTP/1.1 204 No Content"},

		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.binary.v2+json" \
      -H "Accept: application/vnd.kafka.v2+json" \
      --data '{"records":[{"key":"a2V5","value":"S2Fma2E="}]}' "http://localhost:8082/topics/binarytest"`, `"offset":0`},
		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.v2+json" -H "Accept: application/vnd.kafka.v2+json" \
      --data '{"name": "my_consumer_instance", "format": "binary", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}' \
      http://localhost:8082/consumers/my_binary_consumer`, `"instance_id":"my_consumer_instance"`},
		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.v2+json" --data '{"topics":["binarytest"]}' -w '%{http_code}' \
 http://localhost:8082/consumers/my_binary_consumer/instances/my_consumer_instance/subscription`, "204"},
		{`curl -s -X GET -H "Accept: application/vnd.kafka.binary.v2+json" \
      http://localhost:8082/consumers/my_binary_consumer/instances/my_consumer_instance/records`, `"key":"a2V5","value":"S2Fma2E="`},
		{`curl -s -X POST -H "Content-Type: application/vnd.kafka.v2+json" -w '%{http_code}' http://localhost:8082/consumers/my_binary_consumer/instances/my_consumer_instance/offsets`, "204"},
		{`curl -s -X DELETE -H "Accept: application/vnd.kafka.v2+json" -w '%{http_code}' \
      http://localhost:8082/consumers/my_binary_consumer/instances/my_consumer_instance`, "204"},
	} {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(step.command, "http://localhost:8082", b.url)).CombinedOutput()
		if got := strings.ReplaceAll(string(out), b.url, "http://localhost:8082"); err != nil || !strings.Contains(got, step.want) {
			t.Fatalf("%v: %s\ngives %s\nwant %s", err, step.command, got, step.want)
		}
	}
}

// Accept has to fit the format that an instance was made with.
func TestEmbeddedFormats(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=-1", `{"records":[{"key":"k","value":{"a":1}}]}`).want(200)
	for _, c := range []struct{ format, accepts, media, part string }{
		{"json", "", typeKafkaJSON, `"key":null`}, {"json", "*/*", typeKafkaJSON, `"value":{"a":1}`}, {"json", typeJSON, typeJSON, `"key":"k"`}, {"json", typeKafka, typeKafka, `"value":{"a":1}`},
		{"json", typeKafkaBinary, "", ""}, {"json", typeKafkaText, "", ""}, {"json", typeNDJSON, typeNDJSON, `"key":"k"`},
		{"binary", "", typeKafkaBinary, `"key":"aw==","value":"eyJhIjoxfQ=="`}, {"binary", typeKafkaJSON, "", ""}, {"binary", typeKafka, typeKafka, `"value":"eyJhIjoxfQ=="`},
		{"text", "", typeKafkaText, `"value":"{\"a\":1}"`}, {"text", typeKafkaBinary, "", ""},
		{"", "", typeJSON, `"key":"k","value":{"a":1}`}, {"", typeKafka, typeKafka, `"value":"eyJhIjoxfQ=="`}, {"", typeKafkaText, typeKafkaText, `"key":"k"`}, {"", "image/png", "", ""},
	} {
		body := `{"name":"c1"}`
		if c.format != "" {
			body = `{"name":"c1","format":"` + c.format + `"}`
		}
		path := b.subscriber("g", body, "t")
		var change []request
		if c.accepts != "" {
			change = append(change, accept(c.accepts))
		}
		a := b.get(path+"/records?timeout=20000", change...)
		if c.media == "" {
			if p := a.problem(40601); c.format != "" && !strings.Contains(p.Detail, c.format) {
				t.Errorf("detail %q", p.Detail)
			}
			b.do(http.MethodHead, path+"/records", nil, change...).want(406)
		} else if a.want(200); a.header.Get("Content-Type") != c.media || !strings.Contains(string(a.body), c.part) {
			t.Errorf("%+v: %s %s", c, a.header.Get("Content-Type"), a.body)
		}
		b.remove(path).want(204)
	}
}

// HEAD gives GET's status and moves nothing (H15).
func TestH15_HeadOfAPollMovesNothing(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 2)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	for range 3 {
		if a := b.do(http.MethodHead, path+"/records?timeout=0", nil).want(200); a.header.Get("Content-Type") != typeJSON {
			t.Errorf("labelled %q", a.header.Get("Content-Type"))
		}
	}
	if got := placesOf(b.poll(path, "")); got != "0:0 0:1" {
		t.Errorf("polled %q", got)
	}
	b.do(http.MethodHead, "/consumers/g/instances/nope/records", nil).want(404)
	b.do(http.MethodHead, "/consumers/h/records?topics=t&member=m", nil).want(200)
	b.get("/consumers/h").problem(40404)
	if got := b.do(http.MethodOptions, path+"/offsets", nil).want(204).header.Get("Allow"); got != "GET, HEAD, OPTIONS, POST" {
		t.Errorf("Allow %q", got)
	}
	b.do(http.MethodPatch, path+"/records", nil).problem(40501)
}

func TestGroupsAreListedDescribedResetAndDeleted(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.stock("t", 0, 5)
	b.stock("t", 1, 3)
	if got := string(b.get("/consumers").want(200).body); got != "[]\n" {
		t.Errorf("no groups: %s", got)
	}
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	b.pollUntil(path, 8)
	b.post(path+"/offsets", nil).want(204)
	if got := string(b.get("/consumers").want(200).body); got != `[{"group":"g","state":"stable","members":1,"coordinator":1}]`+"\n" {
		t.Errorf("groups %s", got)
	}
	var d groupView
	b.get("/consumers/g").want(200).into(&d)
	if d.State != "stable" || len(d.Members) != 1 || d.Members[0].InstanceID != "c1" || len(d.Members[0].Assignments) != 2 || d.Coordinator != 1 {
		t.Errorf("%+v", d)
	}
	const reset = `{"topics":["t"],"to":"earliest"}`
	b.do("PUT", "/consumers/g/offsets", reset).problem(40909)
	b.remove("/consumers/g").problem(40909)
	b.remove(path).want(204)
	for _, c := range []struct{ query, body, want string }{
		{"?dry_run=true", reset, `[{"topic":"t","partition":0,"from":5,"to":0},{"topic":"t","partition":1,"from":3,"to":0}]`},
		{"", `{"offsets":[{"topic":"t","partition":0,"offset":2}]}`, `[{"topic":"t","partition":0,"from":5,"to":2}]`},
		{"", reset, `[{"topic":"t","partition":0,"from":2,"to":0},{"topic":"t","partition":1,"from":3,"to":0}]`},
		{"", `{"topics":["t"],"to":"latest"}`, `[{"topic":"t","partition":0,"from":0,"to":5},{"topic":"t","partition":1,"from":0,"to":3}]`},
		{"", `{"topics":["t"],"to":"-1h"}`, `[{"topic":"t","partition":0,"from":5,"to":0},{"topic":"t","partition":1,"from":3,"to":0}]`},
		{"?dry_run=false", `{"topics":["t"],"to":253402300799999}`, `[{"topic":"t","partition":0,"from":0,"to":5},{"topic":"t","partition":1,"from":0,"to":3}]`},
	} {
		if got := string(b.do("PUT", "/consumers/g/offsets"+c.query, c.body).want(200).body); got != c.want+"\n" {
			t.Errorf("%s: %s", c.body, got)
		}
	}
	if got := string(b.do("PUT", "/consumers/new/offsets", reset).want(200).body); got != `[{"topic":"t","partition":0,"from":null,"to":0},{"topic":"t","partition":1,"from":null,"to":0}]`+"\n" {
		t.Errorf("a new group: %s", got)
	}
	for _, body := range []string{`{"topics":["t"]}`, `{"to":"earliest"}`, `{"offsets":[],"to":"earliest"}`, `{"topics":["t"],"to":"noon"}`, `{}`, `{"topics":["t"],"to":null}`} {
		b.do("PUT", "/consumers/g/offsets", body).problem(42201)
	}
	b.do("PUT", "/consumers/g/offsets", `{"topics":["nope"],"to":"earliest"}`).problem(40401)
	b.do("PUT", "/consumers/g/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":99}]}`).problem(41601)
	b.do("PUT", "/consumers/g/offsets?dry_run=1", reset).problem(40001)
	b.remove("/consumers/g").want(204)
	b.remove("/consumers/g").problem(40404)
	b.get("/consumers/g").problem(40404)
	b.get("/consumers/g/offsets").problem(40404)
}

// Two calls are a whole consumer, and two members share the work.
func TestOneCallConsumers(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	const w1, w2 = "/consumers/g/records?topics=t&member=w1&timeout=20000", "/consumers/g/records?topics=t&member=w2&timeout=20000"
	poll := func(path string) (out []polled) {
		b.get(path).want(200).into(&out)
		return out
	}
	b.get("/consumers/g/records?topics=t&member=w1&timeout=0").want(200) // joins
	done := make(chan []polled)
	go func() { done <- poll(w2) }() // waits for a partition
	b.eventually("w1 gives one back", func() bool {
		poll("/consumers/g/records?topics=t&member=w1&timeout=0")
		var d groupView
		b.get("/consumers/g").want(200).into(&d)
		return len(d.Members) == 2 && len(d.Members[0].Assignments) == 1 && len(d.Members[1].Assignments) == 1
	})
	b.stock("t", 0, 3)
	b.stock("t", 1, 3)
	a, c := poll(w1), <-done
	if len(a) != 3 || len(c) != 3 || a[0].Partition == c[0].Partition {
		t.Errorf("w1 has %s, w2 has %s", placesOf(a), placesOf(c))
	}
	// w1 can't commit for what w2 has (F61).
	p := b.post("/consumers/g/offsets?member=w1", map[string]any{"offsets": []map[string]any{{"topic": "t", "partition": c[0].Partition, "offset": 1}}}).problem(40906)
	if p.Outcome != "not_written" {
		t.Errorf("outcome %q", p.Outcome)
	}
	b.post("/consumers/g/offsets?member=w1", nil).want(204)
	b.post("/consumers/g/offsets?member=w2", nil).want(204)
	if got := b.committedOf("g", "t"); got != "0:3 1:3" {
		t.Errorf("committed %q", got)
	}
	b.get("/consumers/g/records?topics=t").problem(40001)
	b.get("/consumers/g/records?member=w1").problem(40001)
	b.get("/consumers/g/records?member=w1&topics=t&topic_pattern=t").problem(40001)
	b.get("/consumers/g/records?member=w1&topics=../x").problem(40001)
	b.get("/consumers/g/records?member=w1&topic_pattern=(").problem(40001)
	b.get("/consumers/g/records?topics=t&member=w1", accept("image/png")).problem(40601)
	b.post("/consumers/g/offsets", nil).problem(40001)
	b.post("/consumers/g/offsets?member=w7", nil).problem(40403)
}

// A zombie's commit changes nothing, and says what the group is at (F61).
func TestF61_ZombieCommits(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 5)
	b.subscriber("g", `{"name":"c1"}`, "t")
	const old, commit = "/consumers/g/instances/c1", `{"offsets":[{"topic":"t","partition":0,"offset":5}]}`
	b.pollUntil(old, 5)
	var first, second consumerView
	b.do("PUT", old, nil).want(200).into(&first)
	b.do("PUT", old, nil).want(200).into(&second)
	if first.InstanceID == second.InstanceID || !strings.HasPrefix(second.InstanceID, "c1~") {
		t.Errorf("incarnations %s and %s", first.InstanceID, second.InstanceID)
	}
	var body struct {
		Generation *int64 `json:"generation"`
	}
	a := b.post("/consumers/g/instances/"+first.InstanceID+"/offsets", commit)
	a.problem(40906)
	if a.into(&body); body.Generation == nil {
		t.Errorf("no generation in %s", a.body)
	}
	b.get("/consumers/g/instances/" + first.InstanceID + "/records?timeout=0").problem(40906)
	if got := b.committedOf("g", "t"); got != "" {
		t.Errorf("committed %q", got)
	}
	// Nor can the new one before it has polled: it may not know what it has.
	b.post("/consumers/g/instances/"+second.InstanceID+"/offsets", commit).problem(40906)
	b.pollUntil(old, 5)
	b.post("/consumers/g/instances/"+second.InstanceID+"/offsets", commit).want(204)
	if got := b.committedOf("g", "t"); got != "0:5" {
		t.Errorf("committed %q", got)
	}
}

// What was read before the position is no longer in the log: nothing is skipped, and
// no other records are given for those (F55).
func TestF55_PositionInATruncatedLog(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 2)
	b.restart()
	b.stock("t", 0, 2) // in another leader epoch
	topic, err := b.broker.Topic("t")
	must(t, err)
	// The group has committed behind a third record of the first epoch, which an
	// unclean election has cut off.
	at := group.CommitOffset{Position: group.Position{TopicPartition: group.TopicPartition{Topic: "t", TopicID: topic.ID}, Offset: 3, LeaderEpoch: 0}}
	_, err = b.groups.Do(context.Background(), &group.Call{Group: "g", ID: uuid.New(), Reset: &group.Reset{Offsets: []group.CommitOffset{at}}})
	must(t, err)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	var cut struct {
		Safe int64 `json:"safe_offset"`
	}
	for range 2 {
		a := b.get(path + "/records?timeout=0")
		if p := a.problem(40905); !strings.Contains(p.Fix, path+"/positions") {
			t.Errorf("fix %q", p.Fix)
		}
		if a.into(&cut); cut.Safe != 2 {
			t.Errorf("safe offset %d", cut.Safe)
		}
	}
	b.post(path+"/positions", `{"offsets":[{"topic":"t","partition":0,"next_offset":2}]}`).want(204)
	if got := placesOf(b.poll(path, "")); got != "0:2 0:3" {
		t.Errorf("after the seek %q", got)
	}
	b.remove(path).want(204)
	const once = "/consumers/g/records?topics=t&member=w&timeout=0"
	if p := b.get(once).problem(40905); !strings.Contains(p.Fix, "/consumers/g/offsets?member=w") {
		t.Errorf("fix %q", p.Fix)
	}
	b.post("/consumers/g/offsets?member=w", `{"offsets":[{"topic":"t","partition":0,"next_offset":2}]}`).want(204)
	if got := b.get(once).want(200); strings.Count(string(got.body), `"offset"`) != 2 {
		t.Errorf("after the commit %s", got.body)
	}
}

// One poll at a time; and where a member without a commit begins.
func TestPollsOneAtATimeAndResets(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.stock("t", 0, 2)
	path := b.subscriber("g", `{"name":"c1","auto.offset.reset":"latest"}`, "t")
	done := make(chan answer)
	go func() { done <- b.get(path + "/records?timeout=20000") }()
	b.eventually("it waits", func() bool { return b.waiting() == 1 })
	b.get(path + "/records?timeout=0").problem(40907)
	b.stock("t", 0, 1)
	var got []polled
	if (<-done).want(200).into(&got); placesOf(got) != "0:2" {
		t.Errorf("latest begins with %q", placesOf(got))
	}
	if list := b.committedOf("g", "t"); list != "" {
		t.Errorf("the place that latest found is told as a commit: %q", list)
	}
	none := b.subscriber("h", `{"name":"c1","auto.offset.reset":"none"}`, "t")
	if p := b.get(none + "/records?timeout=0").problem(42201); !strings.Contains(p.Detail, "auto.offset.reset") {
		t.Errorf("detail %q", p.Detail)
	}
	b.post(none+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":1}]}`).want(204)
	if got := placesOf(b.poll(none, "")); got != "0:1 0:2" {
		t.Errorf("after a commit %q", got)
	}
	b.do("DELETE", "/topics/t/partitions/0/records?before_offset=3", nil).want(200)
	b.post(none+"/offsets", `{"offsets":[{"topic":"t","partition":0,"offset":1}]}`).want(204)
	b.do("PUT", none, `{"auto.offset.reset":"none"}`).want(200)
	b.get(none + "/records?timeout=0").problem(41001)
}

// The bounds of a member's options, and of a poll.
func TestConsumerOptions(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, body := range []string{`{"fetch.min.bytes":"-1","consumer.request.timeout.ms":99999999,"isolation.level":"read_uncommitted","name":null}`,
		`{"fetch.min.bytes":100000000000,"consumer.instance.timeout.ms":"86400000","auto.offset.reset":"none","enable.auto.commit":"true"}`, ""} {
		b.consumer("g", body)
	}
	p := b.post("/consumers/g", `{"name":"a","fromat":"json","format":"xml","fetch.min.bytes":[]}`).problem(42201)
	if len(p.Errors) != 3 || !strings.Contains(fmt.Sprint(p.Errors), "auto.offset.reset") {
		t.Errorf("%+v", p.Errors)
	}
	// The member waits for its minimum, but no longer than its time.
	path := b.subscriber("g", `{"name":"c1","fetch.min.bytes":1000000,"consumer.request.timeout.ms":300}`, "t")
	b.stock("t", 0, 1)
	var got []polled
	must(t, json.Unmarshal(b.get(path+"/records").want(200).body, &got))
	if placesOf(got) != "0:0" {
		t.Errorf("polled %q", placesOf(got))
	}
	b.get(path+"/records", header("Prefer", "wait=0")).want(200)
	for _, id := range []string{"", strings.Repeat("x", 129), "a%20b"} {
		b.get(path + "/records?request_id=" + id).problem(40001)
	}
}
