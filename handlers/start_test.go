package handlers

import "testing"

// TestH20_OffsetParameter: what the parameter may be, and that nothing wraps.
func TestH20_OffsetParameter(t *testing.T) {
	for text, want := range map[string]start{
		"earliest": {}, "latest": {kind: startLatest}, "0": {startAt, 0}, "9223372036854775807": {startAt, 1<<63 - 1},
		"-1": {startFromEnd, 1}, "-9223372036854775807": {startFromEnd, 1<<63 - 1},
	} {
		if got, ok := parseOffset(text); !ok || got != want {
			t.Errorf("%q: got %v, %v", text, got, ok)
		}
	}
	for _, bad := range []string{"", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0x5", "+5", "05", "5.0", "-0", "--1", "Latest", " 5", "5 ", "1e3", "٣"} {
		if got, ok := parseOffset(bad); ok {
			t.Errorf("%q was taken as %v", bad, got)
		}
	}
}
