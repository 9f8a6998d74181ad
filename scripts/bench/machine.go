package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// describeMachine is the line above the tables: processor, memory, kernel, file
// system, Go, commit and date. It names no host.
func describeMachine(dir string) (string, error) {
	fs, err := filesystemName(dir)
	if err != nil {
		return "", err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "", err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	memory := float64(info.Totalram) * float64(info.Unit) / (1 << 30)
	return fmt.Sprintf("machine: %s, %d cores shared with the load generator, %.0f GiB, Linux %s, %s; %s; commit %s; %s",
		processorName(), runtime.NumCPU(), memory, unix.ByteSliceToString(uts.Release[:]), fs, runtime.Version(), commit(), time.Now().UTC().Format("2006-01-02")), nil
}

func processorName() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// commit is the tree that was measured; outside a repository it's unknown.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
