package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// encode writes the document with sorted members, so that the same annotations
// always give the same bytes.
func encode(doc *openapi3.T) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	var plain map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // an example's 2^53+1 stays what it is
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	// Said openly, as a reader can't tell "no authentication" from "forgotten".
	plain["security"] = []any{}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(plain); err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	return out.Bytes(), nil
}
