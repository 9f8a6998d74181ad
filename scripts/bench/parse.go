package main

import (
	"encoding/json"
	"net/http"
)

// parseOnly is the reference of P1 and P3.
func parseOnly() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Records []struct {
				Key   *string         `json:"key"`
				Value json.RawMessage `json:"value"`
			} `json:"records"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
}
