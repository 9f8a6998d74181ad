package handlers

import "net/http"

// consolePolicy: everything from this broker, and no inline script or style: what
// records hold can't become code (H55).
const consolePolicy = "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'"

func (a *api) consoleRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/console", handle: a.getConsole},
		{method: http.MethodGet, pattern: "/console/*", handle: a.getConsoleFile, hidden: true},
	}
}

// getConsole answers GET /console/, with or without the slash.
//
//	@ID				getConsole
//	@Summary		Web console
//	@Description	A page to look at topics, partitions and records, to produce, and to follow a topic live. It uses the API of this document only.
//	@Tags			about
//	@Success		200	{string}	string	"The page."
//	@Header			200	{string}	ETag	"Changes with the page."
//	@Success		304	"Not modified: the ETag in `If-None-Match` is the current one."
//	@x-media-200	{"text/html":"text"}
//	@Router			/console [get]
func (a *api) getConsole(w http.ResponseWriter, r *http.Request) error {
	return a.console.servePage(w, r, "console")
}

func (a *api) getConsoleFile(w http.ResponseWriter, r *http.Request) error {
	return a.console.serve(w, r, pathSegment(r, "*"))
}
