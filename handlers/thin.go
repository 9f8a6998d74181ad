package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/render"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/storage"
)

func (a *api) putTopic(w http.ResponseWriter, r *http.Request) {
	t, err := a.cfg.Broker.CreateTopic(r.Context(), controller.CreateTopicRequest{Name: chi.URLParam(r, "topic")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	render.Status(r, http.StatusCreated)
	render.JSON(w, r, map[string]any{"name": t.Name, "topic_id": t.ID})
}

func (a *api) produceBatch(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Records []struct {
			Key   *string         `json:"key"`
			Value json.RawMessage `json:"value"`
		} `json:"records"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Records) == 0 {
		http.Error(w, fmt.Sprint("bad body: ", err), http.StatusBadRequest)
		return
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
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	res := a.cfg.Broker.Append(r.Context(), replication.AcksAll, []replication.AppendRequest{{Topic: chi.URLParam(r, "topic"), Batches: []storage.Batch{batch}}})[0]
	if res.Err != nil {
		http.Error(w, res.Err.Error(), http.StatusInternalServerError)
		return
	}
	render.JSON(w, r, map[string]any{"base_offset": res.BaseOffset, "last_offset": res.LastOffset})
}

func (a *api) fetchRecords(w http.ResponseWriter, r *http.Request) {
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	res, err := a.cfg.Broker.Fetch(r.Context(), replication.FetchRequest{Topic: chi.URLParam(r, "topic"), Offset: offset, MaxBytes: 1 << 20})
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	out := []map[string]any{}
	for data := res.Data; len(data) > 0; {
		b, rest, err := storage.ParseBatch(data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
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
}
