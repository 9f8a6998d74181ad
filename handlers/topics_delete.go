package handlers

import (
	"net/http"
)

// deleteTopic removes a topic with all its records.
//
//	@ID				deleteTopic
//	@Summary		Delete a topic
//	@Description	The topic and its records are gone for good. Its tails end with a control event.
//	@Tags			topics
//	@Param			topic	path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Success		204	"Deleted."
//	@x-errors		[40401,42201,50001,50302,50305,50401]
//	@Router			/topics/{topic} [delete]
func (a *api) deleteTopic(w http.ResponseWriter, r *http.Request) error {
	name, err := topicName(r)
	if err != nil {
		return err
	}
	if err := queryParams(r).err(); err != nil {
		return err
	}
	if err := a.cfg.Broker.DeleteTopic(r.Context(), name); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
