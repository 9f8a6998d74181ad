package controller

import "github.com/google/uuid"

// Registration is what a broker says of its data directory when it registers
// (R66, R71-R73).
type Registration struct {
	// Directory is the data directory's own id: another one is another disk.
	Directory uuid.UUID `json:"directory"`
	// PreviousEpoch is the broker epoch of the life that ended cleanly here; 0: the
	// last one did not, or there was none (R71).
	PreviousEpoch int64 `json:"previous_epoch,omitempty"`
	// Durable: whatever this broker reported of its logs was fsynced before (R72).
	Durable bool `json:"durable,omitempty"`
	// Held are the partitions, by topic id, that are on disk and have lost nothing
	// that this broker ever reported, and those that it can vouch for never having
	// had (the directory is the same and whole, and the partition is younger than
	// what the broker last made of its metadata). All others count as empty (R73).
	Held map[uuid.UUID][]int32 `json:"held,omitempty"`
}
