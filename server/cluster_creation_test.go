package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestR73_KilledWhileTopicsAreMade: all brokers are killed while topics are being
// made. What a broker had no time to put on its disk is not taken for lost: every
// topic that the metadata has is led again, by itself.
func TestR73_KilledWhileTopicsAreMade(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.topic("orders", 1, 3)
	for round := range number(t, "HIGHWATER_KILL_CREATING_ROUNDS", 2) {
		ctx, cancel := context.WithCancel(t.Context())
		made := make(chan struct{}, 1000)
		var creators sync.WaitGroup
		for i := range 4 {
			client := c.client(c.nodes[i%3])
			creators.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					name := fmt.Sprintf("round-%d-%d-%d", round, i, k)
					if status, _, err := client.do(ctx, "PUT", "/topics/"+name, "application/json", []byte(`{"partitions":5,"replication_factor":3}`)); err != nil || status != 201 {
						return
					}
					made <- struct{}{}
				}
			})
		}
		for range 5 {
			select {
			case <-made:
			case <-time.After(patience):
				t.Fatal("no topic is made")
			}
		}
		c.killAll()
		cancel()
		creators.Wait()
		for _, m := range c.nodes {
			c.launch(m)
		}
		c.waitServing(c.nodes...)
		var topics []string
		if err := json.Unmarshal(c.client(c.nodes[0]).must(t, 200, "GET", "/topics", "", ""), &topics); err != nil {
			t.Fatal(err)
		}
		for _, topic := range topics {
			c.waitInSync(topic, 3)
			c.client(c.nodes[0]).must(t, 200, "POST", "/topics/"+topic+"?acks=-1", "application/json", `{"records":[{"value":1}]}`)
		}
		t.Logf("round %d: %d topics", round, len(topics))
	}
	c.stopAll()
}
