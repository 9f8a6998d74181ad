package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"chaos/history"
)

// slack is what an answer may take beyond the operation's own timeout, on a
// machine that is busy with brokers under faults.
const slack = 5 * time.Second

// Topic is one that the clients use.
type Topic struct {
	Name       string
	ID         string
	Partitions int  // that it begins with
	Grows      bool // it is given more of them
	Trimmed    bool // its oldest records are deleted
	Compacted  bool // of its records of one key the last stays
}

// client is one client: it does one thing after the other.
type client struct {
	name  string
	http  *http.Client
	urls  []string // of brokers, id i at i-1
	rec   *history.Recorder
	rnd   *rand.Rand
	count int // of values
}

// newClient makes a client. Its connections are its own.
func (f *Fleet) newClient(name string) *client {
	h := uint64(0)
	for _, c := range name {
		h = h*131 + uint64(c)
	}
	through := f.cfg.Transport
	if through == nil {
		own := &http.Transport{MaxIdleConnsPerHost: 4, DisableCompression: true, DialContext: (&net.Dialer{Timeout: slack}).DialContext}
		f.transports = append(f.transports, own)
		through = own
	}
	return &client{name: name, http: &http.Client{Transport: through}, urls: f.cfg.URLs, rec: f.cfg.Record, rnd: rand.New(rand.NewPCG(f.cfg.Seed, h))}
}

// value is a name for the next record.
func (c *client) value() string {
	c.count++
	return fmt.Sprintf("%s.%d", c.name, c.count)
}

func (c *client) broker() int { return 1 + c.rnd.IntN(len(c.urls)) }

// answer is what came back.
type answer struct {
	status int
	body   []byte
	header http.Header
	err    error
}

// do sends one request, which has the time `within` by its own meaning. What was
// begun is seen through to an answer or a broken connection, whatever ctx says.
func (c *client) do(broker int, method, path, contentType string, body []byte, within time.Duration, header ...string) answer {
	return c.send(within+slack, broker, method, path, contentType, body, header...)
}

// errLate: the client went away before it had an answer.
var errLate = errors.New("the client gave up")

// try is do for a client that goes away after some time, and breaks the connection.
func (c *client) try(within time.Duration, broker int, method, path, contentType string, body []byte, header ...string) answer {
	a := c.send(within, broker, method, path, contentType, body, header...)
	if errors.Is(a.err, context.DeadlineExceeded) && !neverSent(a.err) {
		a.err = errLate
	}
	return a
}

func (c *client) send(limit time.Duration, broker int, method, path, contentType string, body []byte, header ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.urls[broker-1]+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.GetBody = nil // nothing is sent a second time behind our back
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	a := answer{status: res.StatusCode, header: res.Header}
	a.body, a.err = io.ReadAll(res.Body)
	return a
}

// noAnswer tells that nothing came though the connection stood. A connection that
// isn't taken is another thing: there is nobody.
func (a *answer) noAnswer() bool {
	return errors.Is(a.err, context.DeadlineExceeded) && !neverSent(a.err)
}

// neverSent tells that no byte of the request can have reached a broker.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

// problem is what the clients read of an error's body.
type problem struct {
	Code    int    `json:"error_code"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail"`
	Start   *int64 `json:"log_start_offset"`
	High    *int64 `json:"high_watermark"`

	Expected *int64 `json:"expected_sequence"`
}

func (a *answer) problem() (p problem) {
	_ = json.Unmarshal(a.body, &p)
	return p
}

// begin is an operation that is called now.
func (c *client) begin(kind history.Kind, broker int, p history.Partition) *history.Op {
	return &history.Op{ID: c.rec.NextID(), Client: c.name, Kind: kind, Partition: p, Broker: broker, Call: c.rec.Now(), High: -1}
}

// end takes an operation down that returns now.
func (c *client) end(op *history.Op, a *answer) {
	op.Return = c.rec.Now()
	c.note(op, a)
	c.rec.Op(op)
}

// note takes over what an answer says of itself.
func (c *client) note(op *history.Op, a *answer) {
	op.Status = a.status
	if a.err != nil {
		op.Error = a.err.Error()
		op.NoAnswer = a.noAnswer()
	} else if a.status >= 300 {
		p := a.problem()
		op.Code = p.Code
		op.Error = p.Detail
	}
}

// number reads a header.
func (a *answer) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(a.header.Get(name), 10, 64)
	return n, err == nil
}

// pause waits a random time up to `most`, or until ctx ends.
func (c *client) pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(c.rnd.Int64N(int64(most)))):
	}
}
