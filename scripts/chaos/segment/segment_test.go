package segment

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hello is the batch by hand of docs/FORMAT.md.
func hello(t *testing.T) []byte {
	doc, err := os.ReadFile("../../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(doc)) {
		if len(line) > 50 && strings.HasPrefix(line, "000000") && line[8] == ':' {
			digits.WriteString(strings.ReplaceAll(line[10:49], " ", ""))
		}
	}
	b, err := hex.DecodeString(strings.TrimSpace(digits.String()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDocumentedBatch(t *testing.T) {
	got := parse(hello(t))
	if len(got) != 1 || got[0].Bad != nil || got[0].Base != 0 || got[0].Last != 0 || len(got[0].Values) != 1 || string(got[0].Values[0]) != "hello" {
		t.Fatalf("%+v", got)
	}
}

// Every flipped bit behind the leader epoch is found; a torn batch is.
func TestDamage(t *testing.T) {
	whole := hello(t)
	for i := 16; i < len(whole); i++ {
		torn := append([]byte(nil), whole...)
		torn[i] ^= 0x10
		if got := parse(torn); got[0].Bad == nil {
			t.Errorf("a flipped bit in byte %d isn't found", i)
		}
	}
	for n := 1; n < len(whole); n++ {
		if got := parse(append(append([]byte(nil), whole...), whole[:n]...)); len(got) != 2 || got[1].Bad == nil || got[0].Bad != nil {
			t.Errorf("%d bytes of a batch behind a whole one: %+v", n, got)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for path, data := range map[string]string{
		"11111111-2222-3333-4444-555555555555-3/00000000000000000000.log":           string(hello(t)),
		"11111111-2222-3333-4444-555555555555-4/00000000000000000007.log":           string(hello(t)), // misnamed
		"11111111-2222-3333-4444-555555555555-5.deleted-1/00000000000000000000.log": "",
	} {
		path = filepath.Join(dir, "partitions", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := Read(dir)
	if err != nil || len(logs) != 2 {
		t.Fatalf("%v, %+v", err, logs)
	}
	if l := logs[0]; l.Topic != "11111111-2222-3333-4444-555555555555" || l.Partition != 3 || len(l.Batches) != 1 || l.Batches[0].Bad != nil {
		t.Errorf("%+v", l)
	}
	if logs[1].Batches[0].Bad == nil {
		t.Error("a segment whose name is not its first offset passes")
	}
}
