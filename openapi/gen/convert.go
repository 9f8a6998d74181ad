package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

// schemasPath is the path of the one annotation that is no route: it names the
// schemas that only an x-media annotation refers to, as swag leaves out what no
// operation names.
const schemasPath = "/-/schemas"

// requestIDHeader is on every answer.
const requestIDHeader = "X-Request-Id"

const problemMedia = "application/problem+json"

// convert makes the OpenAPI 3.0.3 document of a Swagger 2.0 one.
func convert(swagger []byte) (*openapi3.T, error) {
	swagger, err := markExamples(dropPackagePrefixes(swagger))
	if err != nil {
		return nil, err
	}
	var doc2 openapi2.T
	if err := json.Unmarshal(swagger, &doc2); err != nil {
		return nil, fmt.Errorf("gen: swagger: %w", err)
	}
	doc, err := openapi2conv.ToV3(&doc2)
	if err != nil {
		return nil, fmt.Errorf("gen: to OpenAPI 3: %w", err)
	}
	doc.OpenAPI = "3.0.3"
	// Relative to where the document is served: no host or port is baked in.
	doc.Servers = openapi3.Servers{{URL: "/", Description: "The broker that serves this document."}}
	doc.Paths.Delete(schemasPath)
	doc.Components.RequestBodies = nil
	doc.Components.Headers = openapi3.Headers{requestIDHeader: {Value: &openapi3.Header{Parameter: openapi3.Parameter{
		Description: "The request's own `X-Request-Id`, or one that the broker chose; the broker's log has it.",
		Schema:      openapi3.NewStringSchema().NewRef(),
	}}}}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if err := finish(doc, op); err != nil {
				return nil, fmt.Errorf("gen: %s %s: %w", method, path, err)
			}
		}
	}
	nameValues(doc)
	for _, ref := range doc.Components.Schemas {
		sizeIntegers(ref.Value)
		typeNullables(ref.Value)
	}
	closeAndPrune(doc)
	return doc, check(doc)
}

// dropPackagePrefixes turns `schema.Record` and `handlers.topicBody` into bare
// names: a client's generated types should not show our folders.
func dropPackagePrefixes(swagger []byte) []byte {
	r := strings.NewReplacer(
		`"#/definitions/schema.`, `"#/definitions/`, `"#/definitions/handlers.`, `"#/definitions/`,
		`"schema.`, `"`, `"handlers.`, `"`)
	return []byte(r.Replace(string(swagger)))
}

// check fails unless the document is valid as a reader would load it.
func check(doc *openapi3.T) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	loaded, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	if err := loaded.Validate(context.Background()); err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

// finish brings one operation to what Swagger 2.0 could not say.
func finish(doc *openapi3.T, op *openapi3.Operation) error {
	if op.OperationID == "" {
		return fmt.Errorf("no @ID")
	}
	if op.Summary == "" || op.Description == "" || len(op.Tags) == 0 {
		return fmt.Errorf("%s needs @Summary, @Description and @Tags", op.OperationID)
	}
	if _, taken := doc.Components.Schemas[strings.ToUpper(op.OperationID[:1])+op.OperationID[1:]+"Response"]; taken {
		return fmt.Errorf("client generators give the answer of %s the name of a schema", op.OperationID)
	}
	op.Extensions = without(op.Extensions, "x-originalParamName")
	if op.RequestBody != nil && op.RequestBody.Value != nil {
		op.RequestBody.Value.Extensions = without(op.RequestBody.Value.Extensions, "x-originalParamName")
	}
	for _, p := range op.Parameters {
		finishParameter(op, p.Value)
	}
	if err := applyMedia(doc, op); err != nil {
		return err
	}
	if err := applyErrors(doc, op); err != nil {
		return err
	}
	splitErrorMedia(op)
	for _, r := range op.Responses.Map() {
		finishHeaders(r.Value)
		if r.Value.Headers == nil {
			r.Value.Headers = openapi3.Headers{}
		}
		r.Value.Headers[requestIDHeader] = &openapi3.HeaderRef{Ref: "#/components/headers/" + requestIDHeader}
	}
	return nil
}

// splitErrorMedia: errors are problem bodies only, successes never are.
func splitErrorMedia(op *openapi3.Operation) {
	for status, ref := range op.Responses.Map() {
		if status >= "400" {
			if m := firstMedia(ref.Value.Content); m != nil {
				ref.Value.Content = openapi3.Content{problemMedia: m}
			}
			continue
		}
		delete(ref.Value.Content, problemMedia)
	}
}

func firstMedia(c openapi3.Content) *openapi3.MediaType {
	if m := c[problemMedia]; m != nil {
		return m
	}
	for _, m := range c {
		return m
	}
	return nil
}

func without(m map[string]any, key string) map[string]any {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
