package handlers

import (
	"net/http"
)

// offsetsView is the ends of a partition as clients see them.
type offsetsView struct {
	BeginningOffset int64 `json:"beginning_offset"`
	// EndOffset is the high watermark: the end of what may be read.
	EndOffset    int64 `json:"end_offset"`
	LogEndOffset int64 `json:"log_end_offset"`
	// OffsetForTimestamp is null when no time was asked for or no record is that young.
	OffsetForTimestamp *int64 `json:"offset_for_timestamp"`
}

// getOffsets tells a partition's ends.
//
//	@ID				getOffsets
//	@Summary		Offsets of a partition
//	@Description	beginning_offset is the first record there is, end_offset the high watermark (the end of what may be read), log_end_offset the end of the leader's log. With timestamp, offset_for_timestamp is the first record at or after that time, null when there is none.
//	@Tags			topics
//	@Param			topic		path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition	path	int		true	"Partition number"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			timestamp	query	string	false	"Milliseconds since 1970, RFC 3339, or a time back from now like -15m"	minlength(1)	maxlength(64)	example(1764424000000)
//	@Success		200	{object}	schema.Offsets	"The ends."
//	@Header			200	{string}	Highwater-Stale	"true: the leader has lost touch with the cluster, and the ends may be further on."
//	@x-errors		[40401,40402,42201,50001,50302]
//	@Router			/topics/{topic}/partitions/{partition}/offsets [get]
func (a *api) getOffsets(w http.ResponseWriter, r *http.Request) error {
	topic, num, err := topicPartition(r)
	if err != nil {
		return err
	}
	q := queryParams(r, "timestamp")
	timestamp := q.timestamp("timestamp", a.cfg.Now())
	if err := q.err(); err != nil {
		return err
	}
	o, err := a.cfg.Broker.Offsets(r.Context(), topic, num, timestamp)
	if err != nil {
		return err
	}
	view := offsetsView{BeginningOffset: o.Beginning, EndOffset: o.End, LogEndOffset: o.LogEnd}
	if timestamp != nil && o.TimestampFound {
		view.OffsetForTimestamp = &o.ForTimestamp
	}
	if o.Stale {
		w.Header()["Highwater-Stale"] = yes
	}
	return answerJSON(w, r, http.StatusOK, view)
}
