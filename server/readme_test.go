package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is one fenced block of a page.
type block struct {
	info []string // words behind the fence
	text string
}

// is says that the block's info begins with these words.
func (b block) is(words ...string) bool {
	return len(b.info) >= len(words) && slices.Equal(b.info[:len(words)], words)
}

// expects says that the block is meant to show an answer of that status.
func (b block) expects(status string) bool { return slices.Contains(b.info, status) }

func blocks(t *testing.T, path string) []block {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		out = append(out, block{strings.Fields(m[1]), m[2]})
	}
	return out
}

// TestREADME runs every sh block of README.md, in order, on a fresh copy of the
// tree: the first one starts the broker as a reader would. A block that is
// followed by a json block must print that. Blocks marked "sh run" in docs/*.md
// run against the same broker. The port is another one than 8080, so that the
// test doesn't depend on what else runs here.
//
// "sh cluster" is TestClusterPages's. "sh tail" never ends by itself and must print something; "sh test" is what
// .ci/run runs; a number behind sh is an error status that the block shows.
func TestREADME(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the README's commands need %s", tool)
		}
	}
	tree := copyTree(t)
	page := slices.DeleteFunc(blocks(t, filepath.Join(tree, "README.md")), func(b block) bool { return !b.is("sh") && !b.is("json") || b.is("sh", "cluster") })
	if len(page) == 0 || strings.TrimSpace(page[0].text) != "go run ./server" {
		t.Fatalf("README.md doesn't begin with go run ./server: %q", page)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec "+page[0].text)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "HIGHWATER_LISTEN=127.0.0.1:0", "HIGHWATER_LOG_FORMAT=json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run doesn't pass signals on
	b := launchCommand(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	b.waitServing()
	if _, err := os.Stat(filepath.Join(tree, "data")); err != nil {
		t.Errorf("the README says that data is in ./data: %v", err)
	}
	ran, tested := 0, false
	for i, block := range page[1:] {
		switch {
		case block.is("json"):
		case block.is("sh", "test"):
			tested = strings.Contains(block.text, "go test ./...")
		case block.is("sh", "tail"):
			ran++
			runTail(t, b.url, block)
		default:
			ran++
			out := runBlock(t, tree, b.url, block)
			if next := i + 2; next < len(page) && page[next].is("json") {
				compareLast(t, page[next].text, out)
			}
		}
	}
	if ran < 3 || !tested {
		t.Errorf("%d blocks ran; test command found: %v", ran, tested)
	}
	docs, err := filepath.Glob(filepath.Join(tree, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	for _, path := range docs {
		for _, block := range blocks(t, path) {
			if block.is("sh", "run") {
				runBlock(t, tree, b.url, block)
			}
		}
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	b.exit()
}

// copyTree copies what a fresh clone would hold.
func copyTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "data", "cluster-data", "bin", ".cache", "node_modules"}, rel) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(tree, rel), 0o755)
		}
		if !d.Type().IsRegular() || strings.HasSuffix(rel, ".test") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tree, rel), data, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// at has the block's commands speak to the broker under test.
func (b block) at(url string) string {
	host := strings.TrimPrefix(url, "http://")
	return strings.ReplaceAll(strings.ReplaceAll(b.text, "localhost:8080", host), "127.0.0.1:8080", host)
}

// runBlock runs a block as a shell would, and fails when a command or a request does.
func runBlock(t *testing.T, dir, url string, b block, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // cleanups run commands, too
	defer cancel()
	// curl -s is silent about an error status; this one reports each.
	script := `curl() { command curl -w '%{stderr}status %{http_code}\n' "$@"; }` + "\n" + b.at(url)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, report bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &report
	if err := cmd.Run(); err != nil {
		t.Errorf("%v in\n%s\n%s%s", err, b.text, out.String(), report.String())
	}
	for line := range strings.Lines(report.String()) {
		status, ok := strings.CutPrefix(strings.TrimSpace(line), "status ")
		if ok && status >= "400" && !b.expects(status) {
			t.Errorf("status %s in\n%s\n%s", status, b.text, out.String())
		}
	}
	for _, word := range b.info {
		if word >= "400" && word <= "599" && !strings.Contains(report.String(), "status "+word) {
			t.Errorf("no status %s in\n%s\n%s", word, b.text, out.String())
		}
	}
	return out.String()
}

// runTail starts a block that never ends and waits for its first line.
func runTail(t *testing.T, url string, b block) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+strings.TrimSpace(b.at(url)))
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := readLines(stdout, "{", 1)
	if err != nil || !json.Valid([]byte(line[0])) {
		t.Errorf("%v: %q from\n%s", err, line, b.text)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait()
}

// compareLast holds the last JSON document of out against what the page shows.
// Times are those of another day.
func compareLast(t *testing.T, shown, out string) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(shown), &want); err != nil {
		t.Fatalf("%v in %s", err, shown)
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var doc any
		if err := dec.Decode(&doc); err != nil {
			break
		}
		got = doc
	}
	if a, b := plain(t, want), plain(t, got); a != b {
		t.Errorf("the page shows\n%s\nthe broker says\n%s", a, b)
	}
}

// plain is v in one spelling, with each timestamp replaced.
func plain(t *testing.T, v any) string {
	t.Helper()
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				if _, isNumber := e.(float64); name == "timestamp" && isNumber {
					v[name] = "a time"
				} else {
					walk(e)
				}
			}
		}
	}
	walk(v)
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
