package handlers

import (
	"net/http"
	"regexp"
)

// subscriptionView is a subscription as the dialect says it.
type subscriptionView struct {
	Topics  []string `json:"topics"`
	Pattern string   `json:"topic_pattern,omitempty"`
}

// getSubscription tells what an instance is subscribed to.
//
//	@ID				getSubscription
//	@Summary		Subscription of an instance
//	@Description	Its topics; of a pattern those that match now.
//	@Tags			consumers
//	@Param			group		path	string	true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path	string	true	"Instance"	minlength(1)	maxlength(275)	example(c1)
//	@Success		200	{object}	schema.Subscription	"The topics."
//	@x-media-200	{"application/json":"Subscription","application/vnd.kafka.v2+json":"Subscription"}
//	@x-errors		[40403,40906,42201,50302,50303,50701]
//	@Router			/consumers/{group}/instances/{instance}/subscription [get]
func (a *api) getSubscription(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	ctx, cancel := a.groupContext(r)
	defer cancel()
	m, err := a.member(ctx, name, instance)
	if err != nil {
		return err
	}
	view := subscriptionView{Topics: []string{}, Pattern: m.Pattern}
	view.Topics = append(view.Topics, m.Topics...)
	if m.Pattern != "" {
		re, err := regexp.Compile(`\A(?:` + m.Pattern + `)\z`)
		if err != nil {
			return err // it was compiled before it was taken
		}
		for _, topic := range a.cfg.Broker.TopicNames(false) {
			if re.MatchString(topic) {
				view.Topics = append(view.Topics, topic)
			}
		}
	}
	return answerDialect(w, r, view)
}
