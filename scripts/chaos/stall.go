package main

import (
	"context"
	"strconv"
	"time"

	"chaos/history"
)

// A stall is told if it is this long; a look is taken every stallEvery.
const (
	stallLeast = 200 * time.Millisecond
	stallEvery = 50 * time.Millisecond
)

// stalls takes down when this process didn't get to run: the brokers on the same
// machine won't have either.
func stalls(ctx context.Context, rec *history.Recorder) {
	for ctx.Err() == nil {
		begin := time.Now()
		select {
		case <-ctx.Done():
		case <-time.After(stallEvery):
		}
		if late := time.Since(begin) - stallEvery; late >= stallLeast {
			rec.Event(history.EventStall, 0, strconv.FormatInt(late.Milliseconds(), 10))
		}
	}
}
