package handlers

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Media types of the contract, section 2.
const (
	typeJSON        = "application/json"
	typeNDJSON      = "application/x-ndjson"
	typeSSE         = "text/event-stream"
	typeOctets      = "application/octet-stream"
	typeKafka       = "application/vnd.kafka.v2+json"
	typeKafkaJSON   = "application/vnd.kafka.json.v2+json"
	typeKafkaBinary = "application/vnd.kafka.binary.v2+json"
	typeKafkaText   = "application/vnd.kafka.text.v2+json"
	typeForm        = "application/x-www-form-urlencoded"
)

// contentType is the request's media type in lower case without parameters, ""
// when none is given. A charset that isn't UTF-8, several lines and what is no
// media type are 41501.
func contentType(r *http.Request) (string, error) {
	lines := r.Header["Content-Type"]
	switch {
	case len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", unsupportedType("The request has several Content-Type lines.")
	case lines[0] == typeJSON: // the common case needs no parser
		return typeJSON, nil
	case lines[0] == "", lines[0] == "*/*": // as good as none
		return "", nil
	}
	name, parameters, err := mime.ParseMediaType(lines[0])
	if err != nil || !strings.Contains(name, "/") {
		return "", unsupportedType("The Content-Type " + shown(lines[0]) + " is no media type.")
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return "", unsupportedType("The charset " + shown(charset) + " is not read here: send UTF-8.")
	}
	return name, nil
}

func unsupportedType(detail string) *requestError {
	return &requestError{code: codeUnsupportedType, detail: detail}
}

// notAcceptable is the answer when Accept rules out everything there is.
func notAcceptable(offers []string) *requestError {
	return &requestError{code: codeNotAcceptable, detail: "Accept allows none of the types that this resource has: " + strings.Join(offers, ", ") + ".",
		fix: "Ask for one of them with Accept, or send no Accept header."}
}

// negotiate picks one of offers, which stand in the order of preference, by the
// request's Accept header (RFC 9110, 12.5.1). No Accept, or one that holds no
// media range at all, takes the first. 40601 when none is allowed: that is the
// rule for answers which exist in several forms, and only for those; an answer
// with one form is given in it, and an error always keeps its own status.
func negotiate(r *http.Request, offers ...string) (string, error) {
	lines := r.Header["Accept"]
	if len(lines) == 0 || len(lines) == 1 && (lines[0] == "*/*" || lines[0] == "") {
		return offers[0], nil
	}
	ranges := parseAccept(lines)
	if len(ranges) == 0 {
		return offers[0], nil
	}
	best, bestQ := "", 0
	for _, offer := range offers {
		if q := quality(ranges, offer); q > bestQ {
			best, bestQ = offer, q
		}
	}
	if best == "" {
		return "", notAcceptable(offers)
	}
	return best, nil
}

// dialectType is the first type of the v2 dialect that Accept names and doesn't
// rule out, "" when there is none.
func dialectType(r *http.Request) string {
	if len(r.Header["Accept"]) == 0 {
		return ""
	}
	for _, m := range parseAccept(r.Header["Accept"]) {
		if m.q == 0 || m.kind != "application" {
			continue
		}
		switch name := m.kind + "/" + m.subtype; name {
		case typeKafka, typeKafkaJSON, typeKafkaBinary, typeKafkaText:
			return name
		}
	}
	return ""
}

// mediaRange is one element of Accept.
type mediaRange struct {
	kind, subtype string // "*" for any
	q             int    // thousandths
}

// maxAcceptRanges bounds the work that a header can ask for.
const maxAcceptRanges = 64

func parseAccept(lines []string) []mediaRange {
	var out []mediaRange
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if len(out) == maxAcceptRanges {
				return out
			}
			name, rest, _ := strings.Cut(element, ";")
			kind, subtype, ok := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "/")
			if !ok || kind == "" || subtype == "" {
				continue
			}
			q := 1000
			for p := range strings.SplitSeq(rest, ";") {
				if k, v, ok := strings.Cut(p, "="); ok && strings.EqualFold(strings.TrimSpace(k), "q") {
					q = parseQuality(strings.TrimSpace(v))
				}
			}
			out = append(out, mediaRange{kind, subtype, q})
		}
	}
	return out
}

// parseQuality is a q-value in thousandths; what is none counts as 1.
func parseQuality(text string) int {
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || q < 0 || q > 1 {
		return 1000
	}
	return int(q*1000 + 0.5)
}

// quality is what the most specific range that fits says of offer.
func quality(ranges []mediaRange, offer string) int {
	kind, subtype, _ := strings.Cut(offer, "/")
	q, specific := 0, -1
	for _, m := range ranges {
		s := -1
		switch {
		case m.kind == kind && m.subtype == subtype:
			s = 2
		case m.kind == kind && m.subtype == "*":
			s = 1
		case m.kind == "*" && m.subtype == "*":
			s = 0
		}
		if s > specific || s == specific && s >= 0 && m.q > q {
			q, specific = m.q, s
		}
	}
	return q
}
