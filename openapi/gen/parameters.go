package main

import (
	"encoding/json"
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// Numbers as parameters spell them: no sign, no leading zero.
const (
	offsetPattern = `(0|[1-9][0-9]{0,18})`
	instantDigits = `(0|[1-9][0-9]{0,13}|1[0-9]{14}|2[0-4][0-9]{13}|25[0-2][0-9]{12}|253[0-3][0-9]{11}|253402300799999)` // to the end of the year 9999
	monthDay      = `((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))`
	rfc3339       = `(19[7-9][0-9]|[2-9][0-9]{3})-` + monthDay + `T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
	relativeTime  = `-[0-9]{1,6}(ms|s|m|h)`
	idPattern     = `[!#-~]([ -~]*[!-~])?`
	position      = `(0|[1-9][0-9]{0,8}):` + offsetPattern
)

// patternOf a parameter, "" when it has none. They stand here by name, as swag
// drops `pattern`.
func patternOf(parameter, operation string) string {
	switch parameter {
	case "topic":
		return `^[a-zA-Z0-9._-]{1,249}$`
	case "group":
		return `^[a-zA-Z0-9._-]{1,255}$`
	case "instance", "member":
		return `^[a-zA-Z0-9._-]{1,255}(~[0-9]+)?$`
	case "topics":
		return `^[a-zA-Z0-9._-]{1,249}(,[a-zA-Z0-9._-]{1,249})*$`
	case "request_id":
		return `^[a-zA-Z0-9._~:/+=@-]{1,128}$`
	case "slug":
		return `^[a-z]+(-[a-z]+)*$`
	case "Message-Id":
		return `^` + idPattern + `$`
	case "Idempotency-Key": // also in quotes, as a structured field
		return `^("[ !#-~]+"|` + idPattern + `)$`
	case "timestamp":
		return `^(` + instantDigits + `|` + rfc3339 + `|` + relativeTime + `)$`
	case "offset":
		if operation == "fetch" {
			return `^(` + offsetPattern + `|-[1-9][0-9]{0,18}|earliest|latest)$`
		}
	case "before_offset":
		return `^(` + offsetPattern + `|high_watermark)$`
	case "position":
		return `^` + position + `(,` + position + `)*$`
	}
	return ""
}

func finishParameter(op *openapi3.Operation, p *openapi3.Parameter) {
	p.Example = p.Extensions[exampleExtension]
	p.Extensions = without(p.Extensions, exampleExtension)
	if p.Schema != nil && p.Schema.Value != nil {
		p.Schema.Value.Pattern = patternOf(p.Name, op.OperationID)
	}
}

// exampleExtension carries a parameter's example through the conversion: Swagger
// 2.0 has no such member, although swag writes it.
const exampleExtension = "x-example"

// markExamples renames the `example` of parameters to exampleExtension.
func markExamples(swagger []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(swagger, &doc); err != nil {
		return nil, fmt.Errorf("gen: swagger: %w", err)
	}
	paths, _ := doc["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for _, op := range operations {
			operation, _ := op.(map[string]any)
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				if parameter, ok := p.(map[string]any); ok && parameter["example"] != nil {
					parameter[exampleExtension] = parameter["example"]
					delete(parameter, "example")
				}
			}
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("gen: swagger: %w", err)
	}
	return out, nil
}

func finishHeaders(r *openapi3.Response) {
	for _, h := range r.Headers {
		if s := h.Value.Schema; s != nil && s.Value.Type.Is(openapi3.TypeInteger) && s.Value.Format == "" {
			s.Value.Format = "int64"
		}
	}
}
