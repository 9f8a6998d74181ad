package handlers

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/render"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

// putTopic creates a topic, or finds it as asked.
//
//	@ID				putTopic
//	@Summary		Create a topic
//	@Description	The same call again is 200; a topic that differs from what is asked is 409.
//	@Tags			topics
//	@Param			topic			path		string				true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			body			body		schema.CreateTopic	false	"Partitions, replication factor and configs; what is left out is the broker's default."
//	@Success		200				{object}	schema.Topic		"It was there already."
//	@Success		201				{object}	schema.Topic		"Created."
//	@x-media-request	{"application/json":"CreateTopic"}
//	@x-errors			[40901,41501,42201]
//	@Router			/topics/{topic} [put]
func (a *api) putTopic(w http.ResponseWriter, r *http.Request) error {
	t, err := a.cfg.Broker.CreateTopic(r.Context(), controller.CreateTopicRequest{Name: chi.URLParam(r, "topic")})
	if err != nil {
		return err
	}
	render.Status(r, http.StatusCreated)
	render.JSON(w, r, map[string]any{"name": t.Name, "topic_id": t.ID})
	return nil
}

// fetchRecords reads a partition from an offset on.
//
//	@ID				fetch
//	@Summary		Read records
//	@Description	Reads records below the high watermark.
//	@Tags			fetch
//	@Param			topic		path	string	true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			partition	path	int		true	"Partition number"	minimum(0)	maximum(2147483647)	format(int32)	example(0)
//	@Param			offset		query	string	false	"Where to begin"	default(earliest)	example(0)
//	@Success		200		{array}		schema.Record	"The records."
//	@Header			200		{integer}	Highwater-Next-Offset	"Where the next fetch begins."
//	@x-media-200	{"application/json":"[Record]","application/x-ndjson":"text","text/event-stream":"text","application/octet-stream":"binary"}
//	@x-errors		[40401,40402,40601,41001,41601,50302]
//	@Router			/topics/{topic}/partitions/{partition}/records [get]
func (a *api) fetchRecords(w http.ResponseWriter, r *http.Request) error {
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	res, err := a.cfg.Broker.Fetch(r.Context(), replication.FetchRequest{Topic: chi.URLParam(r, "topic"), Offset: offset, MaxBytes: 1 << 20})
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for data := res.Data; len(data) > 0; {
		b, rest, err := storage.ParseBatch(data)
		if err != nil {
			return err
		}
		data = rest
		it, _ := b.Records()
		var rec storage.Record
		for it.Next(&rec) {
			if rec.Offset >= offset {
				out = append(out, map[string]any{"offset": rec.Offset, "key": string(rec.Key), "value": json.RawMessage(rec.Value)})
			}
		}
	}
	render.JSON(w, r, out)
	return nil
}
