package handlers

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"highwater/replication"
)

const (
	// maxWait bounds timeout and Prefer: wait. Longer waits are cut to it: a client
	// that asks again costs little, and proxies cut idle requests at about that age.
	maxWait = 60 * time.Second
	// maxFetchBytes bounds max_bytes: what one answer may hold in memory. More is
	// cut to it; a tail or the next page gives the rest.
	maxFetchBytes = 16 << 20
)

// readQuery is what a request to read records asks for.
type readQuery struct {
	start     start
	positions []position // merged reads: where to begin; nil: at start
	resumed   bool       // positions are those of Last-Event-ID
	wait      time.Duration
	waitAsked string // the value of Preference-Applied, "" without one
	count     int64  // 0: not given
	maxBytes  int64
	minBytes  int64
	isolation replication.Isolation
	epoch     int32 // leader_epoch, -1 when not given
	media     string
	format    recordFormat
	frame     framing
}

// Parameters of both kinds of reading, of one partition and of a whole topic.
var (
	partitionReadParams = []string{"offset", "timestamp", "timeout", "max_bytes", "count", "min_bytes", "isolation", "leader_epoch", "key_format", "value_format", "follow"}
	topicReadParams     = []string{"position", "offset", "timestamp", "timeout", "max_bytes", "count", "min_bytes", "isolation", "key_format", "value_format", "follow"}
)

func (a *api) partitionReadQuery(r *http.Request) (*readQuery, error) {
	q := queryParams(r, partitionReadParams...)
	out := a.commonReadQuery(r, q)
	out.start = q.offset("offset")
	a.startTime(q, out)
	out.epoch = int32(q.integer("leader_epoch", -1, 0, math.MaxInt32))
	return out, a.finishReadQuery(r, q, out, typeOctets)
}

func (a *api) topicReadQuery(r *http.Request) (*readQuery, error) {
	q := queryParams(r, topicReadParams...)
	out := a.commonReadQuery(r, q)
	if q.enum("offset", "earliest", "earliest", "latest") == "latest" {
		out.start = start{kind: startLatest}
	}
	a.startTime(q, out)
	if text, ok := q.text("position"); ok {
		if out.positions, ok = parsePositions(text); !ok {
			q.faultf("position", "%s is no position vector such as 0:43,1:17 (partition:next offset, each partition once).", shown(text))
		}
		if q.has("offset") || q.has("timestamp") {
			q.faultf("position", "position says where to begin; give neither offset nor timestamp with it.")
		}
	}
	return out, a.finishReadQuery(r, q, out)
}

// startTime reads timestamp, which stands in place of offset.
func (a *api) startTime(q *params, out *readQuery) {
	if ms := q.timestamp("timestamp", a.cfg.Now()); ms != nil {
		out.start = start{kind: startTimestamp, n: *ms}
		if q.has("offset") {
			q.faultf("timestamp", "timestamp and offset both say where to begin; give one of them.")
		}
	}
}

func (a *api) commonReadQuery(r *http.Request, q *params) *readQuery {
	out := &readQuery{epoch: -1}
	preferred, applied := preferredWait(r)
	out.wait = q.milliseconds("timeout", preferred, 0, maxWait)
	if !q.has("timeout") {
		out.waitAsked = applied
	}
	out.count = q.atMost("count", 0, 1, math.MaxInt32)
	out.maxBytes = q.atMost("max_bytes", readBytes, 1, maxFetchBytes)
	out.minBytes = q.atMost("min_bytes", 1, 1, maxFetchBytes)
	if q.enum("isolation", "read_committed", "read_committed", "read_uncommitted") == "read_uncommitted" {
		out.isolation = replication.ReadUncommitted
	}
	return out
}

// finishReadQuery chooses the representation and reports every fault at once.
func (a *api) finishReadQuery(r *http.Request, q *params, out *readQuery, further ...string) error {
	key, hasKey := q.payloadFormat("key_format")
	value, hasValue := q.payloadFormat("value_format")
	follow := q.boolean("follow")
	if err := q.err(); err != nil {
		return err
	}
	offers := append([]string{typeJSON, typeNDJSON, typeSSE, typeKafkaJSON, typeKafkaBinary, typeKafkaText, typeEvents, typeEvent}, further...)
	if follow {
		offers = []string{typeNDJSON, typeSSE}
	}
	media, err := negotiate(r, offers...)
	if err != nil {
		return err
	}
	out.media = media
	out.format, out.frame = nativeFormat(), frameArray
	switch media {
	case typeNDJSON:
		out.frame = frameLines
	case typeSSE:
		out.frame = frameEvents
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
	case typeOctets:
		out.count, err = oneRecord(media, out.count)
	}
	if err != nil {
		return err
	}
	if out.format.event && (hasKey || hasValue) {
		return noEventPayload()
	}
	if hasKey {
		out.format = out.format.withKey(key)
	}
	if hasValue {
		out.format = out.format.withValue(value)
	}
	if media == typeSSE || follow {
		return out.tail(r)
	}
	return nil
}

// oneRecord is the count of an answer that holds one record.
func oneRecord(media string, count int64) (int64, error) {
	if count > 1 {
		return 0, malformed("%s is for one record: count must be 1.", media)
	}
	return 1, nil
}

// noEventPayload: how keys and values stand in records can't be asked of events.
func noEventPayload() error {
	return malformed("key_format and value_format mean nothing to CloudEvents: leave them out.")
}

// tail finishes a query that follows the log: from where a former tail ended, if
// the request says so.
func (out *readQuery) tail(r *http.Request) error {
	out.wait = -1
	lines := r.Header["Last-Event-Id"]
	if out.frame != frameEvents || len(lines) == 0 || len(lines) == 1 && lines[0] == "" {
		return nil
	}
	ps, ok := parsePositions(lines[0])
	if !ok || len(lines) > 1 {
		return malformed("Last-Event-ID %s is no position vector such as 0:43,1:17.", shown(strings.Join(lines, ", ")))
	}
	out.positions, out.resumed = ps, true
	return nil
}

// follows says that the answer is a tail.
func (out *readQuery) follows() bool { return out.wait < 0 }

// budget is what one answer may hold.
func (out *readQuery) budget() budget {
	b := budget{records: math.MaxInt32, bytes: int(out.maxBytes)}
	if out.count > 0 {
		b.records = int(out.count)
	}
	return b
}

// payloadFormat is key_format or value_format.
func (q *params) payloadFormat(name string) (f payloadFormat, given bool) {
	switch q.enum(name, "", "string", "json", "binary") {
	case "string":
		return formatString, true
	case "json":
		return formatJSON, true
	case "binary":
		return formatBinary, true
	}
	return 0, false
}

// preferredWait is the wait of RFC 7240's Prefer header, in seconds there. As it
// is a preference, what can't be understood is passed over.
func preferredWait(r *http.Request) (wait time.Duration, applied string) {
	for _, line := range r.Header["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			value = strings.Trim(strings.TrimSpace(value), `"`)
			if !strings.EqualFold(strings.TrimSpace(name), "wait") || !onlyDigits(value) {
				continue
			}
			seconds, err := strconv.ParseInt(value, 10, 64)
			most := int64(maxWait / time.Second)
			if err != nil || seconds > most {
				seconds = most
			}
			return time.Duration(seconds) * time.Second, "wait=" + strconv.FormatInt(seconds, 10)
		}
	}
	return 0, ""
}
