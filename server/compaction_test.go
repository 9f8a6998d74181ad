package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestF51_KilledWhileItCompacts kills a broker that does little but compact, again and
// again. After each restart a reader from 0 ends with the last acknowledged value of
// each key, and with none that was overwritten or deleted; only what the kill left
// without an answer may be there or not.
func TestF51_KilledWhileItCompacts(t *testing.T) {
	t.Parallel()
	rounds := number(t, "HIGHWATER_KILL_ROUNDS", 6)
	seed := uint64(number(t, "HIGHWATER_KILL_SEED", int(time.Now().UnixNano()%1e9)+1))
	t.Logf("HIGHWATER_KILL_SEED=%d HIGHWATER_KILL_ROUNDS=%d", seed, rounds)
	rnd := rand.New(rand.NewPCG(seed, 7))
	dir := t.TempDir()
	b := start(t, dir, "--compaction-interval", "20ms")
	newClient(t, b.url).must(t, 201, "PUT", "/topics/table", "application/json",
		`{"partitions":1,"configs":{"cleanup.policy":"compact","segment.bytes":"2048","min.cleanable.dirty.ratio":"0","delete.retention.ms":"50"}}`)
	table, gone := map[string]string{}, int64(0)
	for round := range rounds {
		c := newClient(t, b.url)
		sent := make(chan map[string]string, 1) // of the batch that was on its way
		written := make(chan int, 10_000)
		enough := 40 + rnd.IntN(120)
		go func() {
			for n := 0; ; n++ {
				batch, body := changes(rnd, fmt.Sprintf("%d-%d", round, n))
				status, _, err := c.do(context.Background(), "POST", "/topics/table?acks=-1", "application/json", body)
				if err != nil || status != 200 {
					sent <- batch
					return
				}
				for key, value := range batch {
					table[key] = value
				}
				written <- n
			}
		}()
		for range enough {
			select {
			case <-written:
			case <-sent:
				t.Fatalf("round %d of seed %d: a write failed before the kill:\n%s", round, seed, b.output())
			}
		}
		b.kill()
		unsure := <-sent
		b = start(t, dir, "--compaction-interval", "20ms")
		c = newClient(t, b.url)
		_, end := c.end(t, "table", 0)
		found, records := c.replay(t, "table", end)
		gone += end - records
		for key, value := range table {
			if got, ok := found[key]; value != "null" && (!ok || got != value) && got != unsure[key] || value == "null" && ok && got != "null" && got != unsure[key] {
				t.Errorf("round %d: key %s is %s, want %s (or %s)", round, key, got, value, unsure[key])
			}
		}
		for key := range unsure { // whichever it was, it stays so
			if table[key] = "null"; found[key] != "" {
				table[key] = found[key]
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if gone == 0 {
		t.Error("nothing was ever compacted away")
	}
	b.stop()
}

// replay reads partition 0 of a topic, which ends at end, and tells the last value of each key
// and how many records there are.
func (c *client) replay(t *testing.T, topic string, end int64) (found map[string]string, records int64) {
	t.Helper()
	found = map[string]string{}
	for next, more := int64(0), true; more; {
		more = false
		for line := range strings.Lines(string(c.must(t, 200, "GET", fmt.Sprintf("/topics/%s/partitions/0/records?offset=%d", topic, next), "", "", "Accept", "application/x-ndjson"))) {
			var r stored
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Offset < next || r.Offset >= end {
				t.Fatalf("%s at %d: %v in %q", topic, next, err, line)
			}
			next, more = r.Offset+1, true
			found[r.key()] = string(r.Value)
			records++
		}
		more = more && next < end
	}
	return found, records
}

// changes are new values for some keys, or null, and the request that makes them.
func changes(rnd *rand.Rand, value string) (batch map[string]string, body []byte) {
	batch = map[string]string{}
	var records []string
	for i := range 1 + rnd.IntN(8) {
		key, v := fmt.Sprintf("k%d", rnd.IntN(12)), `"`+value+fmt.Sprintf(".%d", i)+strings.Repeat("x", rnd.IntN(50))+`"`
		if rnd.IntN(5) == 0 {
			v = "null"
		}
		batch[key] = v
		records = append(records, fmt.Sprintf(`{"key":%q,"value":%s}`, key, v))
	}
	return batch, []byte(`{"records":[` + strings.Join(records, ",") + `]}`)
}

// key is a record's key.
func (r *stored) key() string {
	var key string
	if json.Unmarshal(r.Key, &key) != nil {
		return string(r.Key)
	}
	return key
}
