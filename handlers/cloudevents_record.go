package handlers

import (
	"fmt"

	"highwater/handlers/cloudevents"
	"highwater/storage"
)

const (
	// eventHeaderPrefix begins the record headers of attributes (Kafka binding, 3.2.3.1).
	eventHeaderPrefix = "ce_"
	// bareHeader names, separated by spaces, the attributes that are Booleans and
	// Integers. The other record headers tell only their text.
	bareHeader = "highwater.event.bare"
)

// Names of record headers for the encoder, which only reads them.
var (
	contentTypeBytes = []byte(contentTypeHeader)
	bareHeaderBytes  = []byte(bareHeader)
)

// planEvent plans the event that rp.ev holds, or notes why it can't be.
func (rp *recordParser) planEvent(e *eventRequest) error {
	faults := rp.faultCount
	for _, f := range rp.ev.Faults {
		c := codeUnprocessable
		if f.Malformed || rp.events == binaryEvent {
			c = codeMalformed
		}
		if rp.events == binaryEvent && f.Member == "datacontenttype" && !f.Malformed {
			f.Member = contentTypeHeader
		}
		rp.eventFault(c, f.Member, f.Detail)
	}
	var partition int32
	if rp.faultCount == faults {
		partition = rp.eventRecord(e)
	}
	rp.count++
	if rp.faultCount > 0 {
		return nil
	}
	return rp.add(partition, &rp.rec, true)
}

// eventRecord turns a faultless event into rp.rec, by Kafka's binding in binary mode,
// and says where it goes. The record's timestamp is not the event's time.
func (rp *recordParser) eventRecord(e *eventRequest) (partition int32) {
	ev, rec := &rp.ev, &rp.rec
	rp.scratch, rp.headers = rp.scratch[:0], rp.headers[:0]
	rec.Timestamp, rec.Key, rec.Value, rec.Attributes = e.timestamp, e.key, ev.Data, eventFlags(ev)
	if rec.Key == nil {
		rec.Key = ev.Key()
	}
	id := rp.eventID()
	if fault := idFault(id); fault != "" {
		rp.eventFault(codeUnprocessable, "id", fmt.Sprintf("source and id together are the message id, which has at most %d bytes.", maxIDBytes))
	}
	rp.eventHeaders(id)
	rec.Headers = rp.headers
	if rp.needKey && rec.Key == nil {
		rp.eventFault(codeUnprocessable, "partitionkey", "The topic is compacted (cleanup.policy): every event needs a partitionkey or a subject, which is its key.")
	}
	if size := recordBytes(rec); size > rp.maxRecordBytes {
		rp.eventFault(codeRecordTooLarge, "", tooLargeText(size, rp.maxRecordBytes))
	}
	switch {
	case rp.fixed != anyPartition:
		return rp.fixed
	case rec.Key != nil:
		return partitionForKey(rec.Key, rp.partitions)
	}
	return partitionForKey(id, rp.partitions)
}

// eventFlags are what is known of the data.
func eventFlags(ev *cloudevents.Event) storage.RecordFlag {
	switch ev.Form {
	case cloudevents.JSONData:
		if hasLineBreak(ev.Data) {
			return storage.FlagValueJSON
		}
		return storage.FlagValueJSON | storage.FlagValueOneLine
	case cloudevents.BinaryData:
		return storage.FlagValueBinary
	}
	return 0
}

func (rp *recordParser) eventID() []byte {
	start := len(rp.scratch)
	rp.scratch = rp.ev.MessageID(rp.scratch)
	return rp.scratch[start:len(rp.scratch):len(rp.scratch)]
}

// eventHeaders are the record headers of an event, in one order whatever the mode: the
// same event is the same record.
func (rp *recordParser) eventHeaders(id []byte) {
	ev, bare := &rp.ev, 0
	for i := range ev.Attributes {
		at := &ev.Attributes[i]
		rp.headers = append(rp.headers, storage.Header{Key: rp.eventHeaderName(at.Name), Value: at.Value})
		if at.Bare {
			bare++
		}
	}
	if ev.ContentType != nil {
		rp.headers = append(rp.headers, storage.Header{Key: contentTypeBytes, Value: ev.ContentType})
	}
	if bare > 0 {
		start := len(rp.scratch)
		for i := range ev.Attributes {
			if at := &ev.Attributes[i]; at.Bare {
				if len(rp.scratch) > start {
					rp.scratch = append(rp.scratch, ' ')
				}
				rp.scratch = append(rp.scratch, at.Name...)
			}
		}
		rp.headers = append(rp.headers, storage.Header{Key: bareHeaderBytes, Value: rp.scratch[start:len(rp.scratch):len(rp.scratch)]})
	}
	rp.headers = append(rp.headers, storage.Header{Key: idHeaderBytes, Value: id})
}

// eventHeaderName is the record header of an attribute.
func (rp *recordParser) eventHeaderName(name []byte) []byte {
	start := len(rp.scratch)
	rp.scratch = append(append(rp.scratch, eventHeaderPrefix...), name...)
	return rp.scratch[start:len(rp.scratch):len(rp.scratch)]
}
