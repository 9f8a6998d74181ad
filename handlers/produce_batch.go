package handlers

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/render"

	"highwater/replication"
	"highwater/storage"
)

func (a *api) produceRoutes() []route {
	return []route{
		{method: http.MethodPost, pattern: "/topics/{topic}", handle: a.postBatch, writes: true},
	}
}

// postBatch appends a batch of records.
//
//	@ID				produce
//	@Summary		Append records
//	@Description	Validation is all-or-nothing before anything is appended.
//	@Tags			produce
//	@Param			topic	path		string					true	"Topic name"	minlength(1)	maxlength(249)	example(orders)
//	@Param			acks	query		string					false	"What must hold before the answer"	Enums(0,1,-1,all)	default(1)
//	@Param			body	body		schema.ProduceRequest	true	"The records."
//	@Success		200		{object}	schema.ProduceResult	"Appended."
//	@x-media-request	{"application/json":"ProduceRequest","application/x-ndjson":"text"}
//	@x-errors			[40401,40402,41301,41302,41501,42201,50302,50305,50401,50701]
//	@Router			/topics/{topic} [post]
func (a *api) postBatch(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Records []struct {
			Key   *string         `json:"key"`
			Value json.RawMessage `json:"value"`
		} `json:"records"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Records) == 0 {
		return malformed("bad body")
	}
	b := storage.NewBatchBuilder(nil)
	for _, rec := range body.Records {
		one := storage.Record{Timestamp: a.cfg.Now().UnixMilli(), Value: rec.Value}
		if rec.Key != nil {
			one.Key = []byte(*rec.Key)
		}
		b.Append(&one)
	}
	batch, err := b.Seal(storage.CompressionNone, nil)
	if err != nil {
		return err
	}
	res := a.cfg.Broker.Append(r.Context(), replication.AcksAll, []replication.AppendRequest{{Topic: chi.URLParam(r, "topic"), Batches: []storage.Batch{batch}}})[0]
	if res.Err != nil {
		return res.Err
	}
	render.JSON(w, r, map[string]any{"base_offset": res.BaseOffset, "last_offset": res.LastOffset})
	return nil
}
