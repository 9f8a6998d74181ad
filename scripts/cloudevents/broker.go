package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// broker is a running broker in a directory of its own.
type broker struct {
	url  string
	dir  string
	cmd  *exec.Cmd
	logs chan error // ends when the broker's log does
}

// startBroker starts the binary and waits until it serves.
func startBroker(ctx context.Context, binary string) (*broker, error) {
	dir, err := os.MkdirTemp("", "cloudevents-")
	if err != nil {
		return nil, err
	}
	b := &broker{dir: dir, logs: make(chan error, 1)}
	b.cmd = exec.CommandContext(ctx, binary, "--listen", "127.0.0.1:0", "--data-dir", dir+"/data", "--log-format", "json")
	logs, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	serving := make(chan string, 1)
	go func() { b.logs <- follow(logs, serving) }()
	select {
	case b.url = <-serving:
		return b, nil
	case err := <-b.logs:
		return nil, fmt.Errorf("the broker ended before it served: %w", errors.Join(err, b.cmd.Wait(), os.RemoveAll(dir)))
	}
}

// follow reads the log to its end and tells where the broker serves.
func follow(logs io.Reader, serving chan<- string) error {
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var line struct{ Level, Message, URL string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			serving <- line.URL
		}
		if line.Level == "error" || line.Level == "panic" {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}
	return lines.Err()
}

func (b *broker) stop() error {
	err := b.cmd.Process.Signal(syscall.SIGTERM)
	return errors.Join(err, <-b.logs, b.cmd.Wait(), os.RemoveAll(b.dir))
}

// do sends a request and returns the answer's body, as long as its status is want.
func (b *broker) do(r *http.Request, want int) ([]byte, error) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, resp.Status, body)
	}
	return body, err
}

// topic makes a topic of one partition and returns its address.
func (b *broker) topic(ctx context.Context, name string) (string, error) {
	url := b.url + "/topics/" + name
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(`{"partitions":1}`))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	_, err = b.do(r, http.StatusCreated)
	return url, err
}

// produced is what a produce answers.
type produced struct {
	Offsets []struct {
		Offset    int64 `json:"offset"`
		Duplicate bool  `json:"duplicate"`
	} `json:"offsets"`
}

func (b *broker) produce(r *http.Request) (*produced, error) {
	body, err := b.do(r, http.StatusOK)
	if err != nil {
		return nil, err
	}
	out := &produced{}
	return out, json.Unmarshal(body, out)
}

// get asks for records in one of the forms of CloudEvents.
func (b *broker) get(ctx context.Context, url, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(r)
	if err == nil && resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return resp, err
}
