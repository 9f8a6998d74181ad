package handlers

import (
	"slices"
	"strconv"
	"strings"
)

// position is the offset to read next in one partition. A position vector holds
// one for each partition of a topic, written "0:43,1:17": it is the id of an
// event and the value of Highwater-Next-Position.
type position struct {
	partition int32
	next      int64
}

// parsePositions reads a position vector; ok is false for anything that
// appendPositions doesn't write, but for the order of the partitions.
func parsePositions(text string) (ps []position, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		number, next, found := strings.Cut(part, ":")
		n, err := strconv.ParseInt(number, 10, 32)
		if !found || err != nil || !plainDecimal(number) || !plainDecimal(next) {
			return nil, false
		}
		offset, err := strconv.ParseInt(next, 10, 64)
		if err != nil {
			return nil, false
		}
		ps = append(ps, position{partition: int32(n), next: offset})
	}
	slices.SortFunc(ps, func(a, b position) int { return int(a.partition) - int(b.partition) })
	for i := 1; i < len(ps); i++ {
		if ps[i].partition == ps[i-1].partition {
			return nil, false
		}
	}
	return ps, true
}

// plainDecimal says that s is a number as strconv writes it: digits, no sign, no
// leading zero.
func plainDecimal(s string) bool {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// positionOf finds a partition in a sorted vector. A partition that the vector
// doesn't name has not been read from: a topic may have got it since.
func positionOf(ps []position, partition int32) int64 {
	i, found := slices.BinarySearchFunc(ps, partition, func(p position, n int32) int { return int(p.partition) - int(n) })
	if !found {
		return 0
	}
	return ps[i].next
}
