package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// asking is for questions and orders of the run itself, not of its clients.
var asking = http.Client{Timeout: 10 * time.Second}

// Do sends one request to a broker and reads the whole answer.
func (b *Broker) Do(method, path string, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequest(method, b.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := asking.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// Ask reads a JSON document from a broker.
func (b *Broker) Ask(path string, into any) error {
	status, answer, err := b.Do("GET", path, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("cluster: broker %d: GET %s: %d %.300s", b.ID, path, status, answer)
	}
	return json.Unmarshal(answer, into)
}

// Partition is what a broker tells of a partition.
type Partition struct {
	Partition int   `json:"partition"`
	Leader    int   `json:"leader"`
	ISR       []int `json:"isr"`
	Replicas  []struct {
		Broker int `json:"broker"`
	} `json:"replicas"`
}

// Partitions of a topic, as one broker sees them.
func (b *Broker) Partitions(topic string) (ps []Partition, err error) {
	err = b.Ask("/topics/"+topic+"/partitions", &ps)
	return ps, err
}

// Awake are the brokers whose processes run and aren't paused.
func (c *Cluster) Awake() (awake []*Broker) {
	for _, b := range c.Brokers {
		b.mu.Lock()
		if b.life != nil && !b.ended() && !b.paused {
			awake = append(awake, b)
		}
		b.mu.Unlock()
	}
	return awake
}

// Leader asks who leads a partition; 0: nobody can tell.
func (c *Cluster) Leader(topic string, partition int) int {
	for _, b := range c.Awake() {
		if ps, err := b.Partitions(topic); err == nil && partition < len(ps) && ps[partition].Leader > 0 {
			return ps[partition].Leader
		}
	}
	return 0
}

// Controller asks who leads the metadata; 0: nobody can tell.
func (c *Cluster) Controller() int {
	for _, b := range c.Awake() {
		var view struct {
			Controller struct {
				Leader int `json:"leader"`
			} `json:"controller"`
		}
		if err := b.Ask("/cluster", &view); err == nil && view.Controller.Leader > 0 {
			return view.Controller.Leader
		}
	}
	return 0
}

// hurried is for a question whose answer is only good soon.
var hurried = http.Client{Timeout: time.Second}

// Coordinator asks who coordinates a consumer group; 0: nobody can tell.
func (c *Cluster) Coordinator(group string) int {
	for _, b := range c.Awake() {
		var view struct {
			Coordinator int `json:"coordinator"`
		}
		res, err := hurried.Get(b.URL() + "/consumers/" + group)
		if err != nil {
			continue
		}
		err = json.NewDecoder(res.Body).Decode(&view)
		_ = res.Body.Close()
		if err == nil && view.Coordinator > 0 {
			return view.Coordinator
		}
	}
	return 0
}

// OutOfSync names the partitions that lack a replica in sync, as each broker sees
// them; empty: every replica of every partition of these topics is in sync, and
// every broker is a voter of the quorum.
func (c *Cluster) OutOfSync(topics []string) (lacking []string) {
	for _, b := range c.Brokers {
		var view struct {
			Controller struct {
				Voters []int `json:"voters"`
			} `json:"controller"`
		}
		if err := b.Ask("/cluster", &view); err != nil {
			lacking = append(lacking, err.Error())
			continue
		}
		if len(view.Controller.Voters) < len(c.Brokers) {
			lacking = append(lacking, fmt.Sprintf("broker %d: voters %v", b.ID, view.Controller.Voters))
		}
		for _, t := range topics {
			ps, err := b.Partitions(t)
			if err != nil {
				lacking = append(lacking, err.Error())
				continue
			}
			for _, p := range ps {
				if len(p.ISR) < len(p.Replicas) || len(p.Replicas) == 0 || p.Leader < 1 {
					lacking = append(lacking, fmt.Sprintf("broker %d: %s-%d: leader %d, in sync %v", b.ID, t, p.Partition, p.Leader, p.ISR))
				}
			}
		}
	}
	return lacking
}

// Others are the ids of all brokers but one.
func (c *Cluster) Others(id int) (others []int) {
	for _, b := range c.Brokers {
		if b.ID != id {
			others = append(others, b.ID)
		}
	}
	return slices.Clip(others)
}
