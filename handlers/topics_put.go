package handlers

import (
	"net/http"
)

// putTopic creates a topic, or finds it as asked.
//
//	@ID				putTopic
//	@Summary		Create a topic
//	@Description	The same call again is 200; a topic that differs from what is asked is 409. What the body leaves out is the broker's default and never differs.
//	@Tags			topics
//	@Param			topic			path		string				true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			body			body		schema.CreateTopic	false	"Partitions, replication factor and configs; what is left out is the broker's default."
//	@Success		200				{object}	schema.Topic		"It was there already."
//	@Success		201				{object}	schema.Topic		"Created."
//	@x-media-request	{"application/json":"CreateTopic"}
//	@x-errors			[40901,41301,41501,42201,50001,50302,50305,50401]
//	@Router			/topics/{topic} [put]
func (a *api) putTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := topicName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, true, "partitions", "replication_factor", "configs")
	if err != nil {
		return err
	}
	req, err := topicRequest(body, name, "partitions")
	if err != nil {
		return err
	}
	t, created, err := a.cfg.Broker.PutTopic(r.Context(), req)
	if err != nil {
		return err
	}
	view, err := a.viewTopic(r, t)
	if err != nil {
		return err
	}
	if !created {
		return answerJSON(w, r, http.StatusOK, view)
	}
	w.Header()["Location"] = []string{"/topics/" + t.Name}
	return answerJSON(w, r, http.StatusCreated, view)
}
