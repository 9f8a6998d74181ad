package storage

// index is the data directory's one bbolt file. It keeps, per partition, what is
// cheap to look up and can be made again from the segments: the offset and time
// index, leader epochs, flushed offset, log start, checkpointed high watermark
// and the segments' vital figures. Nothing in it is trusted blindly (S9-S12).
//
// One goroutine writes, in batched transactions; it is never on the produce path.
// Everything noted but not yet committed is kept in memory and found by look-ups.
type index struct{}

// indexEntry says that a batch with base offset Offset starts at Position of the
// segment whose base offset is Segment. It is a hint: the reader checks it
// against the segment and scans forward from it.
type indexEntry struct {
	Offset   int64
	Segment  int64
	Position int64
}

// timeEntry says that every record below Offset has a timestamp of at most MaxTimestamp ms.
type timeEntry struct {
	MaxTimestamp int64
	Offset       int64
}

// logMeta is what the index knows of one log.
type logMeta struct {
	Start         int64        // log start offset
	Flushed       int64        // recovery point: everything below is fsynced
	HighWatermark int64        // last checkpoint
	Epochs        []EpochEntry // ascending
	Segments      []segmentMeta
	Damage        []damage // ranges of offsets that are known to be unreadable
	Clean         bool     // written by a clean close of this log; cleared before its first write
}

// segmentMeta is what is worth knowing of a segment without reading it.
type segmentMeta struct {
	Base         int64
	Size         int64 // bytes
	MaxTimestamp int64 // ms, over all records
	LastAppend   int64 // ms by the broker's clock; what retention.ms counts from
}

// damage is a range of offsets [From, To) lost to corruption and where a copy of
// the bytes lies.
type damage struct {
	From, To int64
	Segment  int64
	Position int64
	Bytes    int64
	Copy     string // file name in quarantine/
}
