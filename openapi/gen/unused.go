package main

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// dropUnused removes schemas that no operation reaches.
func dropUnused(doc *openapi3.T) {
	used := map[string]bool{}
	var visit func(ref *openapi3.SchemaRef)
	visit = func(ref *openapi3.SchemaRef) {
		if ref == nil {
			return
		}
		if name, ok := strings.CutPrefix(ref.Ref, "#/components/schemas/"); ok {
			if used[name] {
				return
			}
			used[name] = true
			visit(openapi3.NewSchemaRef("", doc.Components.Schemas[name].Value))
			return
		}
		s := ref.Value
		if s == nil {
			return
		}
		visit(s.Items)
		visit(s.AdditionalProperties.Schema)
		for _, p := range s.Properties {
			visit(p)
		}
		for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
			for _, p := range list {
				visit(p)
			}
		}
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range op.Parameters {
				visit(p.Value.Schema)
			}
			if op.RequestBody != nil {
				visitContent(op.RequestBody.Value.Content, visit)
			}
			for _, r := range op.Responses.Map() {
				visitContent(r.Value.Content, visit)
			}
		}
	}
	for name := range doc.Components.Schemas {
		if !used[name] {
			delete(doc.Components.Schemas, name)
		}
	}
}

func visitContent(c openapi3.Content, visit func(*openapi3.SchemaRef)) {
	for _, m := range c {
		visit(m.Schema)
	}
}
