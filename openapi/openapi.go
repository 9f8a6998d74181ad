// Package openapi is the written contract: the OpenAPI document generated from
// the handlers' annotations, and the page that shows it. README.md tells how to
// annotate.
package openapi

import _ "embed"

//go:generate go run ./gen

// Document is the OpenAPI 3.0.3 document as generated, servers `/`. It is
// shared: nobody may write to it.
//
//go:embed openapi.json
var Document []byte
