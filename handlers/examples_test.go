package handlers

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// examplesFile holds the exchanges that the OpenAPI document shows.
const examplesFile = "../openapi/examples.json"

// exchangeExample is one of them; openapi/gen reads the same form.
type exchangeExample struct {
	Operation string `json:"operation"`
	Name      string `json:"name"`
	Request   struct {
		Method string            `json:"method"`
		Target string            `json:"target"`
		Header map[string]string `json:"header,omitempty"`
		JSON   json.RawMessage   `json:"json,omitempty"`
		Text   *string           `json:"text,omitempty"`
	} `json:"request"`
	Answer exampleAnswer `json:"answer"`
}

type exampleAnswer struct {
	Status    int             `json:"status"`
	MediaType string          `json:"media_type,omitempty"`
	JSON      json.RawMessage `json:"json,omitempty"`
	Text      *string         `json:"text,omitempty"`
}

// The document's examples are what a broker answers, one after the other. With
// HIGHWATER_UPDATE_EXAMPLES=1 the test writes the answers instead; generate the
// document anew then.
func TestExamplesWork(t *testing.T) {
	raw, err := os.ReadFile(examplesFile)
	must(t, err)
	var list []exchangeExample
	must(t, json.Unmarshal(raw, &list))
	b := startBroker(t, withHandlers(func(c *Config) { c.Version = "0.1.0" }))
	update := os.Getenv("HIGHWATER_UPDATE_EXAMPLES") != ""
	shown := map[string]bool{}
	for i := range list {
		x := &list[i]
		got := b.exampleAnswer(x)
		shown[x.Operation] = true
		switch {
		case got.Status != x.Answer.Status:
			t.Errorf("%s, %s: %d, want %d: %s", x.Operation, x.Name, got.Status, x.Answer.Status, got.JSON)
		case update:
			x.Answer = got
		case !sameExample(&got, &x.Answer):
			t.Errorf("%s, %s: answered %s %s %v, the example says %s %s %v", x.Operation, x.Name,
				got.MediaType, got.JSON, got.Text, x.Answer.MediaType, x.Answer.JSON, x.Answer.Text)
		}
	}
	for _, item := range loadContract().doc.Paths.Map() {
		for _, op := range item.Operations() {
			switch op.OperationID {
			case "getOpenAPI", "getDocs", "getConsole", "getMetrics": // pages and figures, too long to show
			default:
				if !shown[op.OperationID] {
					t.Errorf("%s has no example", op.OperationID)
				}
			}
		}
	}
	if update && !t.Failed() {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		must(t, e.Encode(list))
		must(t, os.WriteFile(examplesFile, out.Bytes(), 0o644))
	}
}

// exampleAnswer runs an exchange and returns its answer, what differs from run to
// run in a fixed form.
func (b *testBroker) exampleAnswer(x *exchangeExample) exampleAnswer {
	b.t.Helper()
	var body any
	switch {
	case x.Request.JSON != nil:
		body = []byte(x.Request.JSON)
	case x.Request.Text != nil:
		body = *x.Request.Text
	}
	var change []request
	for name, value := range x.Request.Header {
		change = append(change, header(name, value))
	}
	a := b.do(x.Request.Method, x.Request.Target, body, change...)
	out := exampleAnswer{Status: a.status}
	if len(a.body) == 0 || a.status == http.StatusNoContent {
		return out
	}
	text := settled(strings.ReplaceAll(string(a.body), b.url, "http://127.0.0.1:8080"))
	out.MediaType, _, _ = mime.ParseMediaType(a.header.Get("Content-Type"))
	if strings.HasSuffix(out.MediaType, "json") && !strings.Contains(out.MediaType, "ndjson") {
		out.JSON = json.RawMessage(text)
	} else {
		out.Text = &text
	}
	return out
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	figures = regexp.MustCompile(`"(last_caught_up_ms|term)":\d+`)
)

// settled replaces ids and times of one run.
func settled(body string) string {
	body = uuids.ReplaceAllString(body, "7d2f6a8e-1c94-4b1f-9a53-0e6b8c1d2f34")
	return figures.ReplaceAllString(body, `"$1":1`)
}

func sameExample(a, b *exampleAnswer) bool {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return a.MediaType == b.MediaType && text(a.Text) == text(b.Text) && compactJSON(a.JSON) == compactJSON(b.JSON)
}

func compactJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) > 0 && json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}
