package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// line is one line of the file; one member is set.
type line struct {
	Op     *Op      `json:"op,omitempty"`
	Group  *GroupOp `json:"group,omitempty"`
	Event  *Event   `json:"event,omitempty"`
	Sample *Sample  `json:"sample,omitempty"`
	View   *View    `json:"view,omitempty"`

	Attempt *Attempt `json:"attempt,omitempty"`
	Lookup  *Lookup  `json:"lookup,omitempty"`
	Memory  *Memory  `json:"memory,omitempty"`
}

// Recorder takes a history down, in memory and into a file. All of its methods
// may be called at the same time.
type Recorder struct {
	begin time.Time
	ids   atomic.Int64

	mu   sync.Mutex // guards what follows
	h    History
	file *os.File
	out  *bufio.Writer
	err  error // first of the file
}

// NewRecorder begins a history that is also written to path.
func NewRecorder(path string) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Recorder{begin: time.Now(), file: f, out: bufio.NewWriterSize(f, 1<<20)}, nil
}

// Now is the time in this history: ns since it began, by the monotonic clock.
func (r *Recorder) Now() int64 { return int64(time.Since(r.begin)) }

// NextID numbers an operation.
func (r *Recorder) NextID() int64 { return r.ids.Add(1) }

// Op takes down a finished operation. The caller may not change it afterwards.
func (r *Recorder) Op(op *Op) { take(r, &r.h.Ops, op, line{Op: op}) }

// GroupOp takes down a finished operation on a group, likewise.
func (r *Recorder) GroupOp(op *GroupOp) { take(r, &r.h.Groups, op, line{Group: op}) }

// Event takes down that something happened now.
func (r *Recorder) Event(what string, broker int, detail string) {
	e := Event{At: r.Now(), What: what, Broker: broker, Detail: detail}
	take(r, &r.h.Events, e, line{Event: &e})
}

// Sample takes down a broker's state.
func (r *Recorder) Sample(s *Sample) { take(r, &r.h.Samples, s, line{Sample: s}) }

// View takes down a log at the end.
func (r *Recorder) View(v *View) { take(r, &r.h.Views, v, line{View: v}) }

// Attempt takes down a finished request that is sent more than once.
func (r *Recorder) Attempt(a *Attempt) { take(r, &r.h.Attempts, a, line{Attempt: a}) }

// Lookup takes down a question for a message.
func (r *Recorder) Lookup(l *Lookup) { take(r, &r.h.Lookups, l, line{Lookup: l}) }

// Memory takes down what a replica remembers at the end.
func (r *Recorder) Memory(m *Memory) { take(r, &r.h.Memories, m, line{Memory: m}) }

// take adds to one of the history's lists, and to the file.
func take[T any](r *Recorder, list *[]T, one T, l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, one)
	r.write(l)
}

func (r *Recorder) write(l line) {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(b, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close ends the history and returns it.
func (r *Recorder) Close() (*History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.err, r.out.Flush(), r.file.Close())
	return &r.h, err
}

// Read takes a history from a file.
func Read(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := &History{}
	d := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	for {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case l.Op != nil:
			h.Ops = append(h.Ops, l.Op)
		case l.Group != nil:
			h.Groups = append(h.Groups, l.Group)
		case l.Event != nil:
			h.Events = append(h.Events, *l.Event)
		case l.Sample != nil:
			h.Samples = append(h.Samples, l.Sample)
		case l.View != nil:
			h.Views = append(h.Views, l.View)
		case l.Attempt != nil:
			h.Attempts = append(h.Attempts, l.Attempt)
		case l.Lookup != nil:
			h.Lookups = append(h.Lookups, l.Lookup)
		case l.Memory != nil:
			h.Memories = append(h.Memories, l.Memory)
		}
	}
}
