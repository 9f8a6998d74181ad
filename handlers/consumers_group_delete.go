package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// deleteGroup forgets a group.
//
//	@ID				deleteGroup
//	@Summary		Delete a consumer group
//	@Description	Its committed offsets are gone for good. While it has members it is 409.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Success		204	"Deleted."
//	@x-errors		[40404,40909,42201,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group} [delete]
func (a *api) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	return a.done(w, r, &group.Call{Group: name, DeleteGroup: &group.DeleteGroup{}})
}
