package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// getConsumerRecords polls.
//
//	@ID				poll
//	@Summary		Poll
//	@Description	Waits, at most `timeout`, until the instance has partitions and one of them has records, and gives them. Its position moves when the answer was written to its end. A lost answer is had again with the same `request_id`; without one, whatever was not committed comes again to a new incarnation.
//	@Description	Accept must fit the instance's format: an instance of format json answers as application/vnd.kafka.json.v2+json, or as application/json with this broker's own records, and so on; an instance without a format answers any.
//	@Description	A log that was truncated below the position is 409 / 40905 until the instance seeks. Where retention has removed the position, auto.offset.reset decides, and Highwater-Reset tells of it.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			timeout		query	int		false	"Milliseconds to wait when nothing is there; more than 60000 counts as that. Default: the instance's consumer.request.timeout.ms"	minimum(0)	example(1000)
//	@Param			max_bytes	query	int		false	"Bytes of keys, values and headers to give at most, but at least one record; more than 16777216 counts as that"	minimum(1)	default(1048576)	example(1048576)
//	@Param			count		query	int		false	"Records to give at most"	minimum(1)	example(100)
//	@Param			request_id	query	string	false	"Makes the poll repeatable: the same id as that of the poll before gives the same records again"	minlength(1)	maxlength(128)	example(7f3a)
//	@Param			Prefer		header	string	false	"wait=N: the same as timeout, in seconds; what is no such preference is passed over"	example(wait=1)
//	@Success		200	{array}	schema.Record	"The records; none when none came in time."
//	@Success	204	"As one CloudEvent: none came in time."
//	@Header			200	{integer}	Highwater-Generation	"The group's generation in which the instance has its partitions."
//	@Header			200	{string}	Highwater-Reset			"Partitions whose position retention had removed, as topic/partition:from:to, separated by commas."
//	@Header			200	{string}	Highwater-Stale			"true: a leader has lost touch with the cluster; there may be more records than it knows of."
//	@x-media-200	{"application/json":"[Record]","application/x-ndjson":"text","application/vnd.kafka.v2+json":"[DialectRecord]","application/vnd.kafka.json.v2+json":"[DialectRecord]","application/vnd.kafka.binary.v2+json":"[DialectRecord]","application/vnd.kafka.text.v2+json":"[DialectRecord]","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-errors		[40403,40601,40905,40906,40907,41001,42201,50001,50302,50303,50306,50701]
//	@Router			/consumers/{group}/instances/{instance}/records [get]
func (a *api) getConsumerRecords(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	q, err := pollParams(r, queryParams(r, "timeout", "max_bytes", "count", "request_id"))
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return a.headRecords(w, r, name, instance, q)
	}
	return a.poll(w, r, name, group.Begin{Instance: instance, RequestID: q.requestID}, q)
}

// headRecords answers a HEAD: it begins no poll.
func (a *api) headRecords(w http.ResponseWriter, r *http.Request, name, instance string, q *pollQuery) error {
	ctx, cancel := a.groupContext(r)
	defer cancel()
	m, err := a.member(ctx, name, instance)
	if err != nil {
		return err
	}
	if err := q.represent(r, m.Options.Format); err != nil {
		return err
	}
	q.headers(w.Header())
	w.WriteHeader(http.StatusOK)
	return nil
}
