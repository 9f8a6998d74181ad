package handlers

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"highwater/replication/controller"
)

// handler answers one request or returns why not; the frame says the error.
// Once it has written a part of the answer an error ends the connection.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is one line of the routing table. GET routes answer HEAD too.
type route struct {
	method  string
	pattern string // chi's: {name} is one segment, a last /* is the rest
	handle  handler
	// writes: errors tell their outcome, and a draining broker refuses it unless
	// others have taken over.
	writes bool
	// alters: it makes, changes or deletes the topic.
	alters bool
	// frequent routes may be asked tens of thousands of times a second: a success
	// is logged at debug. So is that of every GET.
	frequent bool
	// readsBody: a GET that has a use for a body.
	readsBody bool
	// hidden routes are no part of the published API.
	hidden bool
}

// routes is the whole table, room by room. The OpenAPI document is compared
// with it, each way.
func (a *api) routes() []route {
	return slices.Concat(a.produceRoutes(), a.readRoutes(), a.consumerRoutes(), a.docsRoutes(), a.consoleRoutes(), a.frameRoutes())
}

func (a *api) frameRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/problems/{slug}", handle: a.getProblem},
		{method: http.MethodGet, pattern: "/metrics", handle: a.getMetrics},
	}
}

// Route names one operation of the published API.
type Route struct {
	Method  string // as in the table; HEAD and OPTIONS come for free
	Pattern string // segments in braces are parameters
}

// Routes lists the published API of a handler made by New.
func Routes(h http.Handler) []Route {
	var out []Route
	for _, rt := range h.(*api).routes() {
		if !rt.hidden {
			out = append(out, Route{Method: rt.method, Pattern: rt.pattern})
		}
	}
	return out
}

// internalPrefix is where brokers talk to each other; it is never a client's.
const internalPrefix = "/internal"

// routedMethods are the methods that a route may have, in the order of Allow.
var routedMethods = []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut}

func newMux(a *api, routes []route) http.Handler {
	mux := chi.NewRouter()
	for _, rt := range routes {
		h := a.routed(rt)
		mux.Method(rt.method, rt.pattern, h)
		if rt.method == http.MethodGet {
			mux.Method(http.MethodHead, rt.pattern, h)
		}
	}
	other := func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, a.unrouted(mux, w, r))
	}
	mux.NotFound(other)
	mux.MethodNotAllowed(other)
	return mux
}

// routed puts what every routed request needs around a handler.
func (a *api) routed(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.route, x.writes, x.frequent = rt.pattern, rt.writes, rt.frequent || rt.method == http.MethodGet
		if err := a.serveRoute(x, r, &rt); err != nil {
			a.fail(w, r, err)
		}
	}
}

func (a *api) serveRoute(x *exchange, r *http.Request, rt *route) error {
	if rt.writes && a.cfg.Broker.Draining() {
		return errDraining
	}
	if rt.method == http.MethodGet && r.ContentLength != 0 && !rt.readsBody {
		// An unread body would keep r.Context from ending when the client leaves.
		if err := a.discardBody(x, r); err != nil {
			return err
		}
	}
	if err := a.hearOf(r, rt); err != nil {
		return err
	}
	return rt.handle(x, r)
}

// hearOf sees to it that this broker knows of a topic that another one has created,
// or given more partitions: who was answered there may ask here at once. Without a
// quorum to ask nobody can tell; controller.ErrNoController then, as "no such topic" may
// be wrong. Who changes the topic itself asks for more (replication: PutTopic, AlterTopic, DeleteTopic).
func (a *api) hearOf(r *http.Request, rt *route) error {
	name := pathSegment(r, "topic")
	if rt.alters || !validTopicName(name) {
		return nil
	}
	if t, ok := a.cfg.Broker.State().Topic(name); ok {
		if num, err := strconv.Atoi(pathSegment(r, "partition")); err != nil || num < len(t.Partitions) {
			return nil
		}
	}
	return a.cfg.Broker.Hear(r.Context())
}

// heardTopic is the topic of that name, asked for once more of those who may know
// better when this broker doesn't know it, or that partition of it.
func (a *api) heardTopic(ctx context.Context, name string, partition int32) (*controller.Topic, error) {
	t, err := a.cfg.Broker.Topic(name)
	if err == nil && int(partition) < len(t.Partitions) {
		return t, nil
	}
	if err := a.cfg.Broker.Hear(ctx); err != nil {
		return nil, err
	}
	return a.cfg.Broker.Topic(name)
}

// unrouted answers OPTIONS, or says why no route took the request.
func (a *api) unrouted(mux *chi.Mux, w http.ResponseWriter, r *http.Request) error {
	path := r.URL.EscapedPath()
	if r.URL.RawPath != "" {
		path = r.URL.RawPath
	}
	if path == internalPrefix || strings.HasPrefix(path, internalPrefix+"/") {
		return &requestError{code: codeForbidden, detail: "/internal/ is for the brokers of this cluster; this request does not come from one."}
	}
	allow := allowedMethods(mux, path)
	if len(allow) == 0 {
		return a.nothingAt(path, a.baseURL(r))
	}
	line := strings.Join(allow, ", ")
	w.Header()["Allow"] = []string{line}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &requestError{code: codeMethodNotAllowed, detail: "This resource does not answer " + shown(r.Method) + ". It answers " + line + ".",
		fix: "Use one of: " + line + "."}
}

// nothingAt says that no resource is at the path, and which one may be meant.
func (a *api) nothingAt(path, base string) error {
	topic, id, _ := strings.Cut(path, "/messages/")
	if name, ok := strings.CutPrefix(topic, "/topics/"); ok && !strings.Contains(name, "/") && strings.Contains(id, "/") {
		e := malformed("A message id is one part of the path, and this one has a slash.")
		e.fix = "Write a slash of the id as %2F: " + base + topic + "/messages/" + strings.ReplaceAll(id, "/", "%2F")
		return e
	}
	detail, fix := "There is no resource under this path.", ""
	if near := nearestPath(path, Routes(a)); near != "" {
		fix = "Perhaps " + base + near + " is meant — "
	}
	return &requestError{code: codeNotFound, detail: detail, fix: fix + "every path is on the page " + base + "/docs/ and in " + base + "/openapi.json"}
}

// allowedMethods is the sorted value of Allow, empty when nothing is at path.
func allowedMethods(mux *chi.Mux, path string) []string {
	var out []string
	for _, m := range routedMethods {
		if mux.Match(chi.NewRouteContext(), m, path) {
			out = append(out, m)
			if m == http.MethodGet {
				out = append(out, http.MethodHead)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	out = append(out, http.MethodOptions)
	slices.Sort(out)
	return out
}

// canonical returns r such that chi matches the escaped path with every segment
// in one spelling: decoded once, then all but unreserved bytes escaped. So %2F
// stays inside its segment, and pathSegment gets back what the client meant,
// whichever of Path and RawPath chi looks at. A trailing slash is dropped.
func canonical(r *http.Request) (*http.Request, error) {
	escaped := r.URL.EscapedPath()
	if r.URL.RawPath == "" && plainPath(escaped) {
		return r, nil
	}
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	if len(segments) > 1 && segments[len(segments)-1] == "" {
		segments = segments[:len(segments)-1]
	}
	var out strings.Builder
	for _, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return nil, malformed("The path holds a malformed percent escape.")
		}
		switch {
		case plain == "" && len(segments) > 1:
			return nil, malformed("The path holds an empty segment.")
		case plain == "." || plain == "..":
			return nil, malformed("The path holds a segment . or .., which is not resolved here.")
		case !utf8.ValidString(plain):
			return nil, malformed("A path segment is not UTF-8 after percent-decoding.")
		case strings.ContainsFunc(plain, isControl):
			return nil, malformed("A path segment holds a control character.")
		}
		out.WriteByte('/')
		writeEscaped(&out, plain)
	}
	r2 := new(http.Request)
	*r2 = *r
	u := *r.URL
	u.RawPath = out.String()
	r2.URL = &u
	return r2, nil
}

func isControl(c rune) bool { return c < 0x20 || c == 0x7f }

// plainPath says that chi may match path as it is.
func plainPath(path string) bool {
	if path == "/" {
		return true
	}
	last := byte(0)
	for i := range len(path) {
		c := path[i]
		if c == '/' && last == '/' || c != '/' && !unreserved(c) || c == '.' && last == '/' {
			return false
		}
		last = c
	}
	return last != '/' && path != "" && path[0] == '/'
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~'
}

func writeEscaped(out *strings.Builder, plain string) {
	const hex = "0123456789ABCDEF"
	for i := range len(plain) {
		if c := plain[i]; unreserved(c) {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		}
	}
}

// pathSegment is a path parameter, decoded. It is the only place that decodes one.
func pathSegment(r *http.Request, name string) string {
	plain, err := url.PathUnescape(chi.URLParam(r, name))
	if err != nil {
		panic(err) // canonical escaped it
	}
	return plain
}

// topicName is the path's {topic}, checked: *controller.InvalidNameError for
// what can be no topic, so that it is refused the same way on every route.
func topicName(r *http.Request) (string, error) {
	name := pathSegment(r, "topic")
	if !validTopicName(name) {
		return "", badTopicName(name)
	}
	return name, nil
}

// badTopicName says why a name that validTopicName refuses is none.
func badTopicName(name string) error {
	if err := controller.CheckTopicName(name); err != nil {
		return err
	}
	panic("handlers: the controller takes a topic name that the router refuses")
}

// maxTopicNameBytes is Kafka's limit.
const maxTopicNameBytes = 249

func validTopicName(name string) bool {
	if name == "" || len(name) > maxTopicNameBytes || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !unreserved(c) || c == '~' {
			return false
		}
	}
	return true
}

// partitionNumber is the path's {partition}: a plain decimal int32. Whatever
// else stands there names no partition (40402).
func partitionNumber(r *http.Request) (int32, error) {
	text := pathSegment(r, "partition")
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, &requestError{code: codeUnknownPartition, detail: "A partition is named by its number (0, 1, …), not by " + shown(text) + "."}
	}
	return int32(n), nil
}

// topicPartition reads {topic} and {partition}.
func topicPartition(r *http.Request) (topic string, partition int32, err error) {
	if topic, err = topicName(r); err != nil {
		return "", 0, err
	}
	partition, err = partitionNumber(r)
	return topic, partition, err
}
