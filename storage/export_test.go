package storage

// Lossy tells that the log may have lost something.
func (l *Log) Lossy() bool { return l.whyLossy() != "" }
