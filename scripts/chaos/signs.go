package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// logLine is what the run reads of a broker's log line.
type logLine struct {
	Level       string `json:"level"`
	Message     string `json:"message"`
	Role        string `json:"role"`
	Was         string `json:"was"`
	Reason      string `json:"reason"`
	LeaderEpoch int32  `json:"leader_epoch"`
	From        any    `json:"from"`
	To          any    `json:"to"`
	ISR         []int  `json:"isr"`
	Fenced      bool   `json:"fenced"`
	Draining    bool   `json:"draining"`
	Valid       *bool  `json:"valid"`
	Isolated    bool   `json:"isolated"`
	Error       string `json:"error"`
	raw         string // of what is no JSON, such as a panic
}

// size of a list of brokers.
func size(v any) int {
	list, _ := v.([]any)
	return len(list)
}

// sign is how a rare event shows in the log. Log lines outlive the process,
// counters don't.
type sign struct {
	what              string
	is                func(l *logLine) bool
	needed, forbidden bool
}

func says(message string) func(*logLine) bool {
	return func(l *logLine) bool { return l.Message == message }
}

// signs of the rare events.
func signs() []sign {
	return []sign{
		{what: "elections of partition leaders after the first", is: func(l *logLine) bool { return l.Message == "role" && l.Role == "leader" && l.LeaderEpoch > 0 }, needed: true},
		{what: "leaders elected with fewer in sync than min (the last of ISR or ELR)", is: func(l *logLine) bool {
			return l.Message == "role" && l.Role == "leader" && l.LeaderEpoch > 0 && len(l.ISR) == 1
		}},
		{what: "ISR shrinks", is: func(l *logLine) bool { return l.Message == "ISR change" && size(l.To) < size(l.From) }, needed: true},
		{what: "ISR expands", is: func(l *logLine) bool { return l.Message == "ISR change" && size(l.To) > size(l.From) }, needed: true},
		{what: "truncations of a log that differed from its leader's", is: says("log truncated: it differed from the leader's")},
		{what: "truncations below the replica's own high watermark", is: func(l *logLine) bool {
			return l.Message == "log truncated: it differed from the leader's" && l.Level == "error"
		}, forbidden: true},
		{what: "logs begun anew behind the leader's start", is: says("log begins anew: the leader's begins behind its end")},
		{what: "brokers fenced", is: func(l *logLine) bool { return l.Message == "broker state" && l.Fenced }},
		{what: "controller elections", is: says("this broker leads the quorum")},
		{what: "leaders of the quorum that lost it", is: says("this broker leads the quorum no more")},
		{what: "sessions lost by their broker's own clock", is: func(l *logLine) bool {
			return l.Message == "session with the controller" && l.Valid != nil && !*l.Valid
		}},
		{what: "leaders that found themselves alone", is: func(l *logLine) bool {
			return l.Message == "leader cannot reach the controller or the in-sync replicas" && l.Isolated
		}},
		{what: "stale leaders that learned of a newer one", is: says("stopped leading: there is a newer leader")},
		{what: "hand-overs at shutdown", is: says("handed over")},
		{what: "logs that may be incomplete", is: says("log may be incomplete")},
		{what: "torn ends cut off", is: says("cut off the torn end of the log")},
		{what: "damaged segments", is: says("segment is damaged")},
		{what: "disk faults made", is: says("disk fault made")},
		{what: "members that came back without their data", is: says("a broker is back without its metadata: its old member leaves the quorum")},
		{what: "quorum members reset from a snapshot", is: says("the quorum's log and this member's had parted; it goes on from the leader's snapshot")},
		{what: "panics", is: func(l *logLine) bool {
			return strings.Contains(l.Message, "panicked") || strings.HasPrefix(l.raw, "panic:") || strings.HasPrefix(l.raw, "fatal error:")
		}, forbidden: true},
	}
}

// eachLine reads all logs, but for the lines of requests.
func eachLine(pattern string, do func(l *logLine)) {
	files, _ := filepath.Glob(pattern)
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		scan := bufio.NewScanner(f)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			if bytes.Contains(scan.Bytes(), []byte(`request"`)) && bytes.HasSuffix(scan.Bytes(), []byte(`request"}`)) {
				continue
			}
			l := &logLine{}
			if json.Unmarshal(scan.Bytes(), l) != nil {
				l = &logLine{raw: scan.Text()}
			}
			do(l)
		}
		_ = f.Close()
	}
}

// readSigns counts the signs in the brokers' logs.
func readSigns(pattern string) map[string]int {
	found := map[string]int{}
	all := signs()
	eachLine(pattern, func(l *logLine) {
		for _, s := range all {
			if s.is(l) {
				found[s.what]++
			}
		}
	})
	return found
}

// addresses differ from line to line, and tell nothing.
var addresses = regexp.MustCompile(`(http://)?127\.0\.0\.1:\d+|/[^ ]+/node-\d+`)

// trouble counts lines at level error by their message.
func trouble(pattern string) []count {
	found := map[string]int{}
	eachLine(pattern, func(l *logLine) {
		switch {
		case l.raw != "":
			found["no JSON: "+l.raw[:min(len(l.raw), 120)]]++
		case l.Level == "error" || l.Level == "fatal" || l.Level == "panic":
			text := addresses.ReplaceAllString(l.Error, "…")
			found[l.Message+": "+text[:min(len(text), 160)]]++
		}
	})
	list := sorted(found)
	return list[:min(len(list), 30)]
}
