package handlers

import (
	"fmt"
	"net/http"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// partitionText names the partition that an error is about, as far as at knows it.
func (p place) partitionText() string {
	if p.topic == "" || p.partition == "" {
		return "the partition"
	}
	return p.topic + "-" + p.partition
}

// partitionURL is where that partition is.
func (p place) partitionURL() string {
	partition := p.partition
	if partition == "" {
		partition = "{partition}"
	}
	return p.topicURL("") + "/partitions/" + partition
}

func sayReused(e *storage.MessageReusedError, at place) *problem {
	if e.Offset < 0 {
		return newProblem(codeMessageReused, "The message id "+shown(e.ID)+" stands in this request twice, with different content. Nothing of it was written to "+at.partitionText()+".",
			"Give each message an id of its own.")
	}
	detail, one := fmt.Sprintf("The message id %s belongs to the record at offset %d of %s, which is another message. Nothing of this request was written to that partition.", shown(e.ID), e.Offset, at.partitionText()), "message an id"
	if at.keyed {
		detail, one = fmt.Sprintf("The Idempotency-Key came with another body before: the message id %s that it gives belongs to the record at offset %d of %s. Nothing of this request was written to that partition.", shown(e.ID), e.Offset, at.partitionText()), "request a key"
	}
	p := newProblem(codeMessageReused, detail,
		fmt.Sprintf("Compare, if it is still there: curl '%s/records?offset=%d&count=1' — then give the new %s of its own, or send the first one again as it was.", at.partitionURL(), e.Offset, one))
	p.members = []member{{"first_offset", e.Offset}}
	return p
}

func sayGap(e *storage.SequenceGapError, at place) *problem {
	p := newProblem(codeSequenceGap, fmt.Sprintf("Producer %d in epoch %d sent a batch that begins with sequence number %d to %s, where %d is expected. Nothing was written.", e.ProducerID, e.Epoch, e.Got, at.partitionText(), e.Expected),
		fmt.Sprintf("Send what comes next, with base_sequence %d. A batch that is sent again must have the base_sequence and the number of records that it had.", e.Expected))
	p.members = []member{{"expected_sequence", int64(e.Expected)}}
	return p
}

func sayUnknownProducer(e *storage.UnknownProducerError, at place) *problem {
	p := newProblem(codeSequenceGap, fmt.Sprintf("Producer %d is not known to %s: it has written nothing to that partition yet, was never given out in that epoch, or has been silent for too long. Whether its batch was written before can't be told; now nothing was written.", e.ProducerID, at.partitionText()),
		"Sequence numbers are counted for each partition: begin there with base_sequence 0. One that was silent for too long does so with a new producer id: curl -X POST "+at.base+"/producers — for a batch whose outcome you don't know, look first: curl '"+at.partitionURL()+"/records?offset=-10'")
	p.kafka = "UNKNOWN_PRODUCER_ID"
	p.members = []member{{"expected_sequence", 0}}
	return p
}

func sayProducerFenced(e *storage.ProducerFencedError, at place) *problem {
	p := newProblem(codeProducerFenced, fmt.Sprintf("Producer %d is fenced in epoch %d: another has taken over in epoch %d. Nothing was written.", e.ProducerID, e.Epoch, e.Current),
		"Stop this producer, if the other one is to go on. Else take over again: POST "+at.base+"/producers with its transactional_id, and begin with base_sequence 0.")
	p.members = []member{{"current_epoch", int64(e.Current)}}
	return p
}

func sayTooManyProducers(e *controller.TooManyProducersError, _ place) *problem {
	return newProblem(codeQuota, fmt.Sprintf("The cluster remembers %d transactional ids, and takes no more.", e.Limit),
		"Use one of those you have again: one for each worker, not one for each run. A producer without a transactional_id needs no room.")
}

// sayUnknownProposal is for a change to the metadata of which nobody knows whether it
// was made.
func sayUnknownProposal(at place) *problem {
	fix := "Look first: curl " + at.base + "/topics"
	if at.method == http.MethodPost && at.producers {
		fix = "Send the same request again: a producer id that nobody heard of is lost, and does no harm."
	}
	p := newProblem(codeTimedOut, "The change to the metadata did not come through in time. It may have been made, or may yet be.", fix)
	p.unknown = true
	return p
}

func sayUnknownMessage(e *replication.UnknownMessageError, at place) *problem {
	p := newProblem(codeNotFound, "No record of topic "+shown(e.Topic)+" is known by the message id "+shown(e.ID)+": it was never written, or so long ago that the id is forgotten.",
		"If you sent it within the window, send it again with the same id: it is not stored twice. How long an id is known is under dedupe here: curl "+at.topicURL(e.Topic))
	if e.Offset >= 0 {
		p.detail = fmt.Sprintf("The record with the message id %s was at offset %d of %s-%d, and is no longer kept.", shown(e.ID), e.Offset, e.Topic, e.Partition)
		p.fix = fmt.Sprintf("It arrived; there is nothing to send. See what is kept: curl %s/partitions/%d/offsets", at.topicURL(e.Topic), e.Partition)
		p.members = []member{{"partition", int64(e.Partition)}, {"first_offset", e.Offset}}
	}
	return p
}
