//go:build !linux

package controller

import "time"

func newClock() clock {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
