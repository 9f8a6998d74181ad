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

// nearestPath finds the resource that a mistyped path most probably meant: the
// path with its fixed segments mended, or "". path is canonical.
func nearestPath(path string, routes []Route) string {
	got := strings.Split(path, "/")
	best, bestDistance := "", math.MaxInt
	for _, rt := range routes {
		want := strings.Split(rt.Pattern, "/")
		if len(want) != len(got) || rt.Pattern == "/" {
			continue
		}
		total := 0
		for i, segment := range want {
			switch {
			case strings.HasPrefix(segment, "{"):
				want[i] = got[i]
			case segment != got[i]:
				if nearest(got[i], want[i:i+1]) == "" {
					total = math.MaxInt
				} else if total < math.MaxInt {
					total += editDistance(got[i], segment)
				}
			}
		}
		if total < bestDistance {
			best, bestDistance = strings.Join(want, "/"), total
		}
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
