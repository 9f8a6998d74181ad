package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// polled is a record as a poll gives it.
type polled struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
}

// consumer makes an instance and returns its path.
func (b *testBroker) consumer(groupName, body string) string {
	b.t.Helper()
	var made consumerView
	b.post("/consumers/"+groupName, body).want(200).into(&made)
	path := "/consumers/" + groupName + "/instances/" + made.InstanceID
	if made.BaseURI != b.url+path {
		b.t.Errorf("base_uri %q", made.BaseURI)
	}
	return path
}

// subscriber makes an instance that is subscribed to topics.
func (b *testBroker) subscriber(groupName, body string, topics ...string) string {
	b.t.Helper()
	path := b.consumer(groupName, body)
	b.post(path+"/subscription", map[string]any{"topics": topics}).want(204)
	return path
}

// poll polls with a query; without a timeout in it the poll waits long.
func (b *testBroker) poll(path, query string, change ...request) []polled {
	b.t.Helper()
	if !strings.Contains(query, "timeout=") {
		query = strings.TrimPrefix(query+"&timeout=20000", "&")
	}
	var out []polled
	b.get(path+"/records?"+query, change...).want(200).into(&out)
	return out
}

// pollUntil polls until n records are there.
func (b *testBroker) pollUntil(path string, n int) []polled {
	b.t.Helper()
	var out []polled
	for len(out) < n {
		got := b.poll(path, "")
		if len(got) == 0 {
			b.t.Fatalf("%d records, want %d", len(out), n)
		}
		out = append(out, got...)
	}
	return out
}

// placesOf is "partition:offset …" of records.
func placesOf(records []polled) string {
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%d:%d", r.Partition, r.Offset))
	}
	return strings.Join(out, " ")
}

// stock produces n values to a partition, acknowledged by all.
func (b *testBroker) stock(topic string, partition, n int) {
	b.t.Helper()
	b.post(fmt.Sprintf("/topics/%s/partitions/%d?acks=-1&response=summary", topic, partition), recordsBody(n)).want(200)
}

// committedOf is "partition:offset …" of a group's committed offsets in a topic.
func (b *testBroker) committedOf(groupName, topic string) string {
	b.t.Helper()
	var list []groupOffsetView
	b.get("/consumers/" + groupName + "/offsets").want(200).into(&list)
	var out []string
	for _, o := range list {
		if o.Topic == topic && o.Committed != nil {
			out = append(out, fmt.Sprintf("%d:%d", o.Partition, *o.Committed))
		}
	}
	return strings.Join(out, " ")
}

func (b *testBroker) remove(path string) answer {
	b.t.Helper()
	return b.do(http.MethodDelete, path, nil)
}
