package handlers

import (
	"net/http"
)

// listTopics lists the topics' names.
//
//	@ID				listTopics
//	@Summary		List topics
//	@Description	The names in order. Topics of the broker's own are left out unless asked for.
//	@Tags			topics
//	@Param			internal	query	boolean	false	"Also the broker's own topics"	default(false)	example(false)
//	@Success		200	{array}	string	"The names."
//	@Router			/topics [get]
func (a *api) listTopics(w http.ResponseWriter, r *http.Request) error {
	q := queryParams(r, "internal")
	internal := q.boolean("internal")
	if err := q.err(); err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, a.cfg.Broker.TopicNames(internal))
}

// getTopic describes a topic.
//
//	@ID				getTopic
//	@Summary		Describe a topic
//	@Description	Its id, every config in force, and its partitions as their leaders see them.
//	@Tags			topics
//	@Param			topic	path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Success		200	{object}	schema.Topic	"The topic."
//	@x-errors		[40401,42201,50302]
//	@Router			/topics/{topic} [get]
func (a *api) getTopic(w http.ResponseWriter, r *http.Request) error {
	view, err := a.askedTopic(r)
	if err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, view)
}

// askedTopic describes the topic that the path names, for a request without
// query parameters.
func (a *api) askedTopic(r *http.Request) (*topicView, error) {
	name, err := topicName(r)
	if err != nil {
		return nil, err
	}
	if err := queryParams(r).err(); err != nil {
		return nil, err
	}
	t, err := a.cfg.Broker.Topic(name)
	if err != nil {
		return nil, err
	}
	return a.viewTopic(r, t)
}
