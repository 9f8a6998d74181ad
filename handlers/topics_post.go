package handlers

import (
	"net/http"
)

// postTopic creates a topic whose name stands in the body.
//
//	@ID				postTopic
//	@Summary		Create a topic, the dialect's way
//	@Description	The same as PUT /topics/{topic}, with the names of Confluent's v3 API and of Strimzi; a topic that exists is always 409.
//	@Tags			topics
//	@Param			body			body		schema.NewTopic	true	"The topic's name, and what PUT takes under other names."
//	@Success		201				{object}	schema.Topic	"Created."
//	@Header			201				{string}	Location		"The topic's path."
//	@x-media-request	{"application/json":"NewTopic"}
//	@x-errors			[40901,41301,41501,42201,50001,50302,50305,50401]
//	@Router			/topics [post]
func (a *api) postTopic(w http.ResponseWriter, r *http.Request) error {
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "topic_name", "partitions_count", "replication_factor", "configs")
	if err != nil {
		return err
	}
	if body.value("topic_name") == nil {
		body.faultf("/topic_name", "The member is missing: it names the topic.")
	}
	req, err := topicRequest(body, body.text("topic_name"), "partitions_count")
	if err != nil {
		return err
	}
	t, err := a.cfg.Broker.CreateTopic(r.Context(), req)
	if err != nil {
		return err
	}
	view, err := a.viewTopic(r, t)
	if err != nil {
		return err
	}
	w.Header()["Location"] = []string{"/topics/" + t.Name}
	return answerJSON(w, r, http.StatusCreated, view)
}
