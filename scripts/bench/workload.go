package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
)

const (
	valueBytes = 200 // of a record's JSON value, as in all targets
	// distinctBodies is how many different request bodies go round, so that no
	// side profits from seeing the same bytes again and again.
	distinctBodies = 64
	workloadSeed   = 20
)

// workload makes records that look like events: a short key and a JSON object of
// valueBytes. The same seed gives the same bytes in every run.
type workload struct{ rng *rand.Rand }

func newWorkload() *workload { return &workload{rand.New(rand.NewPCG(workloadSeed, workloadSeed))} }

// value appends one JSON value of valueBytes that holds mark.
func (w *workload) value(dst []byte, mark string) []byte {
	from := len(dst)
	dst = fmt.Appendf(dst, `{"user":"u-%06d","action":"view","page":"/products/%d","amount":%d.%02d,"at":%d,"mark":%q,"note":"`,
		w.rng.IntN(1e6), w.rng.IntN(1e5), w.rng.IntN(1e3), w.rng.IntN(100), 1764424000000+w.rng.Int64N(1e9), mark)
	for len(dst)-from < valueBytes-2 {
		dst = append(dst, byte('a'+w.rng.IntN(26)))
	}
	return append(dst, `"}`...)
}

// batch is a produce body of n records.
func (w *workload) batch(n int) []byte {
	body := []byte(`{"records":[`)
	for i := range n {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"key":"user-`...)
		body = strconv.AppendInt(body, w.rng.Int64N(1e6), 10)
		body = append(body, `","value":`...)
		body = w.value(body, "")
		body = append(body, '}')
	}
	return append(body, `]}`...)
}

// post is a whole prebuilt request.
func post(target, contentType string, body []byte) []byte {
	return append(fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		target, contentType, len(body)), body...)
}

// get is a whole prebuilt request that takes any answer unless accept is given.
func get(target, accept string) []byte {
	if accept == "" {
		accept = "*/*"
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\nAccept: %s\r\n\r\n", target, accept)
}

// produceRequests are distinctBodies requests of `records` records each to target.
func produceRequests(target string, records int) func(int) []byte {
	w := newWorkload()
	requests := make([][]byte, distinctBodies)
	for i := range requests {
		requests[i] = post(target, "application/json", w.batch(records))
	}
	return func(i int) []byte { return requests[i%distinctBodies] }
}

// bareRequests are distinctBodies requests of one record each whose body is the value.
func bareRequests(target string) func(int) []byte {
	w := newWorkload()
	requests := make([][]byte, distinctBodies)
	for i := range requests {
		requests[i] = post(target, "application/json", bytes.Clone(w.value(nil, "")))
	}
	return func(i int) []byte { return requests[i%distinctBodies] }
}
