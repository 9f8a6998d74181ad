package handlers

import (
	"math"
	"strconv"
	"testing"
)

func TestDecimal(t *testing.T) {
	var d decimal
	check := func(n int64) {
		t.Helper()
		if got := string(d.append(nil, n)); got != strconv.FormatInt(n, 10) {
			t.Fatalf("%d is %s", n, got)
		}
	}
	for _, start := range []int64{0, -3, 5, 98, 997, 999_999_998, math.MaxInt64 - 3, math.MinInt64} {
		for i := range int64(4) {
			check(start + i)
			check(start + i)
		}
	}
	for n := range int64(12_000) {
		check(n)
	}
	for _, n := range []int64{7, 7, 9, 10, 8, -1, 0, 1, math.MaxInt64, math.MinInt64} {
		check(n)
	}
}
