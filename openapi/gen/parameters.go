package main

import (
	"github.com/getkin/kin-openapi/openapi3"
)

// swag drops `pattern`, so the patterns of parameters stand here by name.
func patternOf(parameter string) string {
	switch parameter {
	case "topic":
		return "^[a-zA-Z0-9._-]{1,249}$"
	default:
		return ""
	}
}

func finishParameter(p *openapi3.Parameter) {
	p.Extensions = without(p.Extensions, "x-example")
	if p.Schema == nil || p.Schema.Value == nil {
		return
	}
	s := p.Schema.Value
	if p.In == openapi3.ParameterInPath {
		if pattern := patternOf(p.Name); pattern != "" {
			s.Pattern = pattern
		}
	}
	if s.Type.Is(openapi3.TypeInteger) && s.Format == "" {
		s.Format = "int32"
	}
	// An example belongs to the parameter: there the docs page and the generated
	// clients find it.
	if p.Example == nil && s.Example != nil {
		p.Example, s.Example = s.Example, nil
	}
}

func finishHeaders(r *openapi3.Response) {
	for _, h := range r.Headers {
		if s := h.Value.Schema; s != nil && s.Value.Type.Is(openapi3.TypeInteger) && s.Value.Format == "" {
			s.Value.Format = "int64"
		}
	}
}
