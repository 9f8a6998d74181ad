package storage

// SplitBatch takes the first batch off src like ParseBatch, but leaves the CRC
// alone: it is for bytes that Log.Read returned, which has checked it already.
func SplitBatch(src []byte) (b Batch, rest []byte, err error) {
	size, err := batchSize(src)
	if err != nil {
		return nil, nil, err
	}
	if size > len(src) {
		return nil, nil, &CorruptError{Reason: "batch is cut off"}
	}
	return Batch(src[:size:size]), src[size:], nil
}

// SkipTo drops the records below offset without decoding their keys, values and
// headers, so that a read from the middle of a large batch costs little.
// Malformed bytes are left for Next to report.
func (it *RecordIterator) SkipTo(offset int64) {
	for it.err == nil && it.left > 0 {
		length, n := varint(it.body)
		if n <= 0 || length < 1 || length > int64(len(it.body)-n) {
			return
		}
		record := it.body[n+1 : n+int(length)] // after the attributes byte
		_, m := varint(record)
		if m <= 0 {
			return
		}
		delta, k := varint(record[m:])
		if k <= 0 || it.baseOffset+delta >= offset {
			return
		}
		it.body = it.body[n+int(length):]
		it.left--
	}
}
