package handlers

import (
	"net/http"
)

// postGroupOffsets commits for a member that joined by polling.
//
//	@ID				commitFor
//	@Summary		Commit for a member
//	@Description	The second call of a whole consumer: without a body it commits all that the member's last answer delivered. A member may also be an instance that was created.
//	@Tags			consumers
//	@Param			group	path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			member	query	string	true	"The member's name"	minlength(1)	maxlength(275)	example(worker-1)
//	@Param			body	body	schema.CommitRequest	false	"Offsets; none: all that was delivered."
//	@Success		204	"Committed."
//	@x-media-request	{"application/json":"CommitRequest","application/vnd.kafka.v2+json":"CommitRequest"}
//	@x-errors		[40401,40402,40403,40906,40907,41301,41501,41601,42201,50001,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/offsets [post]
func (a *api) postGroupOffsets(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	q := queryParams(r, "member")
	instance := q.member()
	if err := q.err(); err != nil {
		return err
	}
	return a.commit(w, r, name, instance)
}
