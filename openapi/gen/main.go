// Command gen writes openapi/openapi.json from the annotations in server and
// handlers: swag makes Swagger 2.0 of them, kin-openapi turns that into OpenAPI 3,
// and the passes in this folder add what Swagger 2.0 can't say.
//
// It is run by `go generate ./openapi` (in the folder openapi).
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// documentFile is the committed result, relative to the module's root.
const documentFile = "openapi/openapi.json"

func main() {
	root, err := filepath.Abs("..")
	if err == nil {
		err = run(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string) error {
	doc, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, documentFile), doc, 0o644)
}

// generate returns the document for the module at root.
func generate(root string) ([]byte, error) {
	swagger, err := runSwag(root)
	if err != nil {
		return nil, err
	}
	doc, err := convert(swagger)
	if err != nil {
		return nil, err
	}
	examples, err := readExamples(filepath.Join(root, examplesFile))
	if err != nil {
		return nil, err
	}
	if err := addExamples(doc, examples); err != nil {
		return nil, err
	}
	return encode(doc)
}
