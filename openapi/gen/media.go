package main

import (
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// mediaPrefix begins the annotations that say what an operation takes or gives
// per media type: `@x-media-request {"application/json":"ProduceRequest"}`,
// `@x-media-200 {"application/json":"[Record]","text/event-stream":"text"}`.
const mediaPrefix = "x-media-"

func applyMedia(doc *openapi3.T, op *openapi3.Operation) error {
	for name, value := range op.Extensions {
		target, ok := strings.CutPrefix(name, mediaPrefix)
		if !ok {
			continue
		}
		content, err := contentOf(doc, value)
		if err != nil {
			return fmt.Errorf("@%s: %w", name, err)
		}
		if target == "request" {
			if op.RequestBody == nil {
				return fmt.Errorf("@%s without a body @Param, which gives its description", name)
			}
			op.RequestBody.Value.Content = content
		} else {
			r := op.Responses.Value(target)
			if r == nil {
				return fmt.Errorf("@%s without @Success %s, which gives its description", name, target)
			}
			r.Value.Content = content
		}
		op.Extensions = without(op.Extensions, name)
	}
	return nil
}

func contentOf(doc *openapi3.T, value any) (openapi3.Content, error) {
	media, ok := value.(map[string]any)
	if !ok || len(media) == 0 {
		return nil, fmt.Errorf("want an object: media type to schema name")
	}
	content := openapi3.Content{}
	for mediaType, name := range media {
		text, ok := name.(string)
		if !ok {
			return nil, fmt.Errorf("%s: want a schema name", mediaType)
		}
		schema, err := schemaNamed(doc, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mediaType, err)
		}
		content[mediaType] = &openapi3.MediaType{Schema: schema}
	}
	return content, nil
}

// schemaNamed is a documentation type by name, `[Name]` for an array of it, or
// `text` or `binary` for a body that is no JSON.
func schemaNamed(doc *openapi3.T, name string) (*openapi3.SchemaRef, error) {
	switch name {
	case "text":
		return openapi3.NewStringSchema().NewRef(), nil
	case "binary":
		return openapi3.NewStringSchema().WithFormat("binary").NewRef(), nil
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		item, err := schemaNamed(doc, strings.TrimSuffix(inner, "]"))
		if err != nil {
			return nil, err
		}
		array := openapi3.NewArraySchema()
		array.Items = item
		return array.NewRef(), nil
	}
	schema := doc.Components.Schemas[name]
	if schema == nil {
		return nil, fmt.Errorf("no schema %s (does the annotation of %s name it?)", name, schemasPath)
	}
	return openapi3.NewSchemaRef("#/components/schemas/"+name, schema.Value), nil
}
