package handlers

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"highwater/replication/group"
)

// groupOffsetView is how far a group has come in one partition. Committed is null
// when a member has the partition and nothing was committed yet; the partition's ends
// are null while there is nobody who knows them.
type groupOffsetView struct {
	Topic          string `json:"topic"`
	Partition      int32  `json:"partition"`
	Committed      *int64 `json:"committed"`
	LogStartOffset *int64 `json:"log_start_offset"`
	EndOffset      *int64 `json:"end_offset"`
	Lag            *int64 `json:"lag"`
	Metadata       string `json:"metadata"`
}

// getGroupOffsets tells a group's committed offsets and its lag.
//
//	@ID				getGroupOffsets
//	@Summary		Committed offsets and lag of a group
//	@Description	In every partition where the group has committed something, or that a member has; committed is null where nothing is committed yet. lag is the number of records that can still be read behind the commit: end_offset (the high watermark) less the greater of committed and log_start_offset, never negative. It is null while the partition has no leader.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Success		200	{array}	schema.GroupOffset	"One entry a partition."
//	@x-errors		[40404,42201,50302,50303,50701]
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
	list, err := a.groupStands(ctx, name)
	if err != nil {
		return err
	}
	views := make([]*groupOffsetView, len(list))
	_ = eachOf(len(list), func(i int) error {
		s := &list[i]
		v := &groupOffsetView{Topic: s.at.Topic, Partition: s.at.Partition, Committed: s.committed, Metadata: s.metadata}
		if t, ok := a.cfg.Broker.State().Topic(v.Topic); !ok || t.ID != s.at.TopicID {
			return nil // deleted meanwhile
		}
		views[i] = v
		ends, err := a.cfg.Broker.Offsets(ctx, v.Topic, v.Partition, nil)
		if err != nil {
			return nil // it is told as null
		}
		from := ends.Beginning
		if s.committed != nil {
			from = max(from, *s.committed)
		}
		lag := max(ends.End-from, 0)
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

// groupStand is where a group stands in a partition.
type groupStand struct {
	at        group.TopicPartition
	committed *int64 // nil: nowhere yet
	metadata  string
}

// groupStands are the partitions where the group has committed something and those
// that its members have, in order: what was never committed is no less behind.
func (a *api) groupStands(ctx context.Context, name string) ([]groupStand, error) {
	list, err := a.committed(ctx, name, &group.Committed{})
	if err != nil {
		return nil, err
	}
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Describe: &group.Describe{}})
	if err != nil {
		return nil, err
	}
	out := make([]groupStand, 0, len(list))
	known := make(map[group.TopicPartition]bool, len(list))
	for i := range list {
		o := &list[i]
		out = append(out, groupStand{o.TopicPartition, &o.Offset, o.Metadata})
		known[o.TopicPartition] = true
	}
	for i := range answer.Description.Members {
		for _, at := range answer.Description.Members[i].Assignments {
			if !known[at] {
				out = append(out, groupStand{at: at})
				known[at] = true
			}
		}
	}
	slices.SortFunc(out, func(x, y groupStand) int {
		return cmp.Or(strings.Compare(x.at.Topic, y.at.Topic), cmp.Compare(x.at.Partition, y.at.Partition))
	})
	return out, nil
}
