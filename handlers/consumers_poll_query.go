package handlers

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"highwater/replication/group"
)

// pollQuery is what a poll asks for.
type pollQuery struct {
	wait      time.Duration // -1: what the instance's options say
	waitAsked string        // the value of Preference-Applied, "" without one
	count     int64         // 0: not given
	maxBytes  int64
	requestID string
	// Chosen by represent.
	media  string
	format recordFormat
	frame  framing
}

// maxPollIDBytes bounds a request_id; the coordinator remembers one a member.
const maxPollIDBytes = 128

// pollParams reads what all polls have in common. It reports every fault of q.
func pollParams(r *http.Request, q *params) (*pollQuery, error) {
	out := &pollQuery{}
	preferred, applied := preferredWait(r)
	if !q.has("timeout") {
		if out.waitAsked = applied; applied == "" {
			preferred = -1
		}
	}
	out.wait = preferred
	if q.has("timeout") {
		out.wait = q.milliseconds("timeout", 0, 0, maxWait)
	}
	out.count = q.atMost("count", 0, 1, math.MaxInt32)
	out.maxBytes = q.atMost("max_bytes", readBytes, 1, maxFetchBytes)
	id, given := q.text("request_id")
	if given && (len(id) > maxPollIDBytes || !saneRequestID(id)) {
		q.faultf("request_id", "%s is none: 1 to %d of a-z A-Z 0-9 . _ ~ - : / + = @.", shown(id), maxPollIDBytes)
	}
	out.requestID = id
	return out, q.err()
}

// represent chooses how records stand in the answer: Accept must fit the format that
// the instance was made with, "" being none.
func (out *pollQuery) represent(r *http.Request, format string) error {
	byFormat := map[string]string{formatNameJSON: typeKafkaJSON, formatNameBinary: typeKafkaBinary, formatNameText: typeKafkaText}
	offers := []string{typeJSON, typeNDJSON, typeKafkaJSON, typeKafkaBinary, typeKafkaText, typeKafka, typeEvents, typeEvent}
	own, has := byFormat[format]
	if has {
		offers = []string{own, typeKafka, typeJSON, typeNDJSON, typeEvents, typeEvent}
	}
	media, err := negotiate(r, offers...)
	if err != nil {
		if e := (*requestError)(nil); has && errors.As(err, &e) {
			e.detail = "Accept doesn't fit this instance, which was made with the format " + format + ". It answers as: " + strings.Join(slices.Delete(offers, 1, 2), ", ") + "."
			e.fix = "Ask for one of them with Accept, or make an instance with another format, or without one."
		}
		return err
	}
	out.media, out.frame, out.format = media, frameArray, nativeFormat()
	if media == typeKafka { // the dialect without a format is binary there
		if media = typeKafkaBinary; has {
			media = own
		}
	}
	switch media {
	case typeNDJSON:
		out.frame, out.format.oneLine = frameLines, true
	case typeKafkaJSON:
		out.format = vndJSONFormat()
	case typeKafkaBinary:
		out.format = vndBinaryFormat()
	case typeKafkaText:
		out.format = vndTextFormat()
	case typeEvents:
		out.format = eventFormat()
	case typeEvent:
		out.format, out.frame = eventFormat(), frameOne
		out.count, err = oneRecord(media, out.count)
	}
	return err
}

// headers are those of every answer to a poll.
func (out *pollQuery) headers(h http.Header) {
	h["Content-Type"] = []string{out.media}
	h["Cache-Control"] = []string{"no-store"}
	h["Vary"] = []string{"Accept"}
	if out.waitAsked != "" {
		h["Preference-Applied"] = []string{out.waitAsked}
	}
}

// budget is what one answer may hold.
func (out *pollQuery) budget() budget {
	b := budget{records: math.MaxInt32, bytes: int(out.maxBytes)}
	if out.count > 0 {
		b.records = int(out.count)
	}
	return b
}

// readBytes is how much to read from the logs at once.
func (out *pollQuery) readBytes(drawn int64) int {
	n := int(drawn)
	if out.count > 0 {
		n = min(n, max(minReadBytes, int(min(out.count, readBytes))*typicalRecordBytes))
	}
	return n
}

// appendReset appends to a Highwater-Reset line that a position was moved.
func appendReset(line []byte, tp *group.TopicPartition, from, to int64) []byte {
	if len(line) > 0 {
		line = append(line, ',')
	}
	line = append(line, tp.Topic...)
	line = append(line, '/')
	line = strconv.AppendInt(line, int64(tp.Partition), 10)
	line = append(line, ':')
	line = strconv.AppendInt(line, from, 10)
	line = append(line, ':')
	return strconv.AppendInt(line, to, 10)
}
