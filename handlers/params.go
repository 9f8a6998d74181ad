package handlers

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"highwater/replication"
)

// params reads a query strictly: a typo like "ack=-1" must not silently weaken a
// request. Unknown, repeated and malformed parameters are faults; err tells all
// of them. The getters return their default for what is missing or faulty, so a
// handler reads everything first and asks err once.
type params struct {
	pairs  []param
	faults []fault
}

type param struct{ name, value string }

// maxQueryBytes bounds a query; the longest sane one is a position vector of
// some thousand partitions.
const maxQueryBytes = 64 << 10

// queryParams parses r's query. known names every parameter of the resource.
func queryParams(r *http.Request, known ...string) *params {
	return parseQuery(r.URL.RawQuery, known...)
}

func parseQuery(raw string, known ...string) *params {
	q := &params{}
	switch {
	case raw == "":
		return q
	case len(raw) > maxQueryBytes:
		q.faultf("query", "The query is longer than %d bytes.", maxQueryBytes)
		return q
	case strings.Contains(raw, ";"):
		q.faultf("query", "The query holds a semicolon, which some take for a separator: separate with &, or write %%3B.")
		return q
	}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair != "" {
			q.add(pair, known)
		}
	}
	return q
}

func (q *params) add(pair string, known []string) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err != nil {
		q.faultf("query", "A parameter's name holds a malformed percent escape.")
		return
	}
	value, err := url.QueryUnescape(rawValue)
	switch {
	case !slices.Contains(known, name):
		q.faultf(name, "%s", unknownParameter(name, known))
	case err != nil:
		q.faultf(name, "The value holds a malformed percent escape.")
	case q.has(name):
		q.faultf(name, "The parameter is given more than once.")
	default:
		q.pairs = append(q.pairs, param{name, value})
	}
}

func unknownParameter(name string, known []string) string {
	if len(known) == 0 {
		return "Unknown parameter; this resource takes none."
	}
	text := "Unknown parameter."
	if near := nearest(name, known); near != "" {
		text = "Unknown parameter; did you mean " + near + "?"
	}
	sorted := slices.Sorted(slices.Values(known))
	return text + " Known here: " + strings.Join(sorted, ", ") + "."
}

// faultf notes a fault of one parameter.
func (q *params) faultf(name, format string, args ...any) {
	q.faults = append(q.faults, fault{pointer: "?" + shownBare(name), detail: fmt.Sprintf(format, args...)})
}

// err is nil, or a 40001 that lists every fault.
func (q *params) err() error {
	if len(q.faults) == 0 {
		return nil
	}
	first := q.faults[0]
	detail := "Query parameter " + first.pointer[1:] + ": " + first.detail
	if first.pointer == "?query" {
		detail = first.detail
	}
	if n := len(q.faults) - 1; n > 0 {
		detail += fmt.Sprintf(" (and %d more)", n)
	}
	return &requestError{code: codeMalformed, detail: detail, faults: q.faults}
}

func (q *params) has(name string) bool {
	_, ok := q.text(name)
	return ok
}

// text is a parameter's value and whether it was given.
func (q *params) text(name string) (string, bool) {
	for i := range q.pairs {
		if q.pairs[i].name == name {
			return q.pairs[i].value, true
		}
	}
	return "", false
}

// integer is a plain decimal number in [low, high]; outside is a fault.
func (q *params) integer(name string, def, low, high int64) int64 {
	text, ok := q.text(name)
	if !ok {
		return def
	}
	n, ok := parseInteger(text)
	if !ok || n < low || n > high {
		q.faultf(name, "%s is not a whole number from %d to %d in plain digits.", shown(text), low, high)
		return def
	}
	return n
}

// atMost is a plain decimal number of at least low; what is more than high, and
// be it more than an int64, counts as high. It is for wishes: waits and sizes.
func (q *params) atMost(name string, def, low, high int64) int64 {
	text, ok := q.text(name)
	if !ok {
		return def
	}
	if len(text) > 18 && text[0] != '0' && onlyDigits(text) {
		return high
	}
	n, ok := parseInteger(text)
	if !ok || n < low {
		unit := ""
		if strings.HasPrefix(name, "timeout") {
			unit = " of milliseconds"
		}
		q.faultf(name, "%s is not a whole number%s of at least %d in plain digits (more than %d counts as that).", shown(text), unit, low, high)
		return def
	}
	return min(n, high)
}

// milliseconds is atMost as a duration.
func (q *params) milliseconds(name string, def, low, high time.Duration) time.Duration {
	return time.Duration(q.atMost(name, def.Milliseconds(), low.Milliseconds(), high.Milliseconds())) * time.Millisecond
}

// boolean is true or false, spelled so.
func (q *params) boolean(name string) bool {
	return q.enum(name, "false", "true", "false") == "true"
}

// enum is one of the allowed values.
func (q *params) enum(name, def string, allowed ...string) string {
	text, ok := q.text(name)
	if !ok {
		return def
	}
	if !slices.Contains(allowed, text) {
		q.faultf(name, "%s is not one of: %s.", shown(text), strings.Join(allowed, ", "))
		return def
	}
	return text
}

// acks is 0, 1, -1 or all.
func (q *params) acks(def replication.Acks) replication.Acks {
	text, ok := q.text("acks")
	if !ok {
		return def
	}
	switch text {
	case "0":
		return replication.AcksNone
	case "1":
		return replication.AcksLeader
	case "-1", "all":
		return replication.AcksAll
	}
	q.faultf("acks", "%s is not one of: 0, 1, -1, all.", shown(text))
	return def
}

// MaxTimestampMs is the last millisecond of the year 9999, the largest record
// timestamp. It has an RFC 3339 form and an exact float64.
const MaxTimestampMs = 253402300799999

// timestamp is milliseconds since 1970, RFC 3339, or relative to now ("-15m",
// Go's units); nil when it is not given.
func (q *params) timestamp(name string, now time.Time) *int64 {
	text, ok := q.text(name)
	if !ok {
		return nil
	}
	ms, ok := parseTimestamp(text, now)
	if !ok {
		q.faultf(name, "%s is neither milliseconds from 0 to %d, nor RFC 3339 (2026-01-31T12:00:00Z; a + is %%2B in a query), nor a time back from now like -15m.", shown(text), int64(MaxTimestampMs))
		return nil
	}
	return &ms
}

func parseTimestamp(text string, now time.Time) (ms int64, ok bool) {
	switch {
	case text == "":
		return 0, false
	case onlyDigits(text):
		ms, ok = parseInteger(text)
	case text[0] == '-' || text[0] == '+':
		d, ok := parseAge(text)
		if !ok {
			return 0, false
		}
		return min(max(now.Add(d).UnixMilli(), 0), MaxTimestampMs), true
	default:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return 0, false
		}
		ms, ok = t.UnixMilli(), true
	}
	return ms, ok && ms >= 0 && ms <= MaxTimestampMs
}

// parseAge reads a length of time: Go's units, and whole days (-7d).
func parseAge(text string) (time.Duration, bool) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, ok := parseInteger(strings.TrimPrefix(days, "+"))
		const longest = 36500 // a century, far from overflow
		return time.Duration(n) * 24 * time.Hour, ok && n >= -longest && n <= longest
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// parseInteger reads a decimal int64 as a person writes it: digits, at most a
// minus before them; no plus, no leading zeros, no spaces.
func parseInteger(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		return 0, false
	}
	digits := strings.TrimPrefix(text, "-")
	if digits[0] == '0' && text != "0" {
		return 0, false
	}
	return n, true
}

func onlyDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// parseBase64 reads standard base64 with padding, and nothing that another text
// could stand for as well.
func parseBase64(dst, text []byte) ([]byte, bool) {
	for _, c := range text {
		if c == '\n' || c == '\r' { // the decoder would skip them
			return dst, false
		}
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(dst, text)
	return out, err == nil
}

// shownBare is a name cut to a bounded length, without quotes.
func shownBare(name string) string {
	q := shown(name)
	return strings.Trim(q, `"`)
}
