package controller

import (
	"time"

	"golang.org/x/sys/unix"
)

func newClock() clock {
	return func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			panic(err) // every kernel that Go runs on has it
		}
		return time.Duration(ts.Nano())
	}
}
