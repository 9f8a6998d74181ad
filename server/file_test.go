package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// events makes a file of real-looking events and returns its lines' number and sum.
func events(t *testing.T, size int) (path string, lines int, sum [sha256.Size]byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events.ndjson")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Getenv(envEvents), "-bytes", strconv.Itoa(size))
	cmd.Stdout, cmd.Stderr = file, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, bytes.Count(data, []byte("\n")), sha256.Sum256(data)
}

// eventLine writes a stored record as the generator wrote it.
func eventLine(w io.Writer, r *stored) error {
	_, err := fmt.Fprintf(w, `{"key":%s,"timestamp":%d,"value":%s`, r.Key, r.Timestamp, r.Value)
	if err == nil && len(r.Headers) > 0 && string(r.Headers) != "[]" {
		_, err = fmt.Fprintf(w, `,"headers":%s`, r.Headers)
	}
	if err == nil {
		_, err = io.WriteString(w, "}\n")
	}
	return err
}

// TestNDJSONFile sends a file in by one curl, reads it back by fetches and by
// `curl -N`, and posts what came out once more: each time the bytes are the
// file's. HIGHWATER_FILE_MB sets its size.
func TestNDJSONFile(t *testing.T) {
	t.Parallel()
	size := number(t, "HIGHWATER_FILE_MB", 6) * 1e6
	path, lines, sum := events(t, size)
	b := start(t, t.TempDir())
	c := newClient(t, b.url)
	for _, topic := range []string{"events", "again"} {
		c.must(t, 201, "PUT", "/topics/"+topic, "", "")
	}
	var summary struct {
		Partitions []struct {
			BaseOffset int64  `json:"base_offset"`
			LastOffset int64  `json:"last_offset"`
			Durability string `json:"durability"`
		} `json:"partitions"`
		Offsets []any `json:"offsets"`
	}
	answer := post(t, c, "/topics/events?acks=-1", path)
	if err := json.Unmarshal(answer, &summary); err != nil || len(summary.Partitions) != 1 {
		t.Fatalf("%v: %.500s", err, answer)
	}
	if p := summary.Partitions[0]; p.BaseOffset != 0 || p.LastOffset != int64(lines)-1 || p.Durability != "fsynced" || summary.Offsets != nil {
		t.Errorf("%d lines, answered with %.500s", lines, answer)
	}

	// Out by fetches; what was printed is kept to be posted back.
	printed := filepath.Join(t.TempDir(), "printed.ndjson")
	out, err := os.Create(printed)
	if err != nil {
		t.Fatal(err)
	}
	hash, w := sha256.New(), bufio.NewWriter(out)
	end := c.read(t, "events", 0, 0, func(r *stored) {
		if err := eventLine(hash, r); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(w, `{"topic":"events","partition":%d,"offset":%d,"timestamp":%d,"key":%s,"value":%s,"headers":%s}`+"\n",
			r.Partition, r.Offset, r.Timestamp, r.Key, r.Value, r.Headers)
	})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if end != int64(lines) || [sha256.Size]byte(hash.Sum(nil)) != sum {
		t.Errorf("%d of %d lines came back; equal bytes: %v", end, lines, [sha256.Size]byte(hash.Sum(nil)) == sum)
	}

	t.Run("tail", func(t *testing.T) {
		checkTail(t, b.url+"/topics/events/partitions/0/records?offset=0&follow=true", lines, sum)
	})

	t.Run("posted back", func(t *testing.T) {
		post(t, c, "/topics/again?acks=-1", printed)
		hash := sha256.New()
		c.read(t, "again", 0, 0, func(r *stored) {
			if err := eventLine(hash, r); err != nil {
				t.Fatal(err)
			}
		})
		if [sha256.Size]byte(hash.Sum(nil)) != sum {
			t.Error("what a fetch printed and a produce took is not the same")
		}
	})
	b.stop()
}

// post sends a file as NDJSON, by the real curl where there is one.
func post(t *testing.T, c *client, path, file string) []byte {
	t.Helper()
	if _, err := exec.LookPath("curl"); err == nil {
		out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--fail-with-body", "-H", "Content-Type: application/x-ndjson",
			"--data-binary", "@"+file, c.base+path).CombinedOutput()
		if err != nil {
			t.Fatalf("curl: %v: %.500s", err, out)
		}
		return out
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return c.must(t, 200, "POST", path, "application/x-ndjson", string(data))
}

// checkTail follows the partition until every line was seen.
func checkTail(t *testing.T, url string, lines int, sum [sha256.Size]byte) {
	t.Helper()
	var stream io.Reader
	if _, err := exec.LookPath("curl"); err == nil {
		cmd := exec.CommandContext(t.Context(), "curl", "-sSN", "-H", "Accept: application/x-ndjson", url)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		stream = pipe
	} else {
		req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/x-ndjson")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		stream = res.Body
	}
	hash, in := sha256.New(), bufio.NewReaderSize(stream, 1<<20)
	for range lines {
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var r stored
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if err := eventLine(hash, &r); err != nil {
			t.Fatal(err)
		}
	}
	if [sha256.Size]byte(hash.Sum(nil)) != sum {
		t.Error("the tail's bytes are not the file's")
	}
}
