package controller

import "time"

// clock tells time that never jumps: neither back nor forth when the wall clock
// is set; on Linux it also goes on while the machine sleeps (R59, F31).
type clock func() time.Duration
