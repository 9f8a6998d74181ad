package handlers

import (
	"errors"
	"math"
	"net/http"

	"highwater/replication"
	"highwater/replication/controller"
)

// deleteRecords removes the records of a partition below an offset.
//
//	@ID				deleteRecords
//	@Summary		Delete a partition's oldest records
//	@Description	Moves the log start up to before_offset, at most to the high watermark (416 above it), and answers when every in-sync replica has followed. Below the log start nothing changes. Readers that stand below it get 410.
//	@Tags			topics
//	@Param			topic			path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition		path	int		true	"Partition number"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			before_offset	query	string	true	"The first offset to keep, or high_watermark to keep none"	minlength(1)	maxlength(19)	example(0)
//	@Success		200	{object}	schema.DeletedRecords	"Where the partition begins now."
//	@x-errors		[40401,40402,41601,42201,50001,50302,50305,50401]
//	@Router			/topics/{topic}/partitions/{partition}/records [delete]
func (a *api) deleteRecords(w http.ResponseWriter, r *http.Request) error {
	topic, num, err := topicPartition(r)
	if err != nil {
		return err
	}
	if err := controller.CheckTopicName(topic); err != nil {
		return err // Highwater's own: what groups and commits there are
	}
	q := queryParams(r, "before_offset")
	before := int64(-1) // the high watermark
	switch text, ok := q.text("before_offset"); {
	case !ok && len(q.faults) == 0:
		q.faultf("before_offset", "It is missing: give the first offset to keep, or high_watermark to keep none.")
	case ok && text != "high_watermark":
		before = q.integer("before_offset", 0, 0, math.MaxInt64)
	}
	if err := q.err(); err != nil {
		return err
	}
	beginning, err := a.cfg.Broker.DeleteRecords(r.Context(), topic, num, before)
	if errors.Is(err, replication.ErrTimeout) {
		return &requestError{code: codeTimedOut, detail: "The leader's log begins there now, but an in-sync replica has not said so in time; if it is elected the records may be seen again.",
			fix: "Send the same request again."}
	}
	if err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, struct {
		BeginningOffset int64 `json:"beginning_offset"`
	}{beginning})
}
