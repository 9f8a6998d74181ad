package handlers

import "strconv"

// decimal is the text of the number that was appended last. Offsets of a page go
// up one by one and its timestamps repeat; both are then made from the text
// before, which costs a fraction of a division per digit.
type decimal struct {
	n    int64
	text [20]byte // of n, at the front
	size int      // 0: nothing was appended yet
}

// append appends n in decimal.
func (d *decimal) append(dst []byte, n int64) []byte {
	switch {
	case d.size == 0 || n <= 0 || n != d.n && n != d.n+1:
		d.size = len(strconv.AppendInt(d.text[:0], n, 10))
	case n == d.n+1 && d.text[d.size-1] < '9':
		d.text[d.size-1]++
	case n == d.n+1:
		d.carry()
	}
	d.n = n
	return append(dst, d.text[:d.size]...)
}

// carry adds one to a positive number that ends in 9.
func (d *decimal) carry() {
	i := d.size - 1
	for ; i >= 0 && d.text[i] == '9'; i-- {
		d.text[i] = '0'
	}
	if i >= 0 {
		d.text[i]++
		return
	}
	copy(d.text[1:], d.text[:d.size])
	d.text[0] = '1'
	d.size++
}
