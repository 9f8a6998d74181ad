package handlers

import (
	"context"
	"net/http"
	"strconv"

	"highwater/replication/group"
)

// movedView is one partition whose committed offset was moved. From is null where
// there was none.
type movedView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"`
	To        int64  `json:"to"`
}

// putGroupOffsets moves a group's committed offsets from outside.
//
//	@ID				resetGroupOffsets
//	@Summary		Reset a group's offsets
//	@Description	To given offsets, or of whole topics to `earliest`, `latest`, or a time. While the group has members it is 409: they would go on from where they are. With dry_run=true nothing is changed.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			dry_run	query	boolean	false	"Only tell what would be moved"	default(false)	example(false)
//	@Param			body	body	schema.ResetRequest	true	"Offsets, or topics and a place."
//	@Success		200	{array}	schema.MovedOffset	"What was moved."
//	@x-media-request	{"application/json":"ResetRequest","application/vnd.kafka.v2+json":"ResetRequest"}
//	@x-errors		[40401,40402,40909,41301,41501,41601,42201,50001,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/offsets [put]
func (a *api) putGroupOffsets(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	q := queryParams(r, "dry_run")
	reset := &group.Reset{DryRun: q.boolean("dry_run")}
	if err := q.err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "offsets", "topics", "to")
	if err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	if reset.Offsets, err = a.resetOffsets(ctx, body); err != nil {
		return err
	}
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Reset: reset})
	if err != nil {
		return err
	}
	from := map[group.TopicPartition]int64{}
	for _, o := range answer.Offsets {
		from[o.TopicPartition] = o.Offset
	}
	views := make([]movedView, len(reset.Offsets))
	for i := range reset.Offsets {
		o := &reset.Offsets[i]
		views[i] = movedView{Topic: o.Topic, Partition: o.Partition, To: o.Offset}
		if was, ok := from[o.TopicPartition]; ok && was >= 0 {
			views[i].From = &was
		}
	}
	return answerJSON(w, r, http.StatusOK, views)
}

// resetOffsets reads where the group is to stand.
func (a *api) resetOffsets(ctx context.Context, body *controlBody) ([]group.CommitOffset, error) {
	offsets, topics, to := body.value("offsets"), body.value("topics"), body.value("to")
	switch {
	case offsets != nil && (topics != nil || to != nil), offsets == nil && (topics == nil || to == nil):
		body.faultf("", `Say either {"offsets":[{"topic":…,"partition":…,"offset":…}]} or {"topics":["orders"],"to":"earliest"} (or "latest", or a time).`)
	case offsets != nil:
		entries := body.entries("offsets", entryOffset)
		if err := body.err(); err != nil {
			return nil, err
		}
		return a.commitOffsets(ctx, entries)
	}
	names := body.topicList("topics")
	place := start{}
	switch text, _ := body.option("to"); {
	case to == nil, text == "earliest":
	case text == "latest":
		place.kind = startLatest
	default:
		if ms := body.instant("to"); ms != nil {
			place = start{kind: startTimestamp, n: *ms}
		}
	}
	if err := body.err(); err != nil {
		return nil, err
	}
	return a.topicPlaces(ctx, names, place)
}

// topicPlaces finds a place in every partition of the topics.
func (a *api) topicPlaces(ctx context.Context, names []string, place start) ([]group.CommitOffset, error) {
	var out []group.CommitOffset
	for i, name := range names {
		t, err := a.heardTopic(ctx, name, 0)
		if err != nil {
			return nil, err
		}
		for p := range t.Partitions {
			out = append(out, group.CommitOffset{Position: group.Position{LeaderEpoch: -1,
				TopicPartition: group.TopicPartition{Topic: name, TopicID: t.ID, Partition: int32(p)}}})
		}
		if len(out) > maxEntries {
			return nil, unprocessable("The topics up to /topics/%s have more than %d partitions.", strconv.Itoa(i), maxEntries)
		}
	}
	return out, eachOf(len(out), func(i int) (err error) {
		o := &out[i]
		if o.Offset, err = a.resolve(ctx, o.Topic, o.Partition, place); err != nil {
			return err
		}
		o.LeaderEpoch, _, err = a.place(ctx, o.TopicPartition, o.Offset)
		return err
	})
}
