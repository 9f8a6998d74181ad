package openapi

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// The vendored files are the ones that were vendored.
func TestVendoredFiles(t *testing.T) {
	list, err := UI().Open("CHECKSUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("CHECKSUMS: %q", lines.Text())
		}
		listed[name+".gz"] = true
		f, err := UI().Open(name + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		plain, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, plain); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want {
			t.Errorf("%s has sha256 %s, want %s", name, got, want)
		}
	}
	gzipped, err := fs.Glob(UI(), "*.gz")
	if err != nil || len(gzipped) == 0 {
		t.Fatalf("%v %v", gzipped, err)
	}
	for _, name := range gzipped {
		if !listed[name] {
			t.Errorf("%s is not in CHECKSUMS", name)
		}
	}
}

// A copy of what others wrote comes with their licence.
func TestLicences(t *testing.T) {
	for _, name := range []string{"LICENSE.swagger-ui.txt", "NOTICE.swagger-ui.txt", "swagger-ui-bundle.js.LICENSE.txt"} {
		if text, err := fs.ReadFile(UI(), name); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}
