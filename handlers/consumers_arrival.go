package handlers

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// PollTime is how long a poll of a consumer group may take in all before it is
// answered, by what it says of its timeout; false: the request is none.
func PollTime(r *http.Request) (d time.Duration, ok bool) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method != http.MethodGet || !strings.HasPrefix(path, "/consumers/") || !strings.HasSuffix(path, "/records") {
		return 0, false
	}
	wait, applied := preferredWait(r)
	if applied == "" {
		wait = defaultRequestTimeout
	}
	if text := r.URL.Query().Get("timeout"); text != "" {
		wait = maxWait
		if ms, err := strconv.ParseUint(text, 10, 31); err == nil {
			wait = min(wait, time.Duration(ms)*time.Millisecond)
		}
	}
	return wait + pollGrace, true
}

type arrivalKey struct{}

// Arrived notes when a request came that had to wait before it got to a handler: the
// time it may take counts from then.
func Arrived(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, arrivalKey{}, at)
}

// arrival is when a request came.
func arrival(r *http.Request) time.Time {
	if at, ok := r.Context().Value(arrivalKey{}).(time.Time); ok {
		return at
	}
	return time.Now()
}
