package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// listGroups lists the groups of all coordinators.
//
//	@ID				listGroups
//	@Summary		List consumer groups
//	@Description	All groups, by name: also those without members that have committed offsets.
//	@Tags			consumers
//	@Success		200	{array}	schema.GroupSummary	"The groups."
//	@x-errors		[50302]
//	@Router			/consumers [get]
func (a *api) listGroups(w http.ResponseWriter, r *http.Request) error {
	if err := queryParams(r).err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	list, err := a.cfg.Groups.List(ctx)
	if err != nil {
		return groupError(ctx, err)
	}
	if list == nil {
		list = []group.Listing{}
	}
	return answerJSON(w, r, http.StatusOK, list)
}
