package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// groupOffsetView is how far a group has come in one partition. The partition's ends
// are null while there is nobody who knows them.
type groupOffsetView struct {
	Topic          string `json:"topic"`
	Partition      int32  `json:"partition"`
	Committed      int64  `json:"committed"`
	LogStartOffset *int64 `json:"log_start_offset"`
	EndOffset      *int64 `json:"end_offset"`
	Lag            *int64 `json:"lag"`
	Metadata       string `json:"metadata"`
}

// getGroupOffsets tells a group's committed offsets and its lag.
//
//	@ID				getGroupOffsets
//	@Summary		Committed offsets and lag of a group
//	@Description	In every partition where the group has committed something. lag is the number of records that can still be read behind the commit: end_offset (the high watermark) less the greater of committed and log_start_offset, never negative. It is null while the partition has no leader.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Success		200	{array}	schema.GroupOffset	"One entry a partition."
//	@x-errors		[40404,42201,50302]
//	@Router			/consumers/{group}/offsets [get]
func (a *api) getGroupOffsets(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	list, err := a.committed(ctx, name, &group.Committed{})
	if err != nil {
		return err
	}
	views := make([]*groupOffsetView, len(list))
	_ = eachOf(len(list), func(i int) error {
		o := &list[i]
		v := &groupOffsetView{Topic: o.Topic, Partition: o.Partition, Committed: o.Offset, Metadata: o.Metadata}
		if t, ok := a.cfg.Broker.State().Topic(o.Topic); !ok || t.ID != o.TopicID {
			return nil // deleted meanwhile
		}
		views[i] = v
		ends, err := a.cfg.Broker.Offsets(ctx, o.Topic, o.Partition, nil)
		if err != nil {
			return nil // it is told as null
		}
		lag := max(ends.End-max(o.Offset, ends.Beginning), 0)
		v.LogStartOffset, v.EndOffset, v.Lag = &ends.Beginning, &ends.End, &lag
		return nil
	})
	out := make([]*groupOffsetView, 0, len(views))
	for _, v := range views {
		if v != nil {
			out = append(out, v)
		}
	}
	return answerJSON(w, r, http.StatusOK, out)
}
