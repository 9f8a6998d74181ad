// Package load is the clients of a chaos run: producers, readers and tails that
// take down what they did and were told.
package load

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// maxPad is the most filling in a value, in bytes.
const maxPad = 400

// Value is the record of that name: JSON whose filling follows from the name, so
// that a byte that changed anywhere is noticed.
func Value(name string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	sum := h.Sum64()
	pad := strings.Repeat(fmt.Sprintf("%016x", sum), maxPad/16)[:sum%maxPad]
	return fmt.Appendf(nil, `{"name":%q,"pad":%q}`, name, pad)
}

// Name tells whose value this is. Bytes that are not exactly a value get a name
// that nobody sent.
func Name(value []byte) string {
	var v struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(value, &v); err == nil && string(Value(v.Name)) == string(value) {
		return v.Name
	}
	return fmt.Sprintf("damaged: %.200q", value)
}
