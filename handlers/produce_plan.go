package handlers

import (
	"fmt"
	"strconv"

	"highwater/replication"
	"highwater/storage"
)

const (
	// maxBatchBytes and maxBatchRecords close a batch and open the next: a fetch
	// decodes whole batches, so they must not be much larger than an answer.
	maxBatchBytes   = 256 << 10
	maxBatchRecords = 10_000
)

// plan is what one request will append: a list of batches for each partition it
// touches. Nothing of it is visible before the whole request is found good.
type plan struct {
	produceRules
	pools *pools
	parts []partPlan
	// place maps a partition to its index in parts plus one.
	place []int32
	slots []slot // one a record, in request order
	count int    // records so far, good or not
	// unnamed counts the records without a message id.
	unnamed int
	faults  []fault
	// beyond is the largest partition that a record named in vain, 0: none did.
	beyond int32
	// faultCount counts all, faults keeps the first maxShownFaults.
	faultCount int
	left       int // bytes of the body that are not in a sealed batch yet, about
	share      int // of left that a partition's next batch may expect, in 1/share
	// whole: the request has a producer, and is one batch.
	whole bool
	// hashing: this pass only hashes the records of an Idempotency-Key's request.
	hashing bool
	hash    requestHash
}

// slot is where a record of the request went.
type slot struct {
	part  int32 // index in plan.parts
	index int32 // among the request's records for that partition
}

type partPlan struct {
	partition int32
	builder   storage.BatchBuilder
	batches   []storage.Batch
	facts     []*storage.Facts // of the batches
	records   int32
}

// newPlan is an empty plan for a body of about that many bytes.
func (ps *pools) newPlan(rules *produceRules, bodyBytes int) *plan {
	p := borrow[plan](&ps.plans)
	p.produceRules, p.pools = *rules, ps
	if cap(p.place) < int(rules.partitions) {
		p.place = make([]int32, rules.partitions)
	}
	p.place = p.place[:rules.partitions]
	p.left, p.share, p.beyond = bodyBytes, 1, 0
	p.whole, p.hashing, p.hash.begun = rules.producer != nil, false, false
	if rules.fixed == anyPartition {
		p.share = int(rules.partitions)
	}
	return p
}

// maxPooledSlots bounds what a pooled plan keeps of a huge request.
const maxPooledSlots = 1 << 16

// release gives the plan back. Its batches belong to the log by now.
func (p *plan) release() {
	p.rewind(0)
	if cap(p.slots) > maxPooledSlots {
		p.slots = nil
	}
	p.pools.plans.Put(p)
}

// rewind forgets all records, for another pass over the body.
func (p *plan) rewind(bodyBytes int) {
	for i := range p.parts {
		p.place[p.parts[i].partition] = 0
		p.parts[i] = partPlan{}
	}
	p.parts, p.slots = p.parts[:0], p.slots[:0]
	p.count, p.unnamed, p.faults, p.faultCount, p.left = 0, 0, nil, 0, bodyBytes
}

// room is a buffer for a partition's next batch: a record takes about as much in
// a batch as in JSON, and a batch that doesn't grow leaves no garbage.
func (p *plan) room() []byte {
	return make([]byte, 0, min(max(p.left, 0)/p.share, maxBatchBytes)+storage.BatchHeaderSize+maxRecordOverhead)
}

// maxRecordOverhead is what a record takes in a batch besides its key, value and
// headers, but for the lengths of many headers.
const maxRecordOverhead = 64

// add appends rec to a partition's batches. marked: it has a message id, so its batch
// must tell the time of its append.
func (p *plan) add(partition int32, rec *storage.Record, marked bool) error {
	i := p.place[partition] - 1
	if i < 0 {
		i = int32(len(p.parts))
		p.place[partition] = i + 1
		p.parts = append(p.parts, partPlan{partition: partition, builder: *storage.NewBatchBuilder(p.room())})
	}
	part := &p.parts[i]
	if part.full(rec, marked) && !p.whole {
		p.left -= part.builder.Size()
		if err := part.seal(p.compression, nil); err != nil {
			return err
		}
		part.builder = *storage.NewBatchBuilder(p.room())
	}
	if part.builder.Len() == 0 && (marked || p.whole) {
		part.builder.AppendTime = p.now
		part.builder.KeepFacts = p.leads != nil && p.leads(partition)
	}
	part.builder.Append(rec)
	if !marked {
		p.unnamed++
	}
	p.slots = append(p.slots, slot{part: i, index: part.records})
	part.records++
	return nil
}

// full tells that rec must begin another batch.
func (part *partPlan) full(rec *storage.Record, marked bool) bool {
	n := part.builder.Len()
	return n > 0 && (part.builder.Size()+recordBytes(rec)+maxRecordOverhead > maxBatchBytes || n >= maxBatchRecords || marked && part.builder.AppendTime == 0)
}

func (part *partPlan) seal(c storage.Compression, producer *storage.Producer) error {
	b, err := part.builder.Seal(c, producer)
	if err != nil {
		return err
	}
	part.batches, part.facts = append(part.batches, b), append(part.facts, part.builder.Facts())
	return nil
}

// requests seals what is open and returns what to append.
func (p *plan) requests(expected *int64) ([]replication.AppendRequest, error) {
	out := make([]replication.AppendRequest, len(p.parts))
	for i := range p.parts {
		part := &p.parts[i]
		if err := part.seal(p.compression, p.producer); err != nil {
			return nil, err
		}
		out[i] = replication.AppendRequest{Topic: p.topic, Partition: part.partition, Batches: part.batches, Facts: part.facts, ExpectedOffset: expected}
	}
	return out, nil
}

// faultf notes what is wrong with record i; member is "" or as in "/value". What
// nobody will be shown is only counted: a bad body may hold millions of faults.
func (p *plan) faultf(c code, i int, member, format string, args ...any) {
	if len(p.faults) >= maxShownFaults {
		p.faultCount++
		return
	}
	p.note(fault{pointer: "/records/" + strconv.Itoa(i) + member, detail: fmt.Sprintf(format, args...), code: c})
}

func (p *plan) note(f fault) {
	p.faultCount++
	if len(p.faults) < maxShownFaults {
		p.faults = append(p.faults, f)
	}
}

// verdict is nil when every record is good, else the refusal of the request. Its
// code is the faults' own when they share one, 40001 when one is malformed, else
// 42201: nothing was written in any case.
func (p *plan) verdict() error {
	if p.faultCount == 0 {
		if p.count == 0 {
			return unprocessable("The request holds no record.")
		}
		return nil
	}
	first := p.faults[0]
	c := first.code
	for _, f := range p.faults {
		if f.code == codeMalformed {
			c = codeMalformed
			break
		}
		if f.code != c {
			c = codeUnprocessable
		}
	}
	detail := first.pointer + ": " + first.detail
	if n := p.faultCount - 1; n > 0 {
		detail += fmt.Sprintf(" (and %d more)", n)
	}
	return &requestError{code: c, detail: detail, faults: p.faults}
}
