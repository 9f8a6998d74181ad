package handlers

import "testing"

func TestParsePositions(t *testing.T) {
	ps, ok := parsePositions("10:7,0:43,2:9223372036854775807")
	if !ok || len(ps) != 3 || positionOf(ps, 0) != 43 || positionOf(ps, 10) != 7 || positionOf(ps, 2) != 1<<63-1 {
		t.Fatalf("got %v, %v", ps, ok)
	}
	if got := positionOf(ps, 1); got != 0 {
		t.Errorf("a partition that isn't named begins at %d", got)
	}
	for _, bad := range []string{"", "43", ":", "0:", ":43", "0:-1", "-1:0", "0:043", "00:1", "0:+1", "0:1,", ",0:1", "0:1,0:1", "0:1, 1:2", "0:1e3",
		"2147483648:1", "0:9223372036854775808", "0:1:2", "a:1", "0:1\n"} {
		if ps, ok := parsePositions(bad); ok {
			t.Errorf("%q was taken as %v", bad, ps)
		}
	}
}

func FuzzParsePositions(f *testing.F) {
	f.Add("0:43,1:17")
	f.Fuzz(func(t *testing.T, text string) {
		ps, ok := parsePositions(text)
		if !ok {
			return
		}
		var out []byte
		for i, p := range ps {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendPosition(out, p.partition, p.next)
		}
		if again, ok := parsePositions(string(out)); !ok || len(again) != len(ps) || len(out) != len(text) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
