package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// partitionRef names a partition.
type partitionRef struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func partitionRefs(list []group.TopicPartition) []partitionRef {
	out := make([]partitionRef, len(list))
	for i := range list {
		out[i] = partitionRef{list[i].Topic, list[i].Partition}
	}
	return out
}

// assignmentsView is what an instance reads, as the dialect says it.
type assignmentsView struct {
	Partitions []partitionRef `json:"partitions"`
}

// getAssignments tells which partitions an instance reads.
//
//	@ID				getAssignments
//	@Summary		Partitions of an instance
//	@Description	Those it was assigned by POST, or those that it has of its subscription now. Before its first poll a subscriber has none.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Success		200	{object}	schema.Assignments	"The partitions."
//	@x-media-200	{"application/json":"Assignments","application/vnd.kafka.v2+json":"Assignments"}
//	@x-errors		[40403,40906,42201,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/assignments [get]
func (a *api) getAssignments(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	m, err := a.member(ctx, name, instance)
	if err != nil {
		return err
	}
	return answerDialect(w, r, assignmentsView{partitionRefs(m.Assignments)})
}
