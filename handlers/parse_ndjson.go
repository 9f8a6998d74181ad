package handlers

import "bytes"

// parseLinesBody reads NDJSON: a native record object a line. Lines may end in
// CR LF, and blank lines are skipped. It is one pass of the same decoder; that
// each record keeps to its line is checked with a scan for line feeds.
func parseLinesBody(p *plan, body []byte) error {
	if err := checkEncoding(body); err != nil {
		return err
	}
	rp := newRecordParser(p, body)
	defer rp.release()
	rp.lines, rp.line = true, 1
	end := 0
	for {
		start := end
		for start < len(body) && isJSONSpace(body[start]) {
			start++
		}
		lineFeeds := bytes.Count(body[end:start], []byte{'\n'})
		rp.line += lineFeeds
		if start == len(body) {
			return rp.verdict()
		}
		if rp.count > 0 && lineFeeds == 0 {
			err := malformed("Line %d holds more than one record. Nothing was written.", rp.line)
			err.fix = "Put each record on a line of its own. With curl: --data-binary, as -d @file takes the line breaks out."
			return err
		}
		if err := rp.record(); err != nil {
			return err
		}
		end = int(rp.dec.InputOffset())
		if bytes.IndexByte(body[start:end], '\n') >= 0 {
			return malformed("Line %d: a record must stand on one line. Nothing was written.", rp.line)
		}
	}
}
