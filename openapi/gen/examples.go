package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"os"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// examplesFile holds the document's examples as exchanges with a live broker, in
// the order in which they work one after the other. A test in handlers holds them
// such.
const examplesFile = "openapi/examples.json"

// Exchange is one request and its answer.
type exchange struct {
	Operation string `json:"operation"` // operation id
	Name      string `json:"name"`      // shown as the example's title
	Request   struct {
		Method string            `json:"method"`
		Target string            `json:"target"` // path and query
		Header map[string]string `json:"header"`
		JSON   json.RawMessage   `json:"json"` // a JSON body, or
		Text   *string           `json:"text"` // any other
	} `json:"request"`
	Answer struct {
		Status    int             `json:"status"`
		MediaType string          `json:"media_type"`
		JSON      json.RawMessage `json:"json"`
		Text      *string         `json:"text"`
	} `json:"answer"`
}

func readExamples(path string) ([]exchange, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []exchange
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("gen: %s: %w", examplesFile, err)
	}
	return list, nil
}

func addExamples(doc *openapi3.T, list []exchange) error {
	byID := map[string]*openapi3.Operation{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			byID[op.OperationID] = op
		}
	}
	for i := range list {
		x := &list[i]
		op := byID[x.Operation]
		if op == nil {
			return fmt.Errorf("gen: example %q: no operation %q", x.Name, x.Operation)
		}
		if err := addExample(op, x); err != nil {
			return fmt.Errorf("gen: example %q of %s: %w", x.Name, x.Operation, err)
		}
	}
	return check(doc)
}

func addExample(op *openapi3.Operation, x *exchange) error {
	if value := valueOf(x.Request.JSON, x.Request.Text); value != nil && x.Answer.Status < 400 {
		mediaType := "application/json"
		for name, v := range x.Request.Header {
			if strings.EqualFold(name, "Content-Type") {
				mediaType, _, _ = mime.ParseMediaType(v)
			}
		}
		if op.RequestBody == nil {
			return fmt.Errorf("the operation takes no body")
		}
		m := op.RequestBody.Value.Content.Get(mediaType)
		if m == nil {
			return fmt.Errorf("no request media type %s", mediaType)
		}
		attach(m, x.Name, value)
	}
	r := op.Responses.Value(strconv.Itoa(x.Answer.Status))
	if r == nil {
		return fmt.Errorf("no answer %d", x.Answer.Status)
	}
	value := valueOf(x.Answer.JSON, x.Answer.Text)
	if value == nil {
		return nil
	}
	m := r.Value.Content.Get(x.Answer.MediaType)
	if m == nil {
		return fmt.Errorf("%d has no media type %s", x.Answer.Status, x.Answer.MediaType)
	}
	attach(m, x.Name, value)
	return nil
}

func valueOf(raw json.RawMessage, text *string) any {
	switch {
	case raw != nil:
		return raw
	case text != nil:
		return *text
	default:
		return nil
	}
}

func attach(m *openapi3.MediaType, name string, value any) {
	if m.Examples == nil {
		m.Examples = openapi3.Examples{}
	}
	key := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	// Readers sort by name: the number keeps the order of the file.
	key = fmt.Sprintf("%02d-%s", len(m.Examples)+1, key)
	m.Examples[key] = &openapi3.ExampleRef{Value: &openapi3.Example{Summary: name, Value: value}}
}
