package handlers

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"highwater/handlers/cloudevents"
	"highwater/storage"
)

// recordEventType is the type of the event that stands for a record which is none.
const recordEventType = "highwater.record"

// eventRenderer renders records as CloudEvents. It serves one goroutine.
type eventRenderer struct {
	topic     string
	partition int32
	event     cloudevents.Event
}

// append appends the event that the record holds; where it holds none, one that tells
// of the record.
func (er *eventRenderer) append(dst []byte, r *storage.Record) []byte {
	ev := &er.event
	ev.Reset()
	var bare []byte
	for i := range r.Headers {
		h := &r.Headers[i]
		name, attribute := bytes.CutPrefix(h.Key, []byte(eventHeaderPrefix))
		switch {
		case attribute && h.Value != nil && string(name) != "datacontenttype":
			ev.Add(name, h.Value, false)
		case string(h.Key) == contentTypeHeader && ev.ContentType == nil:
			ev.ContentType = h.Value
		case string(h.Key) == bareHeader:
			bare = h.Value
		}
	}
	if !ev.Salvage() {
		er.standIn(r)
	} else if bare != nil {
		ev.SetBare(bare)
	}
	if r.Value != nil && r.Attributes&storage.FlagValueBinary != 0 {
		ev.Form, ev.Data = cloudevents.BinaryData, r.Value
	} else {
		ev.Recall(r.Value, func(b []byte) bool { return r.Attributes&storage.FlagValueJSON != 0 || isJSONText(b) })
	}
	return ev.AppendJSON(dst)
}

// standIn makes the event that tells of a record which is none: what the record's
// headers say is not in it, but for the content type.
func (er *eventRenderer) standIn(r *storage.Record) {
	ev, partition := &er.event, strconv.Itoa(int(er.partition))
	contentType := ev.ContentType // Salvage has left a good one
	ev.Reset()
	ev.ContentType = contentType
	add := func(name, value string) { ev.Add([]byte(name), []byte(value), false) }
	add("specversion", cloudevents.SpecVersion)
	add("id", er.topic+"-"+partition+"-"+strconv.FormatInt(r.Offset, 10))
	add("source", "/topics/"+er.topic+"/partitions/"+partition)
	add("type", recordEventType)
	if r.Timestamp >= 0 && r.Timestamp <= MaxTimestampMs {
		add("time", time.UnixMilli(r.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if cloudevents.AttributeFault([]byte("partitionkey"), r.Key) == "" {
		ev.Add([]byte("partitionkey"), r.Key, false)
	}
	if contentType != nil || r.Value == nil {
		return
	}
	switch {
	case r.Attributes&storage.FlagValueJSON != 0 || isJSONText(r.Value):
		ev.ContentType = []byte(typeJSON)
	case utf8.Valid(r.Value):
		ev.ContentType = []byte("text/plain; charset=utf-8")
	default:
		ev.ContentType = []byte(typeOctets)
	}
}
