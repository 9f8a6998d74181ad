package handlers

import (
	"strconv"

	"highwater/storage"
)

// framing is how rendered records stand one after the other.
type framing uint8

const (
	frameArray  framing = iota // one JSON array
	frameLines                 // NDJSON: a record a line
	frameEvents                // text/event-stream: a record an event
	frameOne                   // one record, with nothing around it
)

// maxRenderedBytes stops an answer whose records grow much in rendering (a
// control character takes six bytes in JSON): the answer ends after the record
// that passes it, and the next position says where to go on.
const maxRenderedBytes = 32 << 20

// openFrame and closeFrame are what stands around the records.
func openFrame(dst []byte, frame framing) []byte {
	if frame == frameArray {
		dst = append(dst, '[')
	}
	return dst
}

func closeFrame(dst []byte, frame framing) []byte {
	if frame == frameArray {
		dst = append(dst, "]\n"...)
	}
	if frame == frameOne && len(dst) > 0 {
		dst = append(dst, '\n')
	}
	return dst
}

// renderPage appends records of p until the budget or the page is used up, or dst
// holds most bytes. position, for
// events, is the id of each: it sees the offset after the record. p.next is then
// behind the last record that was rendered; a page that was cut by the budget has
// to be read again from there.
func renderPage(dst []byte, p *page, rr *recordRenderer, b *budget, frame framing, most int, position func(dst []byte, next int64) []byte, rec *storage.Record) ([]byte, error) {
	for !b.full() && len(dst) < most {
		ok, err := p.take(rec)
		if err != nil || !ok {
			return dst, err
		}
		if !b.admit(rec) {
			p.next = rec.Offset
			return dst, nil
		}
		switch frame {
		case frameArray:
			if b.taken > 1 {
				dst = append(dst, ",\n"...)
			}
			dst = rr.append(dst, rec)
		case frameOne:
			dst = rr.append(dst, rec)
		case frameLines:
			dst = append(rr.append(dst, rec), '\n')
		case frameEvents:
			dst = append(dst, "id: "...)
			dst = position(dst, p.next)
			dst = append(dst, "\ndata: "...)
			dst = append(rr.append(dst, rec), "\n\n"...)
		}
	}
	return dst, nil
}

// appendPosition appends one partition's part of a position vector: "0:43".
func appendPosition(dst []byte, partition int32, next int64) []byte {
	dst = strconv.AppendInt(dst, int64(partition), 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, next, 10)
}
