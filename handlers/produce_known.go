package handlers

import (
	"errors"
	"net/http"
	"strconv"

	"highwater/replication"
	"highwater/storage"
)

// duplicates counts the records of a partition's part that were there before.
func duplicates(res *replication.AppendResult) int {
	n := 0
	for _, duplicate := range res.Duplicate {
		if duplicate {
			n++
		}
	}
	return n
}

// point has a problem name the record that it is about.
func (p *plan) point(part int32, err error, problem *problem) {
	reused := (*storage.MessageReusedError)(nil)
	if !errors.As(err, &reused) {
		return
	}
	for i, s := range p.slots {
		if s.part == part && int(s.index) == reused.Record {
			problem.faults = append(problem.faults, fault{p.idPointer(i), problem.detail, problem.code})
			return
		}
	}
}

// rawSuffix is the end of the path to which a request like this goes again.
func rawSuffix(r *http.Request) string {
	if segments := splitPath(r); segments[len(segments)-1] == "records" {
		return "/records"
	}
	return ""
}

// idPointer names record i where its message id is meant.
func (p *plan) idPointer(i int) string {
	if p.events != noEvent {
		return p.eventPointer(i, "id")
	}
	return "/records/" + strconv.Itoa(i)
}

// recognised tells that a partition which gets the records again knows each of them.
func (p *plan) recognised() bool {
	return p.producer != nil || p.dedupes && p.unnamed == 0
}
