package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// groupView is a group as clients see it.
type groupView struct {
	Group       string       `json:"group"`
	State       string       `json:"state"`
	Generation  int32        `json:"generation"`
	Coordinator int32        `json:"coordinator"`
	Members     []memberView `json:"members"`
}

type memberView struct {
	InstanceID  string         `json:"instance_id"`
	Assignments []partitionRef `json:"assignments"`
	Topics      []string       `json:"topics,omitempty"`
	Pattern     string         `json:"topic_pattern,omitempty"`
	Manual      bool           `json:"manual,omitempty"`
}

// getGroup describes a group.
//
//	@ID				getGroup
//	@Summary		Describe a consumer group
//	@Description	Its members and who has which partitions. empty: nobody is in it; stable: everybody has what is theirs; reconciling: partitions are on their way from one member to another.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Success		200	{object}	schema.Group	"The group."
//	@x-errors		[40404,42201,50302,50303,50701]
//	@Router			/consumers/{group} [get]
func (a *api) getGroup(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Describe: &group.Describe{}})
	if err != nil {
		return err
	}
	d := answer.Description
	view := groupView{Group: name, State: d.State, Generation: d.Generation, Coordinator: d.Coordinator, Members: make([]memberView, len(d.Members))}
	for i := range d.Members {
		m := &d.Members[i]
		view.Members[i] = memberView{m.Instance, partitionRefs(m.Assignments), m.Topics, m.Pattern, m.Manual}
	}
	return answerJSON(w, r, http.StatusOK, view)
}
