package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"highwater/openapi"
)

// contract is the OpenAPI document as a judge of real traffic. Every exchange of
// the tests' client goes past it: an answer must be documented with its status,
// media type, headers and body, and a request that succeeded must be documented
// too. That a refused request breaks the document is the point of many tests.
type contract struct {
	doc *openapi3.T

	mu   sync.Mutex      // guards seen
	seen map[string]bool // "operation status" of every judged answer
}

// loadContract returns the one judge; it is made once, as validation itself
// changes nothing in it.
var loadContract = sync.OnceValue(func() *contract {
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	if err != nil {
		panic(err)
	}
	for name, s := range doc.Components.Schemas {
		if name != "OpenAPI" { // has a specification of its own
			forbidUndocumented(s.Value)
		}
	}
	for _, media := range []string{typeJSON, problemJSON, typeKafka, typeKafkaJSON, typeKafkaBinary, typeKafkaText, typeEvent, typeEvents} {
		openapi3filter.RegisterBodyDecoder(media, decodeJSON)
	}
	for _, media := range []string{typeNDJSON, typeSSE, typeOctets, "text/html", "text/plain", "*/*"} {
		openapi3filter.RegisterBodyDecoder(media, decodeText)
	}
	return &contract{doc: doc, seen: map[string]bool{}}
})

const problemJSON = "application/problem+json"

// forbidUndocumented makes an unknown member an error. The published document
// leaves that open, as members may be added.
func forbidUndocumented(s *openapi3.Schema) {
	if len(s.Properties) > 0 && s.AdditionalProperties.Has == nil && s.AdditionalProperties.Schema == nil {
		no := false
		s.AdditionalProperties.Has = &no
	}
}

// decodeJSON is lenient about numbers that no float64 holds: a value is any JSON.
func decodeJSON(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	d := json.NewDecoder(body)
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return floats(v), nil
}

func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return math.MaxFloat64
		}
		return f
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

func decodeText(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	data, err := io.ReadAll(body)
	return string(data), err
}

// route finds the operation of a request, nil when the document has none.
func (c *contract) route(method string, u *url.URL) (*routers.Route, map[string]string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	got := strings.Split(strings.Trim(u.EscapedPath(), "/"), "/")
	for path, item := range c.doc.Paths.Map() {
		op := item.GetOperation(method)
		want := strings.Split(strings.Trim(path, "/"), "/")
		if op == nil || len(want) != len(got) {
			continue
		}
		params := map[string]string{}
		matches := true
		for i := range want {
			if name, ok := strings.CutPrefix(want[i], "{"); ok {
				plain, err := url.PathUnescape(got[i])
				matches = matches && err == nil && plain != ""
				params[strings.TrimSuffix(name, "}")] = plain
			} else {
				matches = matches && want[i] == got[i]
			}
		}
		if matches {
			return &routers.Route{Spec: c.doc, Path: path, PathItem: item, Method: method, Operation: op}, params
		}
	}
	return nil, nil
}

// maxJudgedBytes bounds the bodies that are validated: the bulk tests' are many
// records of one kind.
const maxJudgedBytes = 256 << 10

// judge returns what the exchange has that the document doesn't.
func (c *contract) judge(r *http.Request, sent []byte, a *answer) error {
	route, params := c.route(r.Method, r.URL)
	if route == nil {
		return nil // the router's own 404 and 405; TestEveryRouteIsDocumented has the rest
	}
	c.mu.Lock()
	c.seen[route.Operation.OperationID+" "+strconv.Itoa(a.status)] = true
	c.mu.Unlock()
	options := &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true,
		ExcludeResponseBody: r.Method == http.MethodHead || a.status == http.StatusPartialContent || len(a.body) > maxJudgedBytes || a.header.Get("Content-Encoding") != "",
		// OpenAPI can't say that with ce- headers a body of any type is the data of an event.
		ExcludeRequestBody: sent == nil || len(sent) > maxJudgedBytes || r.Header.Get("Content-Encoding") != "" || eventModeOf(r) == binaryEvent}
	in := r.Clone(context.Background())
	in.Body = io.NopCloser(bytes.NewReader(sent))
	if in.Header.Get("Content-Type") == "" {
		in.Header.Set("Content-Type", typeJSON) // as the broker takes it
	}
	input := &openapi3filter.RequestValidationInput{Request: in, PathParams: params, Route: route, Options: options}
	if a.status < http.StatusMultipleChoices {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil && !tolerated(err) {
			return fmt.Errorf("a request that succeeded is not documented: %s", brief(err))
		}
	}
	header := a.header.Clone()
	if a.status >= http.StatusBadRequest && strings.HasPrefix(header.Get("Content-Type"), "application/vnd.kafka.") {
		header.Set("Content-Type", problemJSON) // the label follows Accept, the body does not
	}
	output := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: a.status, Header: header, Options: options}
	if a.status == http.StatusPartialContent {
		output.Status = http.StatusOK // net/http's own doing, on embedded files
	}
	output.SetBodyBytes(a.body)
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		return fmt.Errorf("the answer is not documented: %s", brief(err))
	}
	if err := named(route.Operation.Responses.Status(output.Status).Value, a); err != nil {
		return err
	}
	if options.ExcludeResponseBody || a.status != http.StatusOK {
		return nil
	}
	return c.judgeRecords(header.Get("Content-Type"), a.body)
}

// named fails unless the description of an answer names the error code, and its
// headers those of Highwater's own that a success has.
func named(documented *openapi3.Response, a *answer) error {
	if a.status == http.StatusOK {
		for name := range a.header {
			if strings.HasPrefix(name, "Highwater-") && documented.Headers[name] == nil {
				return fmt.Errorf("the header %s is not documented", name)
			}
		}
	}
	var p struct {
		Code int `json:"error_code"`
	}
	if a.status < http.StatusBadRequest || json.Unmarshal(a.body, &p) != nil {
		return nil // of a HEAD, say
	}
	if !strings.Contains(*documented.Description, "`"+strconv.Itoa(p.Code)+"`") {
		return fmt.Errorf("%d is not documented as a reason for %d", p.Code, a.status)
	}
	return nil
}

// tolerated are wishes beyond an int64: they are understood, although the
// document has plain integers.
func tolerated(err error) bool {
	return strings.Contains(brief(err), "an invalid integer: value out of range")
}

// brief leaves out the schema and the value that kin prints along.
func brief(err error) string {
	text := err.Error()
	if at := strings.Index(text, "\nSchema:"); at >= 0 {
		text = text[:at]
	}
	return text[:min(len(text), 500)]
}

// judgeRecords validates the records of line-framed answers.
func (c *contract) judgeRecords(contentType string, body []byte) error {
	media, _, _ := mime.ParseMediaType(contentType)
	prefix := ""
	switch media {
	case typeNDJSON:
	case typeSSE:
		prefix = "data: "
	default:
		return nil
	}
	schema := c.doc.Components.Schemas["Record"].Value
	for line := range bytes.Lines(body) {
		line, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(prefix))
		if !ok || len(line) == 0 {
			continue
		}
		v, err := decodeJSON(bytes.NewReader(line), nil, nil, nil)
		if err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		if object, ok := v.(map[string]any); !ok || object["offset"] == nil {
			continue // a control event
		}
		if err := schema.VisitJSON(v); err != nil {
			return fmt.Errorf("a record is not as documented: %s", brief(err))
		}
	}
	return nil
}

// unseen lists the documented answers that no test has got, but for those that
// take a fault of the broker or its disk, or a client's patience.
func (c *contract) unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, item := range c.doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, status := range op.Responses.Keys() {
				name := op.OperationID + " " + status
				switch {
				case c.seen[name], status >= "500":
				case status == "207", status == "408": // partitions that fail apart; a body that takes 30 s
				case name == "fetch 409": // an unclean leader change
				case name == "subscribe 429": // more than 10,000 partitions
				case name == "initProducer 429": // 100,000 transactional ids
				case name == "patchTopic 409": // changes that cross each other again and again
				default:
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestMain fails a run of all tests when a documented answer was got by none of
// them: the document lists what is seen (H59).
func TestMain(m *testing.M) {
	code := m.Run()
	given := func(name string) bool { return flag.Lookup(name).Value.String() != flag.Lookup(name).DefValue }
	if code == 0 && !given("test.run") && !given("test.skip") && !given("test.fuzz") && !given("test.list") {
		if unseen := loadContract().unseen(); len(unseen) > 0 {
			fmt.Printf("documented answers that no test got: %s\n", strings.Join(unseen, ", "))
			code = 1
		}
	}
	os.Exit(code)
}

// Every route of the router is in the document, and the other way round (H59).
func TestH59_EveryRouteIsDocumented(t *testing.T) {
	b := startBroker(t)
	var routed, documented []string
	for _, rt := range Routes(b.handler) {
		routed = append(routed, rt.Method+" "+rt.Pattern)
	}
	for path, item := range loadContract().doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+unslashed(path))
		}
	}
	slices.Sort(routed)
	slices.Sort(documented)
	for _, rt := range routed {
		if !slices.Contains(documented, rt) {
			t.Errorf("%s is routed and not documented", rt)
		}
	}
	for _, op := range documented {
		if !slices.Contains(routed, op) {
			t.Errorf("%s is documented and not routed", op)
		}
	}
}

// unslashed: a path with a slash at its end is the same resource.
func unslashed(path string) string {
	if path == "/" {
		return path
	}
	return strings.TrimSuffix(path, "/")
}

// Every error code that the document speaks of is one of the table, under the
// status that belongs to it, and every code of the table is spoken of.
func TestH59_ErrorCodesAreThoseOfTheTable(t *testing.T) {
	spoken := map[code]bool{}
	for path, item := range loadContract().doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if status < "400" {
					continue
				}
				for _, part := range strings.Split(*r.Value.Description, "`") {
					n, err := strconv.Atoi(part)
					if err != nil {
						continue
					}
					spoken[code(n)] = true
					if status != strconv.Itoa(n/100) || !slices.ContainsFunc(classes[:], func(c class) bool { return c.code == code(n) }) {
						t.Errorf("%s %s: %s tells of %d", method, path, status, n)
					}
				}
			}
		}
	}
	for _, c := range classes {
		switch c.code {
		case codeMethodNotAllowed, codeForbidden: // of the router, of no operation
		default:
			if !spoken[c.code] {
				t.Errorf("no operation tells of %d", c.code)
			}
		}
	}
}

// Each operation refuses what it must, with a documented answer.
func TestH59_DocumentedRefusals(t *testing.T) {
	b := startBroker(t, withHandlers(func(c *Config) { c.MaxRequestBytes = 4096 }))
	b.topic("t", 2)
	b.post("/topics/t?acks=-1", `{"records":[{"value":1,"partition":0}]}`).want(http.StatusOK)
	const records = "/topics/t/partitions/0/records"
	for _, path := range []string{"/cluster", "/brokers", "/topics", "/topics/t", "/topics/t/records", "/topics/t/partitions",
		"/topics/t/partitions/0", "/topics/t/partitions/0/offsets", records} {
		b.get(path + "?nothing=1").problem(40001)
	}
	for _, path := range []string{"/", "/openapi.json", "/docs", "/console", "/metrics", "/healthz", "/readyz"} { // they take any query, but no body
		b.do(http.MethodGet, path, strings.Repeat("x", maxIgnoredBody+1)).problem(40001)
	}
	for _, path := range []string{"/topics/a%20b", "/topics/a%20b/records", "/topics/a%20b/partitions", "/topics/a%20b/partitions/0", "/topics/a%20b/partitions/0/offsets", "/topics/a%20b/partitions/0/records"} {
		b.get(path).problem(42201)
	}
	for _, path := range []string{records, "/topics/t/records", "/problems/unknown-topic"} {
		b.get(path, accept("image/png")).problem(40601)
	}
	b.do(http.MethodDelete, "/topics/t?nothing=1", nil).problem(40001)
	b.do(http.MethodDelete, "/topics/a%20b", nil).problem(42201)
	b.do(http.MethodDelete, "/topics/nope/partitions/0/records?before_offset=0", nil).problem(40401)
	b.do(http.MethodDelete, "/topics/a%20b/partitions/0/records?before_offset=0", nil).problem(42201)

	large := `{"configs":{"x":"` + strings.Repeat("x", maxControlBody) + `"}}`
	for _, call := range []struct{ method, path string }{{http.MethodPost, "/topics"}, {http.MethodPut, "/topics/t"}, {http.MethodPatch, "/topics/t"}} {
		b.do(call.method, call.path, large, ofType(typeJSON)).problem(41301)
		b.do(call.method, call.path, "{}", ofType("text/plain")).problem(41501)
	}
	two := ofType("a/b")
	b.post("/topics/t/records?acks=0", "x").want(http.StatusAccepted)
	for _, path := range []string{"/topics/t/partitions/1", "/topics/t/partitions/1/records"} {
		b.post(path+"?acks=0", `{"records":[{"value":1}]}`).want(http.StatusAccepted)
		b.post(path+"?expected_offset=99", `{"records":[{"value":1}]}`).problem(41201)
		b.post(path, `{"records":[{"value":"`+strings.Repeat("x", 4096)+`"}]}`).problem(41301)
		b.post(path, "x", two, two).problem(41501)
		b.post(strings.Replace(path, "/t/", "/a%20b/", 1), "{}").problem(42201)
	}
	for _, path := range []string{"/openapi.json", "/docs", "/console"} {
		b.get(path, header("If-None-Match", b.get(path).header.Get("Etag"))).want(http.StatusNotModified)
	}
}
