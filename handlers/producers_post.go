package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"highwater/replication/controller"
)

// producerWait bounds how long a producer id is waited for.
const producerWait = 15 * time.Second

// producerView is what a producer must send along with each of its batches.
type producerView struct {
	ProducerID      int64   `json:"producer_id"`
	ProducerEpoch   int16   `json:"producer_epoch"`
	TransactionalID *string `json:"transactional_id,omitempty"`
}

// postProducer gives out a producer id.
//
//	@ID				initProducer
//	@Summary		Begin an idempotent producer
//	@Description	Gives out a producer id that nobody has had, in epoch 0. With it, and a sequence number for each partition, the batches of `POST /topics/{topic}/partitions/{partition}` can be sent again without being stored twice.
//	@Description	With a `transactional_id` the producer keeps its id from one life to the next and gets a new epoch each time: whoever got an earlier one is fenced (403). Sending this request again is always safe.
//	@Tags			produce
//	@Param			body	body		schema.NewProducer	false	"May be left out."
//	@Success		200		{object}	schema.Producer		"The producer."
//	@x-media-request	{"application/json":"NewProducer"}
//	@x-errors			[41301,41501,42201,42901,50001,50302,50305,50401]
//	@Router			/producers [post]
func (a *api) postProducer(w http.ResponseWriter, r *http.Request) error {
	if err := queryParams(r).err(); err != nil {
		return err
	}
	body, err := a.controlBody(w, r, true, "transactional_id")
	if err != nil {
		return err
	}
	var view producerView
	transactional := ""
	if v := body.value("transactional_id"); v != nil && v.Kind() != 'n' {
		if transactional = body.text("transactional_id"); v.Kind() == '"' {
			if f := transactionalIDFault(transactional); f != "" {
				body.faultf("/transactional_id", "%s", f)
			}
		}
		view.TransactionalID = &transactional
	}
	if err := body.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), producerWait)
	defer cancel()
	defer context.AfterFunc(a.cfg.LastCall, cancel)()
	if view.ProducerID, view.ProducerEpoch, err = a.cfg.Broker.InitProducer(ctx, transactional); err != nil {
		return err
	}
	return answerJSON(w, r, http.StatusOK, view)
}

// transactionalIDFault says why text can be no transactional id, "" when it can.
func transactionalIDFault(text string) string {
	if len(text) > controller.MaxTransactionalIDBytes {
		return fmt.Sprintf("A transactional id has at most %d bytes.", controller.MaxTransactionalIDBytes)
	}
	return idFault([]byte(text))
}
