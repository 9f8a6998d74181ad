package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// The tests in this package run the real program. TestMain builds it once; paths
// are passed on by environment variables, as tests have no other shared place.
const (
	envBinary = "HIGHWATER_TEST_BINARY"
	envEvents = "HIGHWATER_TEST_EVENTS"
)

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "highwater-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil { // one test runs the binary as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for env, pkg := range map[string]string{envBinary: "highwater/server", envEvents: "highwater/scripts/ndjson-events"} {
		path := filepath.Join(dir, filepath.Base(pkg))
		args := []string{"build", "-o", path}
		if raceBuild {
			args = append(args, "-race")
		}
		build := exec.Command("go", append(args, pkg)...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "go build", pkg, err)
			return 1
		}
		if err := os.Setenv(env, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// number is a setting of a test from the environment, for the long runs.
func number(t *testing.T, env string, def int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no positive number", env, text)
	}
	return n
}
