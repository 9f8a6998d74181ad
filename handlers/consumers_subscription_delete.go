package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// deleteSubscription ends an instance's subscription.
//
//	@ID				unsubscribe
//	@Summary		Unsubscribe an instance
//	@Description	Its partitions go to others. It stays a member, and may subscribe again.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Success		204	"Unsubscribed, or it was not subscribed."
//	@x-errors		[40403,40906,42201,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance}/subscription [delete]
func (a *api) deleteSubscription(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	return a.done(w, r, &group.Call{Group: name, Subscribe: &group.Subscribe{Instance: instance}})
}
