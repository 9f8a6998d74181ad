package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// runSwag returns the Swagger 2.0 document that swag reads out of the module at
// root. swag ends with success although it skipped a type or a line, so what it
// says is read too: it must never be run quietly.
func runSwag(root string) ([]byte, error) {
	out, err := os.MkdirTemp("", "swag")
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	defer func() { _ = os.RemoveAll(out) }()
	cmd := exec.Command("go", "tool", "swag", "init", "-g", "main.go", "-d", "server,handlers,openapi/schema", "-o", out, "--outputTypes", "json")
	cmd.Dir = root
	said, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("gen: swag: %w\n%s", err, said)
	}
	if line := complaint(said); line != "" {
		return nil, fmt.Errorf("gen: swag: %s", line)
	}
	doc, err := os.ReadFile(filepath.Join(out, "swagger.json"))
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	return doc, nil
}

// complaint is the first line by which swag tells that it left something out.
func complaint(said []byte) string {
	for line := range bytes.Lines(said) {
		lower := strings.ToLower(string(line))
		for _, sign := range []string{"error parsing", "warning"} {
			if strings.Contains(lower, sign) {
				return strings.TrimSpace(string(line))
			}
		}
	}
	return ""
}
