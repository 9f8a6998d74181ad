package handlers

import (
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"highwater/storage"
)

// The members of an idempotent producer's batch, or parameters of the same names
// where the body has no room for them.
const (
	memberProducerID    = "producer_id"
	memberProducerEpoch = "producer_epoch"
	memberBaseSequence  = "base_sequence"
)

var producerParams = []string{memberProducerID, memberProducerEpoch, memberBaseSequence}

// producerFields are a producer's numbers as far as they were read.
type producerFields struct {
	given   [3]bool // in the order of producerParams
	numbers [3]int64
}

// mostProducerField bounds each.
var mostProducerField = [3]int64{math.MaxInt64, math.MaxInt16, math.MaxInt32}

// leastProducerField: ids begin at 1.
var leastProducerField = [3]int64{1, 0, 0}

// read reads the i-th from a JSON value. ok is false when it isn't one.
func (f *producerFields) read(i int, v jsontext.Value) (ok bool) {
	if v.Kind() == 'n' {
		return true
	}
	f.given[i] = true
	if v.Kind() != '0' || !onlyDigits(string(v)) {
		return false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	f.numbers[i] = n
	return err == nil && n >= leastProducerField[i] && n <= mostProducerField[i]
}

func (f *producerFields) any() bool { return f.given[0] || f.given[1] || f.given[2] }

// missing is the first that isn't there, "" when all are.
func (f *producerFields) missing() string {
	for i, given := range f.given {
		if !given {
			return producerParams[i]
		}
	}
	return ""
}

func (f *producerFields) producer() *storage.Producer {
	return &storage.Producer{ID: f.numbers[0], Epoch: int16(f.numbers[1]), BaseSequence: int32(f.numbers[2])}
}

// readProducerField reads a member beside "records".
func (rp *recordParser) readProducerField(i int, f *producerFields) error {
	v, err := rp.dec.ReadValue()
	if err != nil {
		return err
	}
	pointer := "/" + producerParams[i]
	if ok := f.read(i, v); !ok {
		rp.note(fault{pointer, "It must be a whole number from " + strconv.FormatInt(leastProducerField[i], 10) + " to " + strconv.FormatInt(mostProducerField[i], 10) + ".", codeUnprocessable})
		return nil
	}
	if f.given[i] && rp.fixed == anyPartition {
		rp.note(fault{pointer, "Sequence numbers count the records of one partition: send the batch to POST /topics/" + rp.topic + "/partitions/{partition}.", codeUnprocessable})
	}
	rp.whole = rp.whole || f.given[i] && rp.count == 0
	return nil
}

// finishProducer checks the members when the document has ended.
func (rp *recordParser) finishProducer(f *producerFields) {
	if !f.any() {
		return
	}
	if name := f.missing(); name != "" {
		rp.note(fault{"/" + name, "The member is missing: producer_id, producer_epoch and base_sequence belong together.", codeUnprocessable})
		return
	}
	if rp.faultCount == 0 {
		rp.producer = f.producer()
	}
}

// producerQuery reads the parameters, nil when there are none.
func (q *params) producerQuery(inBody bool) *storage.Producer {
	var f producerFields
	for i, name := range producerParams {
		if !q.has(name) {
			continue
		}
		f.given[i] = true
		if f.numbers[i] = q.integer(name, leastProducerField[i], leastProducerField[i], mostProducerField[i]); inBody {
			q.faultf(name, "In this content type it is a member of the body, beside records.")
		}
	}
	if !f.any() {
		return nil
	}
	if name := f.missing(); name != "" {
		q.faultf(name, "It is missing: producer_id, producer_epoch and base_sequence belong together.")
		return nil
	}
	return f.producer()
}

// checkProducer refuses a producer that was never given out.
func (a *api) checkProducer(r *http.Request, plan *plan) error {
	if plan.producer == nil {
		return nil
	}
	err := a.cfg.Broker.CheckProducer(r.Context(), plan.producer.ID, plan.producer.Epoch)
	if err != nil {
		a.cfg.Broker.CountRefused(plan.topic, err)
	}
	return err
}
