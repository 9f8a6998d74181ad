package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSummaryAndQuantiles(t *testing.T) {
	if s := summarize([]float64{3, 1, 2}); s != (summary{2, 1, 3, 3}) {
		t.Errorf("odd: %+v", s)
	}
	if s := summarize([]float64{4, 1, 2, 3}); s.median != 2.5 {
		t.Errorf("even: %+v", s)
	}
	var l latencies
	for i := range 1000 {
		l.add(time.Duration(1000-i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := l.quantile(q); got != want*time.Millisecond {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
	if latencies(nil).quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		row  row
		want string
	}{
		{row{target: 0.7, stretch: 0.85, atLeast: true, rounds: []float64{0.9}}, "stretch met"},
		{row{target: 0.7, stretch: 0.85, atLeast: true, rounds: []float64{0.7}}, "met"},
		{row{target: 0.7, stretch: 0.85, atLeast: true, rounds: []float64{0.69}}, "**missed**"},
		{row{target: 2, stretch: 1.5, unit: times, rounds: []float64{1.2}}, "stretch met"},
		{row{target: 2, stretch: 1.5, unit: times, rounds: []float64{2.1}}, "**missed**"},
		{row{unit: times, rounds: []float64{2.1}}, ""},
	} {
		if got := tc.row.verdict(); got != tc.want {
			t.Errorf("%+v: %q", tc.row, got)
		}
	}
}

func TestSpliceKeepsTheRest(t *testing.T) {
	doc := "# top\n" + beginMarker + "\nold\n" + endMarker + "\nbottom\n"
	r := report{machine: "machine: m"}
	r.add(row{id: "P1", work: "w", target: 0.7, stretch: 0.8, atLeast: true, rounds: []float64{0.75}})
	for range 2 { // a second time finds its own markers
		out, err := splice([]byte(doc), r.markdown("make bench"))
		if err != nil {
			t.Fatal(err)
		}
		doc = string(out)
	}
	for _, want := range []string{"# top\n" + beginMarker, "| P1 | w | ≥ 70.0 % | ≥ 80.0 % | 75.0 % [75.0 % – 75.0 %] | 1 | met |", endMarker + "\nbottom\n"} {
		if strings.Count(doc, want) != 1 {
			t.Errorf("%q is there %d times in\n%s", want, strings.Count(doc, want), doc)
		}
	}
	if strings.Contains(doc, "old") {
		t.Error("the old table is still there")
	}
	if _, err := splice([]byte("no markers"), nil); !errors.Is(err, errNoMarkers) {
		t.Errorf("without markers: %v", err)
	}
}

func TestAllocationCells(t *testing.T) {
	got, ok := allocationCells("BenchmarkFetch/acks=-1/records=100-2   \t  1000\t 52000 ns/op\t 120 B/record\t 0.025 allocs/record\t 1900000 records/s\t 12 B/op\t 3 allocs/op\n")
	if want := "| Fetch/acks=-1/records=100 | 1900000 | 0.025 | 120 |"; !ok || got != want {
		t.Errorf("%q, %v", got, ok)
	}
	for _, line := range []string{"PASS\n", "BenchmarkX-2 1 2 ns/op\n", "Benchmark"} {
		if _, ok := allocationCells(line); ok {
			t.Errorf("%q was taken", line)
		}
	}
}
