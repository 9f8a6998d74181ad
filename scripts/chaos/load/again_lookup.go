package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"chaos/history"
)

// look asks for a message of the client's own, or for one that nobody sent.
func (s *stormer) look() {
	if s.rnd.IntN(10) == 0 {
		t := s.fleet.cfg.Again[s.rnd.IntN(len(s.fleet.cfg.Again))]
		s.number++
		s.lookup(s.broker(), t, fmt.Sprintf("%s.never%d", s.name, s.number))
		return
	}
	p := s.pick()
	s.lookup(s.broker(), p.topic, p.messages[s.rnd.IntN(len(p.messages))].id)
}

// lookup asks a broker for the message of that id, and takes it down.
func (c *client) lookup(broker int, t *Topic, id string) *history.Lookup {
	l := &history.Lookup{ID: c.rec.NextID(), Client: c.name, Topic: t.ID, Message: id, Broker: broker, Call: c.rec.Now(), Outcome: history.Failed, Partition: -1, Offset: -1}
	a := c.do(broker, "GET", "/topics/"+t.Name+"/messages/"+url.PathEscape(id)+"?timeout=2000", "", nil, readWithin)
	l.Return, l.Status = c.rec.Now(), a.status
	var found struct {
		consumed
		Partition *int   `json:"partition"`
		ID        string `json:"id"`
	}
	p := a.problem()
	switch {
	case a.err != nil:
		l.Error, l.NoAnswer = a.err.Error(), a.noAnswer()
	case a.status == http.StatusOK:
		if err := json.Unmarshal(a.body, &found); err != nil || found.Offset == nil || found.Partition == nil || found.ID != id {
			l.Error = fmt.Sprintf("not the message %q (%v): %.300s", id, err, a.body)
			break
		}
		l.Outcome, l.Partition, l.Offset, l.Value = history.OK, *found.Partition, *found.Offset, Name(found.value())
	case a.status == http.StatusNotFound && p.Code == 40404:
		l.Outcome, l.Code, l.Error = history.NotWritten, p.Code, p.Detail
	default:
		l.Code, l.Error = p.Code, p.Detail
	}
	c.rec.Lookup(l)
	return l
}
