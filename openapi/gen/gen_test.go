package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// The committed document is what the annotations say now.
func TestDocumentIsCurrent(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, documentFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s is not what the annotations say: run go generate ./openapi", documentFile)
	}
}

func TestComplaint(t *testing.T) {
	for said, want := range map[string]string{
		"2026/01/01 Generate swagger docs....\n2026/01/01 Generating schema.Topic\n": "",
		"a\n2026/01/01 Error parsing type definition 'x': y\nb\n":                    "2026/01/01 Error parsing type definition 'x': y",
		"warning: route GET /a is declared multiple times\n":                         "warning: route GET /a is declared multiple times",
	} {
		if got := complaint([]byte(said)); got != want {
			t.Errorf("complaint(%q) = %q, want %q", said, got, want)
		}
	}
}

func TestConvert(t *testing.T) {
	doc, err := convert([]byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{
		"/topics/{topic}":{"post":{"operationId":"p","summary":"s","description":"d","tags":["t"],
			"consumes":["application/json"],"produces":["application/json"],
			"parameters":[{"in":"path","name":"topic","type":"string","required":true,"example":"a"},
				{"in":"body","name":"body","schema":{"$ref":"#/definitions/schema.Rec"}}],
			"responses":{"200":{"description":"ok","schema":{"type":"array","items":{"$ref":"#/definitions/schema.Rec"}},
				"headers":{"Next":{"type":"integer"}}}},
			"x-media-200":{"application/json":"[Rec]","text/event-stream":"text"},"x-errors":[40401,50302,50303]}},
		"/-/schemas":{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/schema.Problem"}}}}}},
		"definitions":{"schema.Rec":{"type":"object","properties":{"n":{"type":"integer"}}},
			"schema.Problem":{"type":"object"},"schema.Unused":{"type":"object"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Paths.Len() != 1 || len(doc.Components.Schemas) != 2 || doc.Components.Schemas["Rec"] == nil {
		t.Errorf("%d paths, schemas %v", doc.Paths.Len(), doc.Components.Schemas)
	}
	op := doc.Paths.Value("/topics/{topic}").Post
	ok := op.Responses.Value("200").Value
	if ok.Content["application/json"].Schema.Value.Items.Ref != "#/components/schemas/Rec" || !ok.Content["text/event-stream"].Schema.Value.Type.Is("string") {
		t.Errorf("200: %v", ok.Content)
	}
	if ok.Headers["Next"].Value.Schema.Value.Format != "int64" {
		t.Error("a header's number has 64 bits")
	}
	for _, status := range []string{"400", "404", "500", "503"} {
		r := op.Responses.Value(status)
		if r == nil || len(r.Value.Content) != 1 || r.Value.Content[problemMedia].Schema.Ref != "#/components/schemas/Problem" {
			t.Errorf("%s: %v", status, r)
		}
	}
	unavailable := op.Responses.Value("503").Value
	if *unavailable.Description != "`50302` no leader or coordinator right now; `50303` not enough in-sync replicas, nothing appended." || unavailable.Headers["Retry-After"] == nil {
		t.Errorf("503: %s %v", *unavailable.Description, unavailable.Headers)
	}
	if p := op.Parameters[0].Value; p.Schema.Value.Pattern == "" || p.Example != "a" || len(p.Extensions) != 0 || len(op.Extensions) != 0 {
		t.Errorf("parameter %v, extensions %v", op.Parameters[0].Value, op.Extensions)
	}
}

// What an annotation gets wrong is an error, not a gap in the document.
func TestConvertRefuses(t *testing.T) {
	for name, attribute := range map[string]string{
		"unknown schema":     `"x-media-200":{"application/json":"Nope"}`,
		"unknown answer":     `"x-media-204":{"application/json":"Problem"}`,
		"request, no body":   `"x-media-request":{"application/json":"Problem"}`,
		"unknown error code": `"x-errors":[12345]`,
	} {
		_, err := convert([]byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{
			"/a":{"get":{"operationId":"p","summary":"s","description":"d","tags":["t"],"responses":{"200":{"description":"ok"}},` + attribute + `}},
			"/-/schemas":{"get":{"responses":{"200":{"description":"","schema":{"$ref":"#/definitions/schema.Problem"}}}}}},
			"definitions":{"schema.Problem":{"type":"object"}}}`))
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func committed(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// swag empties or mistypes a schema without a word: `value` must be any JSON, a
// header's value base64 text, an offset 64 bits.
func TestH59_ValueIsAnyJSON(t *testing.T) {
	schemas := committed(t).Components.Schemas
	for _, name := range []string{"Record", "ProduceRecord"} {
		for _, member := range []string{"key", "value"} {
			p := schemas[name].Value.Properties[member]
			if p == nil {
				t.Fatalf("%s has no %s", name, member)
			}
			for _, v := range []any{nil, "x", 1.5, true, []any{1.0, nil, "x", []any{nil}}, map[string]any{"a": nil}} {
				if err := p.Value.VisitJSON(v); err != nil {
					t.Errorf("%s.%s refuses %v: %v", name, member, v, err)
				}
			}
			if all := p.Value.AllOf; p.Value.Type != nil || len(all) != 1 || all[0].Ref != componentPrefix+"AnyJSON" {
				t.Errorf("%s.%s is %v, want any JSON", name, member, p.Value)
			}
		}
	}
	if v := schemas["Header"].Value.Properties["value"].Value; !v.Type.Is("string") || v.Format != "byte" || !v.Nullable {
		t.Errorf("Header.value is %v %s", v.Type, v.Format)
	}
	if o := schemas["Record"].Value.Properties["offset"].Value; !o.Type.Is("integer") || o.Format != "int64" {
		t.Errorf("Record.offset is %v %s", o.Type, o.Format)
	}
	for name, s := range schemas {
		if s.Value.Type.Is("object") && len(s.Value.Properties) == 0 && s.Value.AdditionalProperties.Schema == nil {
			t.Errorf("schema %s is empty", name)
		}
	}
}
