package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// setFaults replaces the control file of --disk-faults.
func setFaults(t *testing.T, control, plan string) {
	t.Helper()
	if err := os.WriteFile(control+".new", []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(control+".new", control); err != nil {
		t.Fatal(err)
	}
}

// TestF47_FsyncErrorOnce: one fsync fails, and its bytes are lost. The producer is
// told that the outcome is unknown, the process ends by itself, and the next one
// has every record that was acknowledged, none twice, and knows that the disk
// failed (S4).
func TestF47_FsyncErrorOnce(t *testing.T) {
	t.Parallel()
	dir, control := t.TempDir(), filepath.Join(t.TempDir(), "faults")
	for round := range int64(3) {
		b := start(t, dir, "--disk-faults="+control)
		c := newClient(t, b.url)
		if round == 0 {
			c.must(t, 201, "PUT", "/topics/t", "", "")
		}
		if _, end := c.end(t, "t", 0); end != 20*round {
			t.Fatalf("round %d begins with %d records, %d were acknowledged", round, end, 20*round)
		}
		for i := range int64(20) {
			c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, 20*round+i))
		}
		setFaults(t, control, "fsync-error 1\n")
		status, answer, err := c.do(t.Context(), "POST", "/topics/t?acks=-1", "application/json", []byte(`{"records":[{"value":"lost"}]}`))
		if err == nil && (status != 500 || !strings.Contains(string(answer), `"outcome":"unknown"`)) {
			t.Errorf("%d: %s", status, answer)
		}
		if code := b.exit(); code != exitFailed {
			t.Errorf("exit code %d", code)
		}
		if !strings.Contains(b.output(), "disk fault made") {
			t.Error("no fault was made")
		}
		if _, err := os.Stat(filepath.Join(dir, "disk-failed")); err != nil {
			t.Errorf("no mark of the failure: %v", err)
		}
		setFaults(t, control, "")
	}
	b := start(t, dir)
	c := newClient(t, b.url)
	c.read(t, "t", 0, 0, func(r *stored) {
		if string(r.Value) != fmt.Sprint(r.Offset) {
			t.Errorf("offset %d holds %s", r.Offset, r.Value)
		}
	})
	if _, end := c.end(t, "t", 0); end != 60 {
		t.Errorf("%d records, 60 were acknowledged", end)
	}
	b.stop()
}

// TestF46_NoSpaceComesAndGoes: writes that find no room are refused and leave
// nothing behind; afterwards the same process takes them.
func TestF46_NoSpaceComesAndGoes(t *testing.T) {
	t.Parallel()
	dir, control := t.TempDir(), filepath.Join(t.TempDir(), "faults")
	b := start(t, dir, "--disk-faults="+control, "--disk-reserve=0")
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	setFaults(t, control, "no-space")
	for _, acks := range []string{"-1", "1"} {
		if answer := c.must(t, 507, "POST", "/topics/t?acks="+acks, "application/json", `{"records":[{"value":"no"}]}`); !strings.Contains(string(answer), `"outcome":"not_written"`) {
			t.Errorf("%s", answer)
		}
	}
	c.must(t, 200, "GET", "/topics/t/partitions/0/records", "", "")
	setFaults(t, control, "# all is well")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":1}]}`)
	b.kill()
	b = start(t, dir)
	c = newClient(t, b.url)
	if next := c.read(t, "t", 0, 0, func(*stored) {}); next != 2 {
		t.Errorf("%d records, want 2", next)
	}
	b.stop()
}

// TestF49_HungFsync: while the disk doesn't answer, what needs no fsync goes on:
// acks=1, reads, health; and acks=-1 is told the truth, as is who needs a new segment.
func TestF49_HungFsync(t *testing.T) {
	t.Parallel()
	dir, control := t.TempDir(), filepath.Join(t.TempDir(), "faults")
	b := start(t, dir, "--disk-faults="+control)
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	c.must(t, 201, "PUT", "/topics/small", "application/json", `{"configs":{"segment.bytes":"1024"}}`)
	c.must(t, 200, "POST", "/topics/small?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	setFaults(t, control, "fsync-delay 1000h")
	large := fmt.Sprintf(`{"records":[{"value":"%s"}]}`, strings.Repeat("x", 1024))
	c.must(t, 200, "POST", "/topics/small?acks=1", "application/json", large)
	for range 2 { // before the next segment that has to be synced; the second waits for the first
		if answer := c.must(t, 504, "POST", "/topics/small?acks=1&timeout_ms=100", "application/json", large); !strings.Contains(string(answer), `"outcome":"unknown"`) {
			t.Errorf("%s", answer)
		}
	}
	for i := range 3 {
		c.must(t, 200, "POST", "/topics/t?acks=1", "application/json", fmt.Sprintf(`{"records":[{"value":%d}]}`, i+1))
	}
	if answer := c.must(t, 504, "POST", "/topics/t?acks=-1&timeout_ms=100", "application/json", `{"records":[{"value":4}]}`); !strings.Contains(string(answer), `"outcome":"unknown"`) {
		t.Errorf("%s", answer)
	}
	if _, end := c.end(t, "t", 0); end != 1 {
		t.Errorf("the high watermark is %d, and only 1 record was fsynced", end)
	}
	c.must(t, 200, "GET", "/topics/t/partitions/0/records", "", "")
	c.must(t, 200, "GET", "/healthz", "", "")
	c.must(t, 200, "GET", "/readyz", "", "")
	b.kill()
	b = start(t, dir)
	c = newClient(t, b.url)
	next := c.read(t, "t", 0, 0, func(r *stored) {
		if string(r.Value) != fmt.Sprint(r.Offset) {
			t.Errorf("offset %d holds %s", r.Offset, r.Value)
		}
	})
	if next < 1 {
		t.Error("the acknowledged record is gone")
	}
	b.stop()
}

// TestS5_StopAndStartOnAFullDisk: without room for anything, SIGTERM ends the process
// in order all the same, a start says what to do, and nothing is lost.
func TestS5_StopAndStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir, control := t.TempDir(), filepath.Join(t.TempDir(), "faults")
	b := start(t, dir, "--disk-faults="+control, "--disk-reserve=0")
	c := newClient(t, b.url)
	c.must(t, 201, "PUT", "/topics/t", "", "")
	c.must(t, 200, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	setFaults(t, control, "no-space")
	c.must(t, 507, "POST", "/topics/t?acks=-1", "application/json", `{"records":[{"value":"no"}]}`)
	b.stop()
	if !strings.Contains(b.output(), "the end of this run could not be noted") {
		t.Errorf("the stop met no full disk:\n%s", b.output())
	}
	full := launch(t, dir, "--disk-faults="+control, "--disk-reserve=0")
	if code := full.exit(); code != exitFailed || !strings.Contains(full.output(), "free some space") {
		t.Errorf("start on a full disk: exit code %d\n%s", code, full.output())
	}
	setFaults(t, control, "")
	b = start(t, dir)
	c = newClient(t, b.url)
	if next := c.read(t, "t", 0, 0, func(*stored) {}); next != 1 {
		t.Errorf("%d records, want 1", next)
	}
	b.stop()
}

// TestS5_TopicMadeOnAFullDisk: there is no room for its directory. Produce is refused
// like any other on a full disk, other topics are read, topics can be deleted, and the
// partition is there as soon as there is room.
func TestS5_TopicMadeOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir, control := t.TempDir(), filepath.Join(t.TempDir(), "faults")
	b := start(t, dir, "--disk-faults="+control, "--disk-reserve=0")
	c := newClient(t, b.url)
	for _, topic := range []string{"t", "old"} {
		c.must(t, 201, "PUT", "/topics/"+topic, "", "")
		c.must(t, 200, "POST", "/topics/"+topic+"?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	}
	c.must(t, 200, "POST", "/consumers/g", "application/json", `{"name":"c1"}`)
	setFaults(t, control, "no-space")
	c.must(t, 201, "PUT", "/topics/new", "", "")
	if answer := c.must(t, 507, "POST", "/topics/new?acks=-1", "application/json", `{"records":[{"value":0}]}`); !strings.Contains(string(answer), `"outcome":"not_written"`) {
		t.Errorf("%s", answer)
	}
	if answer := c.must(t, 507, "POST", "/consumers/g", "application/json", `{"name":"c2"}`); !strings.Contains(string(answer), `"error_code":50701`) || !strings.Contains(string(answer), `"outcome":"not_written"`) {
		t.Errorf("%s", answer)
	}
	c.must(t, 200, "GET", "/consumers/g", "", "")
	c.must(t, 200, "GET", "/topics/t/partitions/0/records", "", "")
	c.must(t, 200, "DELETE", "/topics/t/partitions/0/records?before_offset=1", "", "")
	c.must(t, 204, "DELETE", "/topics/old", "", "")
	setFaults(t, control, "")
	c.must(t, 201, "PUT", "/topics/another", "", "") // news of the metadata; else it takes some seconds
	c.must(t, 200, "POST", "/topics/new?acks=-1", "application/json", `{"records":[{"value":0}]}`)
	c.must(t, 200, "POST", "/consumers/g", "application/json", `{"name":"c2"}`)
	if start, end := c.end(t, "t", 0); start != 1 || end != 1 {
		t.Errorf("the log reaches from %d to %d, want nothing at 1", start, end)
	}
	b.stop()
}
