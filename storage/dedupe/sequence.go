package dedupe

import (
	"errors"
	"fmt"
)

const (
	// maxSequence is the last sequence number before 0 comes again (KIP-98).
	maxSequence = 1<<31 - 1
	// maxBehind is how far behind the next expected sequence number one can be and still be told
	// from one that is ahead: half of the numbers.
	maxBehind = 1 << 30
)

// ErrUnknownProducer: nothing is known of the producer (it never wrote here, or
// not for too long), and its sequence numbers don't begin at 0 (I7, strict).
var ErrUnknownProducer = errors.New("dedupe: unknown producer")

// GapError: the batch doesn't follow the producer's last one (I3).
type GapError struct {
	Expected int32 // the sequence number that comes next
}

func (e *GapError) Error() string { return fmt.Sprintf("dedupe: sequence %d is expected", e.Expected) }

// FencedError: a newer epoch of the producer has written (I3).
type FencedError struct {
	Current int16
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("dedupe: producer has epoch %d by now", e.Current)
}

// Verdict on a batch that may be appended or was already. The zero value: it is new.
type Verdict struct {
	Duplicate bool
	// Base and Next are the offsets of the batch that it repeats: its first, and behind its
	// last. Base is -1 if it was written before the producer's last five: then its offset isn't
	// known any more.
	Base, Next int64
}

// addSequence is the sequence number n after s.
func addSequence(s, n int32) int32 { return int32((uint32(s) + uint32(n)) & maxSequence) }

// behind is how many numbers after from to comes, counting over the wrap.
func behind(from, to int32) int32 { return int32((uint32(to) - uint32(from)) & maxSequence) }

// check judges a batch. p is nil if nothing is known.
func (p *producer) check(b Producer) (Verdict, error) {
	switch {
	case p == nil && b.Sequence != 0:
		return Verdict{}, ErrUnknownProducer
	case p == nil:
		return Verdict{}, nil
	case b.Epoch < p.epoch:
		return Verdict{}, &FencedError{Current: p.epoch}
	case b.Epoch > p.epoch && b.Sequence != 0:
		return Verdict{}, &GapError{Expected: 0}
	case b.Epoch > p.epoch:
		return Verdict{}, nil
	}
	last := addSequence(b.Sequence, max(b.Count, 1)-1)
	for _, s := range p.batches[:p.n] {
		if s.first == b.Sequence && s.last == last {
			return Verdict{Duplicate: true, Base: s.base, Next: s.next}, nil
		}
	}
	expected := addSequence(p.newest().last, 1)
	if b.Sequence == expected {
		return Verdict{}, nil
	}
	// Older than the retained ones? It has to be one that this epoch has had, as a whole.
	oldest := p.batches[0].first
	if back := behind(b.Sequence, oldest); back > 0 && uint32(back) <= p.before && b.Count <= back {
		return Verdict{Duplicate: true, Base: -1, Next: -1}, nil
	}
	return Verdict{}, &GapError{Expected: expected}
}
