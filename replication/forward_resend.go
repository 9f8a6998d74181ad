package replication

import (
	"errors"
	"time"

	"highwater/storage"
)

// An append whose answer was lost with its leader may be in the log or not. Where the
// log recognises each of its records, by its message id or its producer's sequence
// number, it can be sent once more, to whoever leads now: what is there is told as a
// duplicate, what isn't is appended. So the client gets a true answer instead of none.

const (
	// resendWindow is how long, at least, a topic must remember message ids for that,
	// and resendCount how many. What was lost was lost within the request's time, so
	// these are beyond it by far: clocks of two leaders may differ by minutes, and other
	// records come in between.
	resendWindow = 10 * time.Minute
	resendCount  = 100_000
)

// losses are the parts of an append that an earlier try may have brought into the log.
type losses map[int]error

// again tells whether a part is to be tried once more. At the end, what can't be known
// any more is said to be unknown, whatever the last try came to.
func (f *forwarded) again(i int, unsure time.Time) bool {
	res := &f.results[i]
	if res.Err == nil {
		return false
	}
	misdirected, isUnsure := isMisdirected(res.Err), isUnsure(res.Err)
	if lost := f.lost[i]; lost != nil {
		if isVerdict(res.Err) {
			// Reused ids: the records of the earlier try were refused as well. A producer may
			// have been fenced since by what was written after them.
			res.Unknown = errors.As(res.Err, new(*storage.ProducerFencedError))
			return false
		}
		again := misdirected || isUnsure || res.Unknown && mayResend(res.Err)
		res.Err, res.Unknown = lost, true
		return again
	}
	if !res.Unknown {
		return misdirected || isUnsure && time.Now().Before(unsure)
	}
	if f.acks == AcksNone || !mayResend(res.Err) || !f.recognised(i) {
		return false
	}
	if f.lost == nil {
		f.lost = losses{}
	}
	f.lost[i] = res.Err
	return true
}

// mayResend tells whether another leader may know more of what became of an append.
func mayResend(err error) bool {
	var lost *LeaderLostError
	var failed *storage.FailedError
	return errors.As(err, &lost) || errors.As(err, &failed) || isUnsure(err)
}

// isVerdict tells whether a leader refused records because of what it knows of their
// ids or producer.
func isVerdict(err error) bool {
	var reused *storage.MessageReusedError
	var fenced *storage.ProducerFencedError
	return errors.As(err, &reused) || errors.As(err, &fenced)
}

// recognised tells whether the log certainly knows each record of a part again.
func (f *forwarded) recognised(i int) bool {
	t, err := f.b.Topic(f.reqs[i].Topic)
	if err != nil {
		return false
	}
	c := logConfig(t.Config(f.b.configDefaults))
	ids := (c.DedupeAge < 0 || c.DedupeAge >= resendWindow) && (c.DedupeCount < 0 || c.DedupeCount >= resendCount)
	for _, batch := range f.reqs[i].Batches {
		if !batch.Marked() || batch.ProducerID() == storage.NoProducer && !(ids && allHaveIDs(batch)) {
			return false
		}
	}
	return true
}

// allHaveIDs tells whether each record of a batch carries a message id.
func allHaveIDs(batch storage.Batch) bool {
	it, err := batch.Records()
	if err != nil {
		return false
	}
	var rec storage.Record
	for it.Next(&rec) {
		if messageID(&rec) == nil {
			return false
		}
	}
	return it.Err() == nil
}

// messageID is the record's message id, nil if it has none.
func messageID(rec *storage.Record) []byte {
	for i := range rec.Headers {
		if string(rec.Headers[i].Key) == storage.MessageIDHeader {
			return rec.Headers[i].Value
		}
	}
	return nil
}
