package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// postAssignments gives an instance partitions of its own choice.
//
//	@ID				assign
//	@Summary		Assign partitions to an instance
//	@Description	It reads these, whatever others of the group read; the group doesn't balance them. It replaces the assignments before; an empty list ends them. An instance with a subscription is 409.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Param			body		body	schema.Assignments	true	"The partitions."
//	@Success		204	"Assigned."
//	@x-media-request	{"application/json":"Assignments","application/vnd.kafka.v2+json":"Assignments"}
//	@x-errors		[40401,40402,40403,40903,40906,41301,41501,42201,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance}/assignments [post]
func (a *api) postAssignments(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "partitions")
	if err != nil {
		return err
	}
	entries := body.entries("partitions", entryNames)
	if err := body.err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	list, err := a.partitionsOf(ctx, entries)
	if err != nil {
		return a.orOfInstance(ctx, name, instance, err)
	}
	if _, err := a.askGroup(ctx, &group.Call{Group: name, Assign: &group.Assign{Instance: instance, Partitions: list}}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
