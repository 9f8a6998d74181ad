package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitingRequest opens a request that the broker holds, and returns when the
// request is written. The rest of its answer comes on done.
type heldAnswer struct {
	status int
	err    error // nil: the answer ended as HTTP says it must
}

func hold(t *testing.T, c *client, path, accept string) (sent <-chan struct{}, done <-chan heldAnswer) {
	t.Helper()
	wrote, answer := make(chan struct{}), make(chan heldAnswer, 1)
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) },
	}), "GET", c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	go func() {
		res, err := c.http.Do(req)
		if err != nil {
			answer <- heldAnswer{err: err}
			return
		}
		defer func() { _ = res.Body.Close() }()
		_, err = io.Copy(io.Discard, res.Body)
		answer <- heldAnswer{res.StatusCode, err}
	}()
	return wrote, answer
}

// TestH56_SigtermWithStreamsAndLongPollsOpen: streams end in order, polls are
// answered, the producer's acknowledged records are there afterwards, a second
// SIGTERM changes nothing and the exit code is 0.
func TestH56_SigtermWithStreamsAndLongPollsOpen(t *testing.T) {
	t.Parallel()
	const streams, polls, perSecond = 50, 50, 50
	dir := t.TempDir()
	b := start(t, dir)
	c := newClient(t, b.url)
	f := newFleet(t, 1, []string{"busy"}, 1, "-1")
	for _, topic := range []string{"busy", "idle"} {
		c.must(t, 201, "PUT", "/topics/"+topic, "", "")
	}
	var held []<-chan heldAnswer
	await := func(path, accept string) {
		sent, done := hold(t, c, path, accept)
		select {
		case <-sent:
		case <-time.After(patience):
			t.Fatal("request not sent: ", path)
		}
		held = append(held, done)
	}
	for range streams {
		await("/topics/idle/partitions/0/records", "text/event-stream")
	}
	for range polls {
		await("/topics/idle/partitions/0/records?timeout=60000", "application/json")
	}

	ctx, stop := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	producer.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		rnd := rand.New(rand.NewPCG(1, 1))
		for ctx.Err() == nil && f.send(c, 0, rnd) {
			<-tick.C
		}
	})
	f.await(b, 20)
	b.signal(syscall.SIGTERM)
	b.signal(syscall.SIGTERM)
	for i, done := range held {
		select {
		case answer := <-done:
			if answer.err != nil {
				t.Errorf("request %d was cut: %v", i, answer.err)
			} else if answer.status != 200 && answer.status != 503 {
				t.Errorf("request %d: status %d", i, answer.status)
			}
		case <-time.After(patience):
			t.Fatalf("request %d got no answer\n%s", i, b.output())
		}
	}
	if code := b.exit(); code != exitOK {
		t.Errorf("exit code %d\n%s", code, b.output())
	}
	stop()
	producer.Wait()

	b = start(t, dir)
	newVerifier().check(t, f, newClient(t, b.url))
	if n := f.ledger.missing(t); n < 20 {
		t.Errorf("only %d records were acknowledged", n)
	}
	b.stop()
}

// TestH57_RequestsInFlightAtShutdown: many rounds of SIGTERM under full load.
// Each request that the broker took is answered: what was answered with 200 is
// stored, what is stored was answered.
func TestH57_RequestsInFlightAtShutdown(t *testing.T) {
	t.Parallel()
	rounds := number(t, "HIGHWATER_TERM_ROUNDS", 8)
	dir := t.TempDir()
	f := newFleet(t, 16, []string{"ledger"}, 4, "-1")
	v := newVerifier()
	rnd := rand.New(rand.NewPCG(57, 0))
	b := start(t, dir)
	newClient(t, b.url).must(t, 201, "PUT", "/topics/ledger", "application/json", `{"partitions":4}`)
	for round := range rounds {
		wait := f.launch(context.Background(), b.url, uint64(round)+1)
		f.await(b, 50+rnd.IntN(200))
		b.stop()
		wait()
		b = start(t, dir)
		v.check(t, f, newClient(t, b.url))
		f.ledger.missing(t)
		if n := f.ledger.unansweredButStored(); n > 0 {
			t.Errorf("round %d: %d stored records got no answer", round, n)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d acknowledged records over %d SIGTERMs", f.ledger.missing(t), rounds)
	b.stop()
}

// TestReadyzTellsOfTheDrain: while an answer is still being awaited the port is
// open for a moment and says that the broker goes.
func TestReadyzTellsOfTheDrain(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := newClient(t, b.url)
	c.must(t, 200, "GET", "/readyz", "", "")
	b.signal(syscall.SIGTERM)
	for {
		status, body, err := c.do(t.Context(), "GET", "/readyz", "", nil)
		if err != nil { // the port is closed already
			break
		}
		if status == 503 {
			t.Logf("%s", body)
			break
		}
	}
	if code := b.exit(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// readEvents reads n lines that begin with prefix from an open stream.
func readLines(r io.Reader, prefix string, n int) ([]string, error) {
	var got []string
	lines := bufio.NewReader(r)
	for len(got) < n {
		line, err := lines.ReadString('\n')
		if err != nil {
			return got, errors.Join(err, fmt.Errorf("%d of %d lines", len(got), n))
		}
		if len(line) > len(prefix) && line[:len(prefix)] == prefix {
			got = append(got, line)
		}
	}
	return got, nil
}

// TestSigtermWhileStarting: told to stop before it serves, the broker still ends
// with exit code 0, at whatever moment the signal comes.
func TestSigtermWhileStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 10 {
		b := launch(t, dir)
		select {
		case <-b.started:
			b.stop()
		case <-b.exited:
			t.Fatalf("%v\n%s", b.err, b.output())
		}
	}
	start(t, dir).stop()
}
