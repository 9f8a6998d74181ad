package handlers

import (
	"net/http"
	"strconv"

	"highwater/replication"
)

// flushAnswer is the size in bytes at which a part of a long answer is sent.
const flushAnswer = 256 << 10

// answerProduce says what became of the records: 200, 202 for acks=0, 207 when
// some failed, the reason's own status when all did.
func (a *api) answerProduce(w http.ResponseWriter, r *http.Request, p *produceRequest, plan *plan, results []replication.AppendResult) error {
	status := http.StatusOK
	if p.acks == replication.AcksNone {
		status = http.StatusAccepted
	}
	failures := a.explainResults(r, plan, results)
	if failures != nil {
		if one := commonFailure(failures); one != nil {
			return answered{oneReason(one, plan, results, failures)}
		}
		if allFailed(failures) {
			return answered{manyReasons(plan, results, failures)}
		}
		status = http.StatusMultiStatus
	}
	for i := range results {
		if results[i].Err == nil {
			a.metrics.produced.Add(float64(plan.parts[i].records - int32(duplicates(&results[i]))))
		}
	}
	h := w.Header()
	h["Content-Type"] = produceAnswerType(r)
	if p.topic != nil { // parse-only has none
		if url := a.commonLeader(p.topic, plan.parts); url != "" {
			h["Highwater-Leader"] = []string{url}
		}
	}
	out := append(a.buffers.get(), '{')
	started := false
	if !p.summary || failures != nil {
		out = append(out, `"offsets":[`...)
		for i := range plan.slots {
			if len(out) >= flushAnswer { // a million records must not become one buffer
				if !started {
					w.WriteHeader(status)
					started = true
				}
				if _, err := w.Write(out); err != nil {
					return err
				}
				out = out[:0]
			}
			out = appendSlot(out, i, plan, results, failures)
		}
		out = append(out, "],"...)
	}
	out = append(out, `"partitions":`...)
	out = appendPartitions(out, plan, results, failures)
	out = append(out, `,"acks":`...)
	out = strconv.AppendInt(out, int64(p.acks), 10)
	out = append(out, `,"key_schema_id":null,"value_schema_id":null}`...)
	out = append(out, '\n')
	if !started {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
		w.WriteHeader(status)
	}
	_, err := w.Write(out)
	a.buffers.put(out)
	return err
}

// Labels of a produce's answer, shared and never appended to.
var (
	labelJSON  = []string{typeJSON}
	labelKafka = []string{typeKafka}
)

// produceAnswerType labels the answer, which has one form: an append that was
// done is never refused for its Accept header. Clients of the dialect, who name
// one of its types, see that.
func produceAnswerType(r *http.Request) []string {
	if len(r.Header["Accept"]) == 0 {
		return labelJSON
	}
	switch named := dialectType(r); named {
	case typeKafka:
		return labelKafka
	case typeKafkaJSON, typeKafkaBinary, typeKafkaText:
		return []string{named}
	}
	return labelJSON
}

// explainResults is nil when all went well, else the problem of each partition
// that failed.
func (a *api) explainResults(r *http.Request, plan *plan, results []replication.AppendResult) []*problem {
	var out []*problem
	at := a.where(r)
	for i := range results {
		if results[i].Err == nil {
			continue
		}
		if out == nil {
			out = make([]*problem, len(results))
		}
		at.partition = strconv.Itoa(int(plan.parts[i].partition))
		out[i] = explain(results[i].Err, at)
		// What the partition says about the outcome is truer than the table.
		out[i].unknown = results[i].Unknown
		plan.point(int32(i), results[i].Err, out[i])
		if out[i].unknown && plan.recognised() {
			out[i].fix = "Send the same again, with the same ids and numbers, to the same partition: POST " + at.partitionURL() + rawSuffix(r) + " — what was written then is not written twice."
		}
	}
	return out
}

// commonFailure is the problem when every partition failed for one reason.
func commonFailure(failures []*problem) *problem {
	first := failures[0]
	for _, f := range failures {
		if f == nil || first == nil || f.code != first.code || f.unknown != first.unknown {
			return nil
		}
	}
	return first
}

// maxListedFates bounds the records of which an error tells one by one, about 250 bytes
// each: unlike other answers an error is put together in memory.
const maxListedFates = 10_000

// oneReason is that problem, made to tell all that is known. Which partition a record of
// unknown outcome went to is needed to send it again: ids are known to one partition
// only (D8), and the partitioner may choose another one by then.
func oneReason(first *problem, plan *plan, results []replication.AppendResult, failures []*problem) *problem {
	for _, f := range failures[1:] {
		first.faults = append(first.faults, f.faults...)
	}
	if len(failures) == 1 {
		first.members = append([]member{{"partition", int64(plan.parts[0].partition)}}, first.members...)
	}
	if first.unknown && len(plan.slots) <= maxListedFates {
		first.results = appendOffsets(nil, plan, results, failures)
		if len(failures) > 1 && plan.recognised() {
			first.fix = `Send the same again, with the same ids, each record to the partition that "offsets" names (its member "partition") — what was written then is not written twice.`
		}
	}
	return first
}

func allFailed(failures []*problem) bool {
	for _, f := range failures {
		if f == nil {
			return false
		}
	}
	return true
}

// manyReasons is the problem when all failed, for different reasons: the gravest
// gives the status, an unknown outcome being graver than any known one, and
// "offsets" tells each record's own.
func manyReasons(plan *plan, results []replication.AppendResult, failures []*problem) *problem {
	worst := *failures[0]
	for _, f := range failures[1:] {
		if f.unknown && !worst.unknown || f.unknown == worst.unknown && f.code > worst.code {
			worst = *f
		}
	}
	worst.detail += " Other partitions failed for other reasons."
	if len(plan.slots) <= maxListedFates {
		worst.results = appendOffsets(nil, plan, results, failures)
	}
	return &worst
}

// appendOffsets renders a line for each record, in the order of the request.
func appendOffsets(out []byte, plan *plan, results []replication.AppendResult, failures []*problem) []byte {
	out = append(out, '[')
	for i := range plan.slots {
		out = appendSlot(out, i, plan, results, failures)
	}
	return append(out, ']')
}

// appendSlot renders the fate of the request's i-th record.
func appendSlot(out []byte, i int, plan *plan, results []replication.AppendResult, failures []*problem) []byte {
	if i > 0 {
		out = append(out, ',')
	}
	s := plan.slots[i]
	out = append(out, `{"partition":`...)
	out = strconv.AppendInt(out, int64(plan.parts[s.part].partition), 10)
	if failures != nil && failures[s.part] != nil {
		return appendFailure(append(out, `,"offset":-1`...), failures[s.part])
	}
	res := &results[s.part]
	offset := res.BaseOffset
	switch {
	case res.Offsets != nil:
		offset = res.Offsets[s.index]
	case offset >= 0:
		offset += int64(s.index)
	}
	out = append(out, `,"offset":`...)
	out = strconv.AppendInt(out, offset, 10)
	out = append(out, `,"error_code":null,"error":null`...)
	if res.Duplicate != nil && res.Duplicate[s.index] {
		out = append(out, `,"duplicate":true`...)
	}
	return append(out, '}')
}

// appendFailure renders why a record or a partition failed, and closes its object.
func appendFailure(out []byte, f *problem) []byte {
	out = append(out, `,"error_code":`...)
	out = strconv.AppendInt(out, int64(f.code), 10)
	out = append(out, `,"error":`...)
	out = appendString(out, f.detail)
	out = append(out, `,"kafka_error":`...)
	out = appendString(out, f.kafka)
	out = append(out, `,"retriable":`...)
	out = strconv.AppendBool(out, f.retriable)
	out = append(out, `,"outcome":"`...)
	out = append(out, outcome(f.unknown)...)
	return append(out, '"', '}')
}

// appendPartitions renders a line for each partition that the request touched.
func appendPartitions(out []byte, plan *plan, results []replication.AppendResult, failures []*problem) []byte {
	out = append(out, '[')
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		res := &results[i]
		out = append(out, `{"partition":`...)
		out = strconv.AppendInt(out, int64(plan.parts[i].partition), 10)
		if failures != nil && failures[i] != nil {
			out = appendFailure(append(out, `,"base_offset":-1,"last_offset":-1`...), failures[i])
			continue
		}
		out = append(out, `,"base_offset":`...)
		out = strconv.AppendInt(out, res.BaseOffset, 10)
		out = append(out, `,"last_offset":`...)
		out = strconv.AppendInt(out, res.LastOffset, 10)
		out = append(out, `,"leader_epoch":`...)
		out = strconv.AppendInt(out, int64(res.LeaderEpoch), 10)
		out = append(out, `,"high_watermark":`...)
		out = strconv.AppendInt(out, res.HighWatermark, 10)
		out = append(out, `,"in_sync_replicas":`...)
		out = strconv.AppendInt(out, int64(res.InSyncReplicas), 10)
		out = append(out, `,"durability":"`...)
		out = append(out, res.Durability...)
		out = append(out, '"')
		if n := duplicates(res); n > 0 {
			out = append(out, `,"duplicates":`...)
			out = strconv.AppendInt(out, int64(n), 10)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}
