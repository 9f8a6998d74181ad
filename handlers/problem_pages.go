package handlers

import (
	"html"
	"net/http"
	"strconv"
)

// problemPageTypes are the representations of a problem's page.
var problemPageTypes = []string{"application/json", "text/html", "text/plain"}

// getProblem answers GET /problems/{slug}: what an error's type means.
//
//	@ID				getProblem
//	@Summary		What a problem type means
//	@Description	The page behind the `type` of an error's body.
//	@Tags			about
//	@Param			slug	path		string	true	"Last segment of an error's `type`."	minlength(1)	maxlength(100)	example(unknown-topic)
//	@Success		200		{object}	schema.ProblemType	"The problem type."
//	@x-media-200	{"application/json":"ProblemType","text/html":"text","text/plain":"text"}
//	@x-errors		[40404,40601]
//	@Router			/problems/{slug} [get]
func (a *api) getProblem(w http.ResponseWriter, r *http.Request) error {
	slug := pathSegment(r, "slug")
	c := classBySlug(slug)
	if c == nil {
		return &requestError{code: codeNotFound, detail: "There is no problem type " + shown(slug) + "."}
	}
	as, err := negotiate(r, problemPageTypes...)
	if err != nil {
		return err
	}
	var body []byte
	switch as {
	case "text/html":
		as = "text/html; charset=utf-8"
		body = append(body, "<!doctype html><html lang=en><meta charset=utf-8><title>"+html.EscapeString(c.title)+"</title>"...)
		body = append(body, "<h1>"+html.EscapeString(c.title)+"</h1><p>"+html.EscapeString(c.about)+"</p>"...)
		body = append(body, "<p>HTTP status "+strconv.Itoa(c.code.status())+", error_code "+strconv.Itoa(int(c.code))+", Kafka's "+c.kafka+"; "+retriableText(c.retriable)+".</p></html>\n"...)
	case "text/plain":
		as = "text/plain; charset=utf-8"
		body = append(body, c.title+"\n\n"+c.about+"\n\nHTTP status "+strconv.Itoa(c.code.status())+", error_code "+strconv.Itoa(int(c.code))+
			", Kafka's "+c.kafka+"; "+retriableText(c.retriable)+".\n"...)
	default:
		body = append(body, `{"type":"/problems/`+c.slug+`","title":`...)
		body = appendString(body, c.title)
		body = append(body, `,"status":`+strconv.Itoa(c.code.status())+`,"error_code":`+strconv.Itoa(int(c.code))+`,"kafka_error":"`+c.kafka+`","retriable":`+strconv.FormatBool(c.retriable)+`,"about":`...)
		body = appendString(body, c.about)
		body = append(body, "}\n"...)
	}
	h := w.Header()
	h["Content-Type"] = []string{as}
	h["Cache-Control"] = []string{"max-age=3600"}
	h["Vary"] = []string{"Accept"}
	_, err = w.Write(body)
	return err
}

func retriableText(retriable bool) string {
	if retriable {
		return "the same request may succeed later"
	}
	return "the same request will fail again"
}
