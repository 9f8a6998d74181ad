package handlers

import (
	"fmt"
	"net/http"
	"strings"
)

// closedMaxAge is how long a private cache may reuse an answer whose records
// can't change, in seconds. It is short because the URL names the topic, which
// may be deleted and made anew; the ETag names the topic's id.
const closedMaxAge = 60

// etag is strong: it names everything that the bytes of the answer follow from.
// The leader epoch of the last record is in it for the case that an unclean
// election replaces records.
func (rd *reader) etag(offset int64, q *readQuery) string {
	c := &rd.cursors[0]
	tag := q.format.tag()
	if q.media == typeOctets {
		tag = "raw"
	} else if q.frame == frameLines {
		tag += "-lines"
	} else if q.frame == frameOne {
		tag += "-one"
	}
	return fmt.Sprintf(`"%s-%d-%d-%d-%d-%s"`, rd.id, c.partition, offset, c.next, c.epoch, tag)
}

// notModified gives the answer its ETag and reports whether the client has these
// very bytes already; then it has answered 304.
func notModified(w http.ResponseWriter, r *http.Request, etag string) bool {
	h := w.Header()
	h["Etag"] = []string{etag}
	h["Cache-Control"] = []string{fmt.Sprintf("private, max-age=%d", closedMaxAge)}
	for _, line := range r.Header["If-None-Match"] {
		for known := range strings.SplitSeq(line, ",") {
			known = strings.TrimPrefix(strings.TrimSpace(known), "W/") // the weak comparison of RFC 9110, 13.1.2
			if known == etag || known == "*" {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
		}
	}
	return false
}

// compacted says that records of the topic may go away one by one.
func (a *api) compacted(topic string) bool {
	_, config, err := a.cfg.Broker.TopicConfig(topic)
	return err == nil && config.Compact
}
