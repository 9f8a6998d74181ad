package handlers

import (
	"net/http"
	"strings"
	"time"

	"highwater/replication/group"
)

// consume joins a group and polls, in one call.
//
//	@ID				consume
//	@Summary		Consume in one call
//	@Description	The first call of a whole consumer: joins the group as `member`, or goes on as it, subscribes, waits, and gives records from the group's committed offsets on. Until a commit the same call gives the same records, so a lost answer or a plain retry loses nothing. POST /consumers/{group}/offsets?member=… commits.
//	@Description	Members with the same group share the partitions; one that is silent for the session timeout is out.
//	@Tags			consumers
//	@Param			group			path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			member			query	string	true	"The member's name: the same one at each call, another one for each worker"	minlength(1)	maxlength(255)	example(worker-1)
//	@Param			topics			query	string	false	"Topics, separated by commas"	minlength(1)	example(orders)
//	@Param			topic_pattern	query	string	false	"Or a regular expression (RE2) that whole names match"	minlength(1)	maxlength(1000)
//	@Param			timeout			query	int		false	"Milliseconds to wait when nothing is there; more than 60000 counts as that"	minimum(0)	default(1000)	example(1000)
//	@Param			max_bytes		query	int		false	"Bytes of keys, values and headers to give at most, but at least one record; more than 16777216 counts as that"	minimum(1)	default(1048576)	example(1048576)
//	@Param			count			query	int		false	"Records to give at most"	minimum(1)	example(100)
//	@Param			request_id		query	string	false	"The same id as that of the poll before gives the very same records again"	minlength(1)	maxlength(128)	example(7f3a)
//	@Param			auto.offset.reset				query	string	false	"Where to begin without a committed offset"	Enums(earliest,latest,none)	default(earliest)	example(earliest)
//	@Param			consumer.instance.timeout.ms	query	int		false	"How long the member may be silent"	minimum(1000)	maximum(86400000)	default(300000)	example(300000)
//	@Param			isolation.level					query	string	false	"Neither ever shows a record at or above the high watermark"	Enums(read_committed,read_uncommitted)	default(read_committed)	example(read_committed)
//	@Param			Prefer			header	string	false	"wait=N: the same as timeout, in seconds; what is no such preference is passed over"	example(wait=1)
//	@Success		200	{array}	schema.Record	"The records; none when none came in time."
//	@Success	204	"As one CloudEvent: none came in time."
//	@Header			200	{integer}	Highwater-Generation	"The group's generation in which the member has its partitions."
//	@Header			200	{string}	Highwater-Reset			"Partitions whose position retention had removed, as topic/partition:from:to, separated by commas."
//	@Header			200	{string}	Highwater-Stale			"true: a leader has lost touch with the cluster; there may be more records than it knows of."
//	@x-media-200	{"application/json":"[Record]","application/x-ndjson":"text","application/vnd.kafka.v2+json":"[DialectRecord]","application/vnd.kafka.json.v2+json":"[DialectRecord]","application/vnd.kafka.binary.v2+json":"[DialectRecord]","application/vnd.kafka.text.v2+json":"[DialectRecord]","application/cloudevents+json":"CloudEvent","application/cloudevents-batch+json":"[CloudEvent]"}
//	@x-errors		[40403,40601,40903,40905,40906,40907,41001,42201,42901,50001,50302,50303,50306,50701]
//	@Router			/consumers/{group}/records [get]
func (a *api) consume(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	params := queryParams(r, "member", "topics", "topic_pattern", "timeout", "max_bytes", "count", "request_id",
		"auto.offset.reset", "consumer.instance.timeout.ms", "isolation.level")
	begin := group.Begin{Instance: params.member(), Join: params.join()}
	q, err := pollParams(r, params)
	if err != nil {
		return err
	}
	if err := q.represent(r, ""); err != nil {
		return err
	}
	if q.wait < 0 {
		q.wait = defaultRequestTimeout
	}
	if r.Method == http.MethodHead {
		q.headers(w.Header())
		w.WriteHeader(http.StatusOK)
		return nil
	}
	begin.RequestID = q.requestID
	return a.poll(w, r, name, begin, q)
}

// member is the parameter that names a member.
func (q *params) member() string {
	name, ok := q.text("member")
	plain, _, _ := strings.Cut(name, "~")
	switch {
	case !ok:
		q.faultf("member", "It is missing: a name of this worker's own, the same one at each call, such as member=worker-1.")
	case !validGroupName(plain) || !isUnreserved(name):
		q.faultf("member", "%s can't be the name of a member: 1 to 255 of a-z A-Z 0-9 . _ - and neither . nor ...", shown(name))
	}
	return name
}

// join reads how a member joins.
func (q *params) join() *group.Join {
	j := &group.Join{Options: defaultOptions()}
	topics, hasTopics := q.text("topics")
	pattern, hasPattern := q.text("topic_pattern")
	switch {
	case hasTopics == hasPattern:
		q.faultf("topics", "Give either topics (separated by commas) or topic_pattern.")
	case hasPattern:
		if fault := patternFault(pattern); fault != "" {
			q.faultf("topic_pattern", "%s", fault)
		}
		j.Pattern = pattern
	default:
		for topic := range strings.SplitSeq(topics, ",") {
			if !validTopicName(topic) {
				q.faultf("topics", "%s can't be a topic's name.", shown(topic))
			}
			if indexString(j.Topics, topic) < 0 {
				j.Topics = append(j.Topics, topic)
			}
		}
		if len(j.Topics) > maxSubscribedTopics {
			q.faultf("topics", "These are more than %d topics; a topic_pattern may do.", maxSubscribedTopics)
		}
	}
	o := &j.Options
	o.Reset = q.enum("auto.offset.reset", o.Reset, group.ResetEarliest, group.ResetLatest, group.ResetNone)
	o.SessionTimeout = time.Duration(q.integer("consumer.instance.timeout.ms", o.SessionTimeout.Milliseconds(),
		minSessionTimeout.Milliseconds(), maxSessionTimeout.Milliseconds())) * time.Millisecond
	o.Isolation = q.enum("isolation.level", o.Isolation, "read_committed", "read_uncommitted")
	return j
}
