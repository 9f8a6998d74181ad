package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// metric is the value of a metric without labels, as text.
func metric(t *testing.T, c *client, name string) string {
	t.Helper()
	for line := range strings.Lines(string(c.must(t, 200, "GET", "/metrics", "", ""))) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no metric %s", name)
	return ""
}

// TestMemoryTuning: the collector runs less often under a soft memory limit, and
// the environment has the last word.
func TestMemoryTuning(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := newClient(t, b.url)
	if got := metric(t, c, "go_gc_gogc_percent"); got != "400" {
		t.Errorf("GOGC is %s", got)
	}
	if got := metric(t, c, "go_gc_gomemlimit_bytes"); got == "9.223372036854776e+18" {
		t.Error("no memory limit")
	}
	b.stop()
	cmd := exec.CommandContext(t.Context(), os.Getenv(envBinary), "--listen=127.0.0.1:0", "--log-format=json", "--data-dir="+t.TempDir())
	cmd.Env = append(os.Environ(), "GOGC=77", "GOMEMLIMIT=1GiB", "HIGHWATER_DATADIR=/typo")
	b = launchCommand(t, cmd).waitServing()
	c = newClient(t, b.url)
	if gogc, limit := metric(t, c, "go_gc_gogc_percent"), metric(t, c, "go_gc_gomemlimit_bytes"); gogc != "77" || limit != "1.073741824e+09" {
		t.Errorf("GOGC is %s, GOMEMLIMIT %s", gogc, limit)
	}
	if !strings.Contains(b.output(), "HIGHWATER_DATADIR") {
		t.Error("no word about an environment variable that is no setting")
	}
	b.stop()
}

// TestGarbageIsBounded: the more is live, the less garbage for each byte of it, from one collection to
// the next.
func TestGarbageIsBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	ended := make(chan int, 1)
	held := make([]byte, gcRoom)
	afterCollection(func() {
		boundGarbage()
		select {
		case ended <- gcPercentNow():
		default:
		}
	})
	for range 2 { // the second comes after the first is judged
		runtime.GC()
		if got := <-ended; got < leastGCPercent || got > 100 {
			t.Errorf("GOGC is %d with %d MiB live", got, gcRoom>>20)
		}
	}
	runtime.KeepAlive(held)
}

func gcPercentNow() int {
	now := debug.SetGCPercent(gcPercent)
	debug.SetGCPercent(now)
	return now
}

// TestHTTP2WithoutTLS: a client that speaks HTTP/2 from the first byte is served.
func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	c := &client{http: &http.Client{Transport: transport}, base: b.url}
	c.must(t, 201, "PUT", "/topics/t", "", "")
	for i := range 10 {
		c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, i))
	}
	res, err := c.http.Get(b.url + "/topics/t/partitions/0/records")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Errorf("the answer came by %s", res.Proto)
	}
	b.stop()
}

// TestFilesAreNobodyElses: whatever the umask of the shell.
func TestFilesAreNobodyElses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 0 && exec "$0" "$@"`, os.Getenv(envBinary), "--listen=127.0.0.1:0", "--log-format=json", "--data-dir="+dir)
	b := launchCommand(t, cmd).waitServing()
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	b.stop()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o007 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHealthcheck: the subcommand is content with a broker that serves, and only then.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	address := strings.TrimPrefix(b.url, "http://")
	if code, out := runToEnd(t, []string{"HIGHWATER_LISTEN=" + address}, "healthcheck"); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := runToEnd(t, nil, "healthcheck", b.url); code != exitOK {
		t.Errorf("exit code %d: %s", code, out)
	}
	b.stop()
	if code, out := runToEnd(t, []string{"HIGHWATER_LISTEN=" + address}, "healthcheck"); code != exitFailed {
		t.Errorf("exit code %d without a broker: %s", code, out)
	}
}
