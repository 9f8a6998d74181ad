package openapi

import (
	"embed"
	"io/fs"
)

// Swagger UI's bundle and style sheet lie gzipped, as they are served; the other
// files of the page are as written. CHECKSUMS tells what was vendored.
//
//go:embed ui
var ui embed.FS

// UI are the files of the docs page. A name ending in .gz holds the file of the
// name before it.
func UI() fs.FS {
	sub, err := fs.Sub(ui, "ui")
	if err != nil {
		panic(err) // only if the name above were no valid path
	}
	return sub
}
