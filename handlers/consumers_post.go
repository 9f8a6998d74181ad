package handlers

import (
	"net/http"

	"highwater/replication/group"
)

// postConsumer makes a consumer instance.
//
//	@ID				createConsumer
//	@Summary		Create a consumer instance
//	@Description	Makes a member of the group, which is made with its first member. Any broker serves it then, also when this one is gone. Options may be strings, numbers or booleans; all may be left out, and so may the body.
//	@Description	A name that lives in the group is 409 (PUT takes it over). A member that is silent for consumer.instance.timeout.ms is removed; a poll that waits is not silent.
//	@Tags			consumers
//	@Param			group	path		string				true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			body	body		schema.NewConsumer	false	"The instance's name and options."
//	@Success		200		{object}	schema.Consumer		"The instance and the address that is its own."
//	@x-media-request	{"application/json":"NewConsumer","application/vnd.kafka.v2+json":"NewConsumer"}
//	@x-media-200		{"application/json":"Consumer","application/vnd.kafka.v2+json":"Consumer"}
//	@x-errors			[40902,41301,41501,42201,42901,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group} [post]
func (a *api) postConsumer(w http.ResponseWriter, r *http.Request) error {
	name, err := groupName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	create, err := a.createBody(w, r)
	if err != nil {
		return err
	}
	return a.createConsumer(w, r, name, create)
}

// consumerView is a consumer instance as the dialect says it.
type consumerView struct {
	InstanceID string `json:"instance_id"`
	BaseURI    string `json:"base_uri"`
}

func (a *api) createConsumer(w http.ResponseWriter, r *http.Request, name string, create *group.Create) error {
	ctx, cancel := a.groupContext(r)
	defer cancel()
	answer, err := a.askGroup(ctx, &group.Call{Group: name, Create: create})
	if err != nil {
		return err
	}
	return answerDialect(w, r, consumerView{answer.Instance, a.baseURL(r) + "/consumers/" + name + "/instances/" + answer.Instance})
}
