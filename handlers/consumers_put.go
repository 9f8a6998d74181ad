package handlers

import (
	"net/http"
	"strings"
)

// putConsumer makes a consumer instance or takes a living one over.
//
//	@ID				takeOverConsumer
//	@Summary		Create or take over a consumer instance
//	@Description	The way back for a client that was restarted, and the way in for one that replaces another. Nobody waits for the former one's session to end: the new incarnation (c1~2) has its partitions at once, from the committed offsets on, and whatever the former one sends is 409 / 40906. The plain name means the newest incarnation.
//	@Tags			consumers
//	@Param			group		path		string				true	"Group name"	minlength(1)	maxlength(255)	example(billing)
//	@Param			instance	path		string				true	"The instance's name, without an incarnation"	minlength(1)	maxlength(255)	example(c1)
//	@Param			body		body		schema.NewConsumer	false	"Options, as in POST."
//	@Success		200			{object}	schema.Consumer		"This incarnation and its address."
//	@x-media-request	{"application/json":"NewConsumer","application/vnd.kafka.v2+json":"NewConsumer"}
//	@x-media-200		{"application/json":"Consumer","application/vnd.kafka.v2+json":"Consumer"}
//	@x-errors			[41301,41501,42201,42901,50302,50303,50304,50305,50401,50701]
//	@Router			/consumers/{group}/instances/{instance} [put]
func (a *api) putConsumer(w http.ResponseWriter, r *http.Request) error {
	name, instance, err := groupInstance(r)
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
	switch {
	case strings.Contains(instance, "~"):
		return unprocessable("%s names one incarnation. Take over the plain name.", shown(instance))
	case create.Name != "" && create.Name != instance:
		return unprocessable("The body names %s and the path %s.", shown(create.Name), shown(instance))
	}
	create.Name, create.TakeOver = instance, true
	return a.createConsumer(w, r, name, create)
}
