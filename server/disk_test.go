package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// listing is every path under dir with its size and sum.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if d.Name() == "index.db" { // checkpoints go into it at any time
			data = nil
		}
		fmt.Fprintf(&out, "%s %d %x\n", path, len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestH45_SecondProcessOnTheSameDataFolder: the second one ends by itself and
// names the lock; the first one's files are as they were, also by a symlink.
func TestH45_SecondProcessOnTheSameDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	for _, path := range []string{dir, link} {
		code, out := runToEnd(t, nil, "--listen=127.0.0.1:0", "--log-format=json", "--data-dir="+path)
		if code != exitFailed || !strings.Contains(out, "LOCK") || !strings.Contains(out, "another process") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	}
	if after := listing(t, dir); after != before {
		t.Errorf("files before:\n%s\nafter:\n%s", before, after)
	}
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":2}]}`)
	b.stop()
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := filepath.Join(t.TempDir(), "data")
	code, out := runToEnd(t, nil, "--listen="+taken.Addr().String(), "--log-format=json", "--data-dir="+dir)
	if code != exitFailed || !strings.Contains(out, "another process has this port") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory was touched: %v", err)
	}
}

func TestBadSettingsEndAtOnce(t *testing.T) {
	t.Parallel()
	yaml := filepath.Join(t.TempDir(), "hw.yaml")
	if err := os.WriteFile(yaml, []byte("data-dir: /nowhere\nlisten [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{[]string{"--config=" + yaml}, nil, "yaml"},
		{[]string{"--fsync=often"}, nil, "commit"},
		{nil, []string{"HIGHWATER_DEFAULT_ACKS=7"}, "want 0, 1, -1 or all"},
		{[]string{"--cluster=1=http://127.0.0.1:1,2=http://10.0.0.2:2"}, nil, "--cluster-secret-file"},
	} {
		code, out := runToEnd(t, c.env, c.args...)
		if code != exitUsage || !strings.Contains(out, c.want) || strings.Contains(out, "goroutine") {
			t.Errorf("%v %v: exit code %d:\n%s", c.args, c.env, code, out)
		}
	}
}

// TestDataDirThatCannotBeWritten: as a user without rights, in a read-only place,
// and where a file stands in the way.
func TestDataDirThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(file, "data"), "/proc/highwater"} {
		code, out := runToEnd(t, nil, "--listen=127.0.0.1:0", "--log-format=json", "--data-dir="+dir)
		if code != exitFailed || !strings.Contains(out, "--data-dir "+dir) {
			t.Errorf("%s: exit code %d:\n%s", dir, code, out)
		}
	}
	t.Run("without rights", func(t *testing.T) {
		const nobody = 65534
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Getenv(envBinary), "--listen=127.0.0.1:0", "--log-format=json", "--data-dir="+dir)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "--data-dir") {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}

// TestF46_FullDisk fills a small file system while two topics are written. Produce
// is refused with 507 before it is full, reads go on, and after space was made
// produce works again.
func TestF46_FullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	b := start(t, filepath.Join(dir, "data"), "--disk-reserve=8MiB")
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/full", "application/json", `{"configs":{"segment.bytes":"1048576"}}`)
	c.must(t, 201, "PUT", "/topics/other", "", "")
	c.must(t, 200, "POST", "/topics/other?acks=-1", "application/json", `{"records":[{"value":"kept"}]}`)

	body := `{"records":[{"value":"` + strings.Repeat("x", 200_000) + `"}]}`
	var stored int64
	refused := false
	for range 200 {
		status, answer, err := c.do(t.Context(), "POST", "/topics/full?acks=-1", "application/json", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if status == 507 {
			if !strings.Contains(string(answer), `"error_code":50701`) || !strings.Contains(string(answer), `"outcome":"not_written"`) {
				t.Errorf("507 with %s", answer)
			}
			refused = true
			break
		}
		if status != 200 {
			t.Fatalf("status %d: %s", status, answer)
		}
		stored++
	}
	if !refused {
		t.Fatalf("%d records of 200 kB went into 32 MiB", stored)
	}
	if _, end := c.end(t, "full", 0); end != stored {
		t.Errorf("end %d after %d acknowledged records", end, stored)
	}
	c.must(t, 200, "GET", "/topics/other/partitions/0/records", "", "")
	c.must(t, 200, "DELETE", "/topics/full/partitions/0/records?before_offset=high_watermark", "", "")
	until(t, "produce works again", func() bool {
		status, _, err := c.do(t.Context(), "POST", "/topics/full?acks=-1", "application/json", []byte(body))
		if err == nil && status == 200 {
			stored++
		}
		return err == nil && status == 200
	})
	b.kill()
	b = start(t, filepath.Join(dir, "data"), "--disk-reserve=8MiB")
	c = newClient(t, b.url)
	if _, end := c.end(t, "full", 0); end != stored {
		t.Errorf("end %d after the restart, want %d", end, stored)
	}
	b.stop()
}

// TestS4_FailedDiskStopsTheBroker takes the partition's directory away, so that the
// next segment can't be made. The producer is told that the outcome is unknown, the
// process ends by itself, not with 0, and says why in one line; what it had
// acknowledged before is still what the file holds.
func TestS4_FailedDiskStopsTheBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "application/json", `{"configs":{"segment.bytes":"1024"}}`)
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":"before"}]}`)
	logs, err := filepath.Glob(filepath.Join(dir, "partitions", "*-0"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%v %v", logs, err)
	}
	if err := os.Rename(logs[0], filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	body := `{"records":[{"value":"` + strings.Repeat("x", 900) + `"}]}`
	for range 20 {
		status, answer, err := c.do(t.Context(), "POST", "/topics/t?acks=-1", "application/json", []byte(body))
		if err != nil || status == 503 { // it is going down already
			break
		}
		if status == 500 {
			if !strings.Contains(string(answer), `"outcome":"unknown"`) || !strings.Contains(string(answer), `"error_code":50001`) || strings.Contains(string(answer), dir) {
				t.Errorf("%s", answer)
			}
			break
		}
		if status != 200 {
			t.Fatalf("status %d: %s", status, answer)
		}
	}
	if code := b.exit(); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	last := b.output()
	last = last[strings.LastIndexByte(last, '\n')+1:]
	if !strings.Contains(last, `"level":"error"`) || !strings.Contains(last, "disk failed") || strings.Count(b.output(), "disk failed") != 1 {
		t.Errorf("the log ends with\n%s", b.output())
	}
	if err := os.Rename(filepath.Join(dir, "gone"), logs[0]); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir)
	seen := 0
	newClient(t, b.url).read(t, "t", 0, 0, func(r *stored) {
		if seen++; seen == 1 && string(r.Value) != `"before"` {
			t.Errorf("first record is %s", r.Value)
		}
	})
	if seen == 0 {
		t.Error("nothing is left")
	}
	b.stop()
}
