package main

import (
	"slices"
	"time"
)

// latencies are the single times of one run, kept whole: a few million at most,
// and then a quantile is exact.
type latencies []time.Duration

func (l *latencies) add(d time.Duration) { *l = append(*l, d) }

// quantile gives the smallest time that at least q of all don't exceed; 0 of none.
func (l latencies) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	rank := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// summary is the median of the rounds with the extremes beside it.
type summary struct {
	median, lowest, highest float64
	rounds                  int
}

// summarize takes one figure a round. The median of an even number is the mean
// of the middle two.
func summarize(rounds []float64) summary {
	if len(rounds) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(rounds))
	n := len(sorted)
	return summary{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1], n}
}

// perRound divides the figures of two sides round by round.
func perRound(a, b []float64) []float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}
