package main

import "github.com/getkin/kin-openapi/openapi3"

const componentPrefix = "#/components/schemas/"

// anyJSON is the schema of any JSON value. In OpenAPI 3.0 tools disagree whether
// `{}` lets null pass and whether `nullable` may stand without a type, and some
// refuse a schema that refers to itself; about this spelling they agree.
func anyJSON() *openapi3.SchemaRef {
	element := openapi3.NewAnyOfSchema(openapi3.NewStringSchema().WithNullable(), &openapi3.Schema{Not: openapi3.NewStringSchema().NewRef()})
	s := openapi3.NewAnyOfSchema(
		openapi3.NewObjectSchema().WithAnyAdditionalProperties(), openapi3.NewArraySchema().WithItems(element),
		openapi3.NewStringSchema().WithNullable(), openapi3.NewFloat64Schema().WithFormat("double"), openapi3.NewBoolSchema())
	s.Description = "Any JSON value: the bytes are kept as sent, numbers keep their text."
	return s.NewRef()
}

// configValue is the schema of a topic config in a request.
func configValue() *openapi3.SchemaRef {
	s := openapi3.NewAnyOfSchema(openapi3.NewStringSchema().WithNullable(), openapi3.NewInt64Schema(), openapi3.NewBoolSchema())
	s.Description = "A config's value as a string; numbers and booleans stand for their spelling, null for the default."
	return s.NewRef()
}

// nameValues gives the members that swag left without a type, being `any` in Go,
// the schema of what they hold.
func nameValues(doc *openapi3.T) {
	schemas := doc.Components.Schemas
	values := openapi3.Schemas{"AnyJSON": anyJSON(), "ConfigValue": configValue()}
	refTo := func(name string) *openapi3.SchemaRef {
		return openapi3.NewSchemaRef(componentPrefix+name, values[name].Value)
	}
	for owner, ref := range schemas {
		for name, p := range ref.Value.Properties {
			if p.Ref != "" || p.Value.Type != nil || len(p.Value.AllOf) > 0 {
				continue
			}
			p.Value.Nullable = false
			switch {
			case owner == "TopicConfigs" || owner == "TopicConfig" && name == "value":
				p.Value.AllOf = openapi3.SchemaRefs{refTo("ConfigValue")}
			case name == "configs":
				list := openapi3.NewArraySchema().WithNullable()
				list.Items = openapi3.NewSchemaRef(componentPrefix+"TopicConfig", schemas["TopicConfig"].Value)
				p.Value.AnyOf = openapi3.SchemaRefs{openapi3.NewSchemaRef(componentPrefix+"TopicConfigs", schemas["TopicConfigs"].Value), list.NewRef()}
			default:
				p.Value.AllOf = openapi3.SchemaRefs{refTo("AnyJSON")}
			}
		}
	}
	for name, ref := range values {
		schemas[name] = ref
	}
	if event := schemas["CloudEvent"]; event != nil { // extension attributes
		yes := true
		event.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: &yes}
	}
}

// typeNullables: a named object that may be null needs its type said beside the name,
// else some tools take the nullable for nothing.
func typeNullables(s *openapi3.Schema) {
	for _, p := range s.Properties {
		if v := p.Value; p.Ref == "" && v.Nullable && v.Type == nil && len(v.AllOf) == 1 {
			v.Type = v.AllOf[0].Value.Type
		}
	}
}

// sizeIntegers: swag tells the size of an integer only where a tag does, and the
// schemas tag the 64 bit ones.
func sizeIntegers(s *openapi3.Schema) {
	if s.Type.Is(openapi3.TypeInteger) && s.Format == "" {
		s.Format = "int32"
	}
	if s.Items != nil {
		sizeIntegers(s.Items.Value)
	}
	for _, p := range s.Properties {
		if p.Ref == "" {
			sizeIntegers(p.Value)
		}
	}
}
