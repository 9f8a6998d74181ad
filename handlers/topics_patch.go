package handlers

import (
	"math"
	"net/http"
)

// patchTopic changes a topic's configs and raises its number of partitions.
//
//	@ID				patchTopic
//	@Summary		Change a topic
//	@Description	Sets configs (null gives one back to its default) and adds partitions, all or nothing. Partitions are never taken away. With more partitions, records of a key go elsewhere than before.
//	@Tags			topics
//	@Param			topic			path		string				true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			body			body		schema.PatchTopic	true	"What to change."
//	@Success		200				{object}	schema.Topic		"The topic as it is now."
//	@x-media-request	{"application/json":"PatchTopic"}
//	@x-errors			[40401,40901,41301,41501,42201,50001,50302,50305,50401]
//	@Router			/topics/{topic} [patch]
func (a *api) patchTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := topicName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, false, "partitions", "configs")
	if err != nil {
		return err
	}
	partitions := int(body.integer("partitions", 0, 1, math.MaxInt32))
	configs := body.configs("configs")
	if len(body.members) == 0 {
		body.faultf("", `Nothing is to be changed: give "configs", "partitions" or both.`)
	}
	if err := body.err(); err != nil {
		return err
	}
	set := map[string]string{}
	for config, value := range configs {
		if value != nil {
			set[config] = *value
		}
	}
	if err := checkConfigs("/configs", set); err != nil {
		return err
	}
	t, err := a.cfg.Broker.AlterTopic(r.Context(), name, configs, partitions)
	if err != nil {
		return err
	}
	view, err := a.viewTopic(r, t)
	if err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, view)
}
