package handlers

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// A poll's time is what its query says of it, and counts from its arrival.
func TestPollTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, prefer string
		want                 time.Duration
		ok                   bool
	}{
		{"GET", "/consumers/g/records?timeout=250", "", 250*time.Millisecond + pollGrace, true},
		{"GET", "/consumers/g/instances/i/records/?timeout=0", "", pollGrace, true},
		{"GET", "/consumers/g/instances/i/records", "", defaultRequestTimeout + pollGrace, true},
		{"GET", "/consumers/g/instances/i/records", "wait=3", 3*time.Second + pollGrace, true},
		{"GET", "/consumers/g/records?timeout=99999999999999999999", "", maxWait + pollGrace, true},
		{"GET", "/consumers/g/offsets", "", 0, false},
		{"GET", "/topics/t/records?timeout=5", "", 0, false},
		{"POST", "/consumers/g/records", "", 0, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.prefer != "" {
			r.Header.Set("Prefer", c.prefer)
		}
		if got, ok := PollTime(r); got != c.want || ok != c.ok {
			t.Errorf("%s %s: %v %v, want %v %v", c.method, c.path, got, ok, c.want, c.ok)
		}
	}
	came := time.Unix(1_700_000_000, 0)
	r := httptest.NewRequest("GET", "/consumers/g/records", nil)
	if got := arrival(r.WithContext(Arrived(r.Context(), came))); !got.Equal(came) {
		t.Errorf("it came at %v", got)
	}
}

// What is committed is told for a whole topic too, and without naming anything.
func TestCommittedOfATopic(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.topic("other", 1)
	b.stock("t", 1, 3)
	path := b.subscriber("g", `{"name":"c1"}`, "t")
	b.pollUntil(path, 3)
	b.post(path+"/offsets", nil).want(204)
	for query, want := range map[string]bool{"": true, "?topic=t": true, "?topic=t&partition=1": true, "?topic=t&partition=0": false, "?topic=other": false} {
		var got struct {
			Offsets []committedView `json:"offsets"`
		}
		b.get(path + "/offsets" + query).want(200).into(&got)
		if told := slices.ContainsFunc(got.Offsets, func(o committedView) bool { return o.Topic == "t" && o.Partition == 1 && o.Offset == 3 }); told != want {
			t.Errorf("%q: %+v", query, got.Offsets)
		}
	}
}
