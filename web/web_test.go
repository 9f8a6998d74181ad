package web

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// The vendored module is the one that was vendored.
func TestVendoredFiles(t *testing.T) {
	list, err := os.Open("CHECKSUMS")
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
		listed[name] = true
		data, err := fs.ReadFile(Console(), name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has sha256 %x, want %s", name, sum, want)
		}
	}
	vendored, err := fs.Glob(Console(), "vendor/*.js")
	if err != nil || len(vendored) == 0 {
		t.Fatalf("%v %v", vendored, err)
	}
	for _, name := range vendored {
		if !listed[name] {
			t.Errorf("%s is not in CHECKSUMS", name)
		}
	}
	if licences, err := fs.ReadFile(Console(), "vendor/LICENSES.txt"); err != nil || len(licences) == 0 {
		t.Errorf("licences: %d bytes, %v", len(licences), err)
	}
}

// Nothing of ours turns text into markup or code, rounds the broker's numbers, or
// names an address elsewhere (H55, H01).
func TestH55_OwnModulesStayText(t *testing.T) {
	for _, pattern := range []string{"*.js", "*.html", "*.css"} {
		names, err := fs.Glob(Console(), pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v %v", pattern, names, err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(Console(), name)
			if err != nil {
				t.Fatal(err)
			}
			for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "dangerouslySet", "eval(", "new Function", ".json()", "http://", "https://", " style="} {
				if strings.Contains(string(data), banned) {
					t.Errorf("%s holds %s", name, banned)
				}
			}
		}
	}
}
