package handlers

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"highwater/replication"
	"highwater/replication/controller"
	"highwater/replication/group"
	"highwater/replication/wire"
)

// InternalConfig of an Internal.
type InternalConfig struct {
	Logger  zerolog.Logger
	Metrics *prometheus.Registry // nil: none
	// Secret is what brokers of the cluster prove themselves with; empty: those on
	// loopback addresses are believed, and nobody else.
	Secret string
	// Raft takes the connections of the quorum's members; nil: there are none.
	Raft RaftStream
	// MaxRequestBytes is what one client's request may hold (Config has the same):
	// a forwarded one can't be much more; 0: DefaultMaxRequestBytes.
	MaxRequestBytes int64
	// Draining is as in Config: long-polls are answered, and connections end behind
	// their answers. nil: never.
	Draining <-chan struct{}
}

// RaftStream takes the connections that members of the quorum make.
type RaftStream interface {
	// Deliver hands over a connection, of which read may hold the first bytes (K4), and
	// returns false when nobody wants it.
	Deliver(conn net.Conn, read *bufio.Reader) bool
}

// Internal is what the brokers of one cluster ask each other under /internal/: it
// serves as soon as the port is open, each path once the room behind it is there.
// Until then, and to strangers always, it refuses.
type Internal struct {
	cfg        InternalConfig
	secret     [sha256.Size]byte
	controller atomic.Pointer[controller.Controller]
	broker     atomic.Pointer[replication.Broker]
	groups     atomic.Pointer[group.Groups]
	bodies     limit // of request bodies held in memory, in bytes
	buffers    buffers
	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
}

// NewInternal makes the handler.
func NewInternal(cfg InternalConfig) *Internal {
	if cfg.MaxRequestBytes <= 0 {
		cfg.MaxRequestBytes = DefaultMaxRequestBytes
	}
	in := &Internal{cfg: cfg, secret: sha256.Sum256([]byte(cfg.Secret)), bodies: limit{most: max(maxBodyBytesInFlight, 4*cfg.MaxRequestBytes)}}
	in.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "highwater_internal_requests_total",
		Help: "Requests of other brokers, by path and status."}, []string{"path", "code"})
	in.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "highwater_internal_request_duration_seconds",
		Help:    "Time to answer other brokers; long-polls include their waiting.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"path"})
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(in.requests, in.seconds)
	}
	return in
}

// SetController opens the paths of the quorum. It may be called once.
func (in *Internal) SetController(c *controller.Controller) { in.controller.Store(c) }

// SetBroker opens the paths of replication. It may be called once.
func (in *Internal) SetBroker(b *replication.Broker) { in.broker.Store(b) }

// Before returns a handler that takes all under /internal/ and gives the rest to next.
func (in *Internal) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if IsInternal(r) {
			in.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// IsInternal tells whether a request is for an Internal. A path that only looks
// like one of its own after cleaning is not: next refuses it.
func IsInternal(r *http.Request) bool {
	return r.URL.Path == internalPrefix || strings.HasPrefix(r.URL.Path, internalPrefix+"/")
}

// internalCall answers one request that has proved itself. An error before the
// answer has begun is told by refuse.
type internalCall struct {
	path   string // behind wire.PathPrefix
	method string
	handle func(in *Internal, w http.ResponseWriter, r *http.Request) error
}

// internalCalls is the whole table.
var internalCalls = [...]internalCall{
	{wire.PathFetch, http.MethodPost, (*Internal).fetch},
	{wire.PathLeaderEpoch, http.MethodPost, (*Internal).leaderEpoch},
	{wire.PathAppend, http.MethodPost, (*Internal).append},
	{wire.PathRead, http.MethodPost, (*Internal).read},
	{wire.PathWatch, http.MethodPost, (*Internal).watch},
	{wire.PathOffsets, http.MethodPost, (*Internal).offsets},
	{wire.PathDeleteRecords, http.MethodPost, (*Internal).deleteRecords},
	{wire.PathStatus, http.MethodPost, (*Internal).status},
	{wire.PathFindMessage, http.MethodPost, (*Internal).findMessage},
	{wire.PathDedupe, http.MethodPost, (*Internal).dedupe},
	{wire.PathGroupCall, http.MethodPost, (*Internal).groupCall},
	{wire.PathGroupBeat, http.MethodPost, (*Internal).groupBeat},
	{wire.PathGroupList, http.MethodPost, (*Internal).groupList},
	{wire.PathHeartbeat, http.MethodPost, (*Internal).heartbeat},
	{wire.PathPropose, http.MethodPost, (*Internal).propose},
	{wire.PathJoin, http.MethodPost, (*Internal).join},
	{wire.PathFounding, http.MethodPost, (*Internal).founding},
	{wire.PathRaft, http.MethodGet, (*Internal).raft},
	{wire.PathDebugPartitions, http.MethodGet, (*Internal).debugPartitions},
	{wire.PathDebugDedupe, http.MethodGet, (*Internal).debugDedupe},
	{wire.PathElectLeader, http.MethodPost, administer(electLeader)},
	{wire.PathReassign, http.MethodPost, administer(reassign)},
	{wire.PathReplaceBroker, http.MethodPost, administer(replaceBroker)},
	{wire.PathRemoveBroker, http.MethodPost, administer(removeBroker)},
	{wire.PathCompact, http.MethodPost, administerHere(compactTopic)},
}

// ServeHTTP checks who asks before it looks at what is asked.
func (in *Internal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, patience: defaultWriteTimeout, start: time.Now(), id: requestID(r)}
	h := w.Header()
	h["X-Content-Type-Options"] = nosniff
	h["Content-Security-Policy"] = lockedDown
	h["Cache-Control"] = []string{"no-store"}
	if in.draining() {
		h["Connection"] = closeConnection
	}
	call := &internalCall{path: "unmatched"}
	defer func() {
		p := recover()
		if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value itself is panicked with
			in.cfg.Logger.Error().Str("path", call.path).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("internal handler panicked")
			if x.status == 0 {
				in.refuse(x, r, errPanicked)
				p = nil
			}
		}
		in.observe(x, call)
		if p != nil {
			panic(http.ErrAbortHandler) // the answer is cut: the other side must see that
		}
	}()
	if err := in.admit(r); err != nil {
		in.refuse(x, r, err)
		return
	}
	for i := range internalCalls {
		c := &internalCalls[i]
		if r.URL.Path != wire.PathPrefix+c.path {
			continue
		}
		call = c
		err := error(&requestError{code: codeMethodNotAllowed, detail: "Use " + c.method + "."})
		if r.Method == c.method {
			err = c.handle(in, x, r)
		}
		if err != nil {
			in.refuse(x, r, err)
		}
		return
	}
	in.refuse(x, r, &requestError{code: codeNotFound, detail: "Brokers ask nothing under this path."})
}

// errStranger is for whoever can't prove to be a broker of this cluster. It tells
// nothing about why.
var errStranger = &requestError{code: codeForbidden, detail: "/internal/ is for the brokers of this cluster; this request does not come from one."}

// admit lets brokers in. With a secret it must be there, once; without one the
// socket's other end must be on this machine, and be the sender itself: not a
// proxy, which says so in headers, and not a browser, which a page of any site can
// make send requests to its own machine.
func (in *Internal) admit(r *http.Request) error {
	if in.cfg.Secret != "" {
		given := r.Header[wire.HeaderSecret]
		if len(given) != 1 {
			return errStranger
		}
		sum := sha256.Sum256([]byte(given[0])) // equal lengths, whatever came
		if subtle.ConstantTimeCompare(sum[:], in.secret[:]) != 1 {
			return errStranger
		}
		return nil
	}
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !remote.Addr().Unmap().WithZone("").IsLoopback() {
		return errStranger
	}
	for _, name := range [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded", "Via", "Origin", "Sec-Fetch-Site"} {
		if len(r.Header[name]) > 0 {
			return errStranger
		}
	}
	return nil
}

// refuse says no. Nothing was done, or the status is 500.
func (in *Internal) refuse(x *exchange, r *http.Request, err error) {
	x.err = err
	if x.status != 0 {
		panic(http.ErrAbortHandler) // a part of the answer is out: the other side must see a cut
	}
	p, code := explainInternal(err)
	h := x.Header()
	h["Content-Type"] = []string{problemType(r)}
	h[wire.HeaderCode] = []string{string(code)}
	body := p.append(nil, false)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if r.ContentLength != 0 {
		h["Connection"] = closeConnection // its body is left unread
	}
	x.WriteHeader(p.code.status())
	_, _ = x.Write(body) // who left gets no answer
}

// explainInternal is explain for brokers: the code is what they act on.
func explainInternal(err error) (*problem, wire.Code) {
	p := explain(err, place{})
	version := (*wire.VersionError)(nil)
	switch {
	case errors.As(err, &version):
		return newProblem(codeMalformed, version.Error(), "Run versions side by side that are one apart."), wire.CodeVersion
	case errors.Is(err, wire.ErrMalformed):
		return newProblem(codeMalformed, err.Error(), ""), wire.CodeInvalidRequest
	case errors.Is(err, errOtherCluster):
		return newProblem(codeForbidden, "This broker is of another cluster.", ""), wire.CodeClusterID
	case errors.Is(err, errNotUp):
		return newProblem(codeShuttingDown, "This part of the broker isn't up yet.", ""), wire.CodeNotLeader
	case p.code == codeForbidden:
		return p, wire.CodeUnauthorized
	case p.code.status() < http.StatusInternalServerError:
		return p, wire.CodeInvalidRequest
	}
	return p, wire.CodeOther
}

var (
	errNotUp        = errors.New("handlers: this part of the broker isn't up yet")
	errOtherCluster = errors.New("handlers: a broker of another cluster asks")
)

// observe counts the request. Brokers that are refused are worth a line.
func (in *Internal) observe(x *exchange, call *internalCall) {
	took := time.Since(x.start)
	in.requests.WithLabelValues(call.path, strconv.Itoa(x.status)).Inc()
	in.seconds.WithLabelValues(call.path).Observe(took.Seconds())
	level := zerolog.DebugLevel
	switch {
	case x.status == http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	case x.status >= http.StatusBadRequest && x.status < http.StatusInternalServerError:
		level = zerolog.WarnLevel
	}
	if event := in.cfg.Logger.WithLevel(level); event != nil {
		if x.err != nil {
			event = event.AnErr("cause", x.err)
		}
		event.Str("path", call.path).Int("status", x.status).Int64("bytes", x.bytes).Dur("took_ms", took).Msg("internal request")
	}
}

func (in *Internal) draining() bool {
	select {
	case <-in.cfg.Draining:
		return true
	default:
		return false
	}
}

// polling is the context of a long-poll: it ends with the request, and when the
// broker drains, for a server that shuts down waits for what is under way.
func (in *Internal) polling(r *http.Request) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(r.Context())
	if in.cfg.Draining != nil {
		go func() { // as long as the request
			select {
			case <-in.cfg.Draining:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// theController is nil-safe: errNotUp before it is there.
func (in *Internal) theController() (*controller.Controller, error) {
	if c := in.controller.Load(); c != nil {
		return c, nil
	}
	return nil, errNotUp
}

func (in *Internal) theBroker() (*replication.Broker, error) {
	if b := in.broker.Load(); b != nil {
		return b, nil
	}
	return nil, errNotUp
}
