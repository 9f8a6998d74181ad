package main

import (
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
	p.Extensions = without(p.Extensions, "x-example")
	if p.Schema == nil || p.Schema.Value == nil {
		return
	}
	s := p.Schema.Value
	s.Pattern = patternOf(p.Name, op.OperationID)
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
