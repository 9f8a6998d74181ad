package handlers

import (
	"math"
	"strings"
)

// nearest finds the known name that a typo most probably meant.
func nearest(name string, known []string) string {
	best, bestDistance := "", math.MaxInt
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if bestDistance > 1+len(best)/3 {
		return ""
	}
	return best
}

// maxTypoBytes keeps the distance of absurdly long names from costing anything.
const maxTypoBytes = 40

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
	if len(a) > maxTypoBytes || len(b) > maxTypoBytes {
		return math.MaxInt
	}
	var row [maxTypoBytes + 1]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
