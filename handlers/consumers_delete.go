package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// deleteConsumer ends a consumer instance.
//
//	@ID				deleteConsumer
//	@Summary		Delete a consumer instance
//	@Description	It leaves the group, and its partitions go to others at once. What it has committed stays; what it hasn't comes again elsewhere.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Success		204	"It has left."
//	@x-errors		[40403,40906,42201,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance} [delete]
func (a *api) deleteConsumer(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	return a.done(w, r, &group.Call{Group: name, Leave: &group.Leave{Instance: instance}})
}
