package handlers

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"

	"highwater/replication/group"
)

// committedView is one committed offset as the dialect says it.
type committedView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Offset of the next record to read, as next_offset.
	Offset     int64  `json:"offset"`
	NextOffset int64  `json:"next_offset"`
	Metadata   string `json:"metadata"`
}

// getConsumerOffsets tells committed offsets.
//
//	@ID				getCommitted
//	@Summary		Committed offsets
//	@Description	The group's committed offsets: of the partitions that the body or the query names, else of all. What was never committed is left out. `offset` is always the next offset to read.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			topic		query	string	false	"Instead of a body: a topic …"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition	query	int		false	"… and one of its partitions; none: all"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Success		200	{object}	schema.Committed	"The offsets."
//	@x-media-200	{"application/json":"Committed","application/vnd.kafka.v2+json":"Committed"}
//	@x-errors		[40401,40402,40403,40906,41301,41501,42201,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/offsets [get]
func (a *api) getConsumerOffsets(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	entries, topic, err := a.askedOffsets(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	asked := &group.Committed{Instance: instance}
	if len(entries) > 0 {
		if asked.Partitions, err = a.partitionsOf(ctx, entries); err != nil {
			return a.orOfInstance(ctx, name, instance, err)
		}
	}
	list, err := a.committed(ctx, name, asked)
	if err != nil {
		return err
	}
	view := struct {
		Offsets []committedView `json:"offsets"`
	}{make([]committedView, 0, len(list))}
	for _, o := range list {
		if entries == nil && (topic == "" || topic == o.Topic) || len(entries) > 0 {
			view.Offsets = append(view.Offsets, committedView{o.Topic, o.Partition, o.Offset, o.Offset, o.Metadata})
		}
	}
	return answerDialect(w, r, view)
}

// askedOffsets reads which partitions are asked for: those of entries unless it is nil,
// all of topic, or all there are. The dialect says it in the body of a GET.
func (a *api) askedOffsets(w http.ResponseWriter, r *http.Request) (entries []entry, topic string, err error) {
	q := queryParams(r, "topic", "partition")
	topic, hasTopic := q.text("topic")
	switch {
	case hasTopic && !validTopicName(topic):
		q.faultf("topic", "%s can't be a topic's name.", shown(topic))
	case !hasTopic && q.has("partition"):
		q.faultf("partition", "Of which topic? Give topic too.")
	}
	number := q.integer("partition", -1, 0, math.MaxInt32)
	if err := q.err(); err != nil {
		return nil, "", err
	}
	body, err := a.controlBody(w, r, true, "partitions")
	switch {
	case err != nil:
		return nil, "", err
	case body.absent && number >= 0:
		return []entry{{topic: topic, partition: int32(number)}}, "", nil
	case body.absent:
		return nil, topic, nil
	case hasTopic:
		return nil, "", malformed("The query and the body both say which partitions are meant; send one of them.")
	}
	return append([]entry{}, body.entries("partitions", entryNames)...), "", body.err()
}

// committed asks for committed offsets, in the order of topics and partitions. Those
// of topics that are gone are left out.
func (a *api) committed(ctx context.Context, name string, asked *group.Committed) ([]group.OffsetInfo, error) {
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Committed: asked})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(answer.Offsets, func(x, y group.OffsetInfo) int {
		if c := strings.Compare(x.Topic, y.Topic); c != 0 {
			return c
		}
		return int(x.Partition) - int(y.Partition)
	})
	return answer.Offsets, nil
}
