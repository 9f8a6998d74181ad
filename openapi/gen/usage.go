package main

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// usage is the named schemas that something reaches.
type usage map[string]bool

func (u usage) schema(doc *openapi3.T, ref *openapi3.SchemaRef) {
	if ref == nil {
		return
	}
	if name, ok := strings.CutPrefix(ref.Ref, componentPrefix); ok {
		if !u[name] {
			u[name] = true
			u.schema(doc, openapi3.NewSchemaRef("", doc.Components.Schemas[name].Value))
		}
		return
	}
	s := ref.Value
	if s == nil {
		return
	}
	u.schema(doc, s.Items)
	u.schema(doc, s.AdditionalProperties.Schema)
	for _, p := range s.Properties {
		u.schema(doc, p)
	}
	for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		for _, p := range list {
			u.schema(doc, p)
		}
	}
}

func (u usage) content(doc *openapi3.T, c openapi3.Content) {
	for _, m := range c {
		u.schema(doc, m.Schema)
	}
}

// closeAndPrune removes schemas that no operation reaches, and closes those that
// only requests hold: there an unknown member is refused, while answers may get
// members.
func closeAndPrune(doc *openapi3.T) {
	requests, answers := usage{}, usage{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody != nil {
				requests.content(doc, op.RequestBody.Value.Content)
			}
			for _, r := range op.Responses.Map() {
				answers.content(doc, r.Value.Content)
			}
		}
	}
	for name, ref := range doc.Components.Schemas {
		switch s := ref.Value; {
		case !requests[name] && !answers[name]:
			delete(doc.Components.Schemas, name)
		case !answers[name] && s.Type.Is(openapi3.TypeObject) && len(s.Properties) > 0:
			no := false
			s.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
		}
	}
}
