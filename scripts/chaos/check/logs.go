package check

import (
	"fmt"
	"slices"

	"chaos/history"
)

// logs: all brokers answer the same log at the end, and all replicas hold the
// same bytes of it (V23), each of whole batches without gap (V27).
func (c *checker) logs(p *part) {
	if c.o.Deleted[p.key.Topic] || p.truth == nil || p.compact { // each replica compacts by itself
		return
	}
	for _, v := range p.views {
		c.dense(p, v)
		if v == p.truth {
			continue
		}
		if v.End != p.truth.End {
			c.fail("V23", "%s: %s ends at %d, %s at %d, with all faults mended", p, v.Source, v.End, p.truth.Source, p.truth.End)
		}
		c.sameRecords(p, v)
	}
	var disks []*history.View
	for _, v := range p.views {
		if v.Disk {
			c.batches(p, v)
			disks = append(disks, v)
		}
	}
	for _, v := range disks[min(1, len(disks)):] {
		c.sameBytes(p, disks[0], v)
	}
}

// dense: a view has every record from its start to its end.
func (c *checker) dense(p *part, v *history.View) {
	next := v.Start
	for _, r := range v.Records {
		if r.Offset < v.Start {
			continue // below the log start in a segment that is still there
		}
		if r.Offset != next {
			c.fail("V27", "%s: %s has offset %d where %d is due", p, v.Source, r.Offset, next)
			return
		}
		next++
	}
	if next < v.End {
		c.fail("V27", "%s: %s lacks what should be at %d to %d", p, v.Source, next, v.End)
	}
}

func (c *checker) sameRecords(p *part, v *history.View) {
	for _, r := range v.Records {
		if r.Offset < max(v.Start, p.truth.Start) || r.Offset >= p.truth.End {
			continue
		}
		if now, there := p.at[r.Offset]; !there || now != r.Value {
			c.fail("V23", "%s: offset %d is %s in %s and %q in %s", p, r.Offset, r.Value, v.Source, now, p.truth.Source)
			return
		}
	}
}

// batches of one replica: contiguous, of epochs that never go back, undamaged.
func (c *checker) batches(p *part, v *history.View) {
	for i, b := range v.Batches {
		if b.Bad != "" {
			c.fail("V27", "%s: %s holds a bad batch at %d: %s", p, v.Source, b.Base, b.Bad)
		}
		if b.Last < b.Base {
			c.fail("V27", "%s: %s holds a batch from %d to %d", p, v.Source, b.Base, b.Last)
		}
		if i == 0 {
			continue
		}
		before := v.Batches[i-1]
		if b.Base != before.Last+1 {
			c.fail("V27", "%s: %s goes on at %d after %d", p, v.Source, b.Base, before.Last)
		}
		if b.Epoch < before.Epoch {
			c.fail("V27", "%s: %s holds epoch %d at %d after epoch %d", p, v.Source, b.Epoch, b.Base, before.Epoch)
		}
	}
}

// sameBytes: where two replicas hold the same offsets they hold the same batches.
func (c *checker) sameBytes(p *part, a, b *history.View) {
	if len(a.Batches) == 0 || len(b.Batches) == 0 {
		return
	}
	from := max(a.Batches[0].Base, b.Batches[0].Base)
	i, _ := slices.BinarySearchFunc(a.Batches, from, byBase)
	j, _ := slices.BinarySearchFunc(b.Batches, from, byBase)
	for ; i < len(a.Batches) && j < len(b.Batches); i, j = i+1, j+1 {
		x, y := a.Batches[i], b.Batches[j]
		if x != y && x.Base < p.truth.End {
			c.fail("V23", "%s: %s holds %s, %s holds %s", p, a.Source, describe(x), b.Source, describe(y))
			return
		}
	}
}

func byBase(b history.Batch, offset int64) int { return int(min(max(b.Base-offset, -1), 1)) }

func describe(b history.Batch) string {
	return fmt.Sprintf("a batch of offsets %d-%d, epoch %d, sum %.8s", b.Base, b.Last, b.Epoch, b.Sum)
}
