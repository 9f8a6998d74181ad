// Package web is what a person sees: the console's files.
package web

import (
	"embed"
	"io/fs"
)

//go:embed console
var console embed.FS

// Console are the files of the console page.
func Console() fs.FS {
	sub, err := fs.Sub(console, "console")
	if err != nil {
		panic(err) // only if the name above were no valid path
	}
	return sub
}
