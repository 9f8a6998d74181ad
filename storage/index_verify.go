package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
)

// bbolt trusts its file: a flipped bit in a page makes it panic, sometimes in a
// goroutine of its own where nothing can recover, or read outside its mapping
// (S11). So before bbolt may open the file, checkIndexFile walks it: with plain
// reads instead of a mapping, believing no length, count or page id before it is
// shown to be in bounds. It was chosen over bbolt's own Check in a child process:
// it needs no second program, can't fall over what it is looking for, and may be
// stricter than bbolt, because it knows exactly which buckets there are and that
// bbolt packs a page without gaps. It runs at every open, also after a clean stop:
// it costs one read of the file.
//
// After it, a flipped bit can only be in a key or value, where the checksum finds
// it, or in bytes that nobody reads.
//
// The format (bbolt's file version 2), in the machine's byte order; Highwater runs
// on little-endian machines:
//
//	page:   id 8 | flags 2 | count 2 | overflow 4 | elements 16 each | keys and values
//	meta:   page header 16 | magic 4 | version 4 | page size 4 | flags 4 | root page 8 |
//	        sequence 8 | freelist page 8 | page count 8 | transaction 8 | FNV-1a 8
//	branch: position 4 | key size 4 | page 8        position counts from the element's
//	leaf:   flags 4 | position 4 | key size 4 | value size 4       own first byte
//	bucket: root page 8 | sequence 8 [| page]       as a leaf's value; root page 0: inline
//	freelist: page 8 each; a count of 0xFFFF: the first is the count
const (
	indexPageSize = 4096 // fixed, so that the file moves between machines

	pageHeaderSize  = 16
	pageElementSize = 16
	pageFlagBranch  = 0x01
	pageFlagLeaf    = 0x02
	pageFlagFree    = 0x10

	indexMetaSize    = 64 // from magic to checksum
	indexMagic       = 0xED0CDAED
	indexVersion     = 2
	noFreelistPage   = 1<<64 - 1
	bucketHeaderSize = 16
	leafFlagBucket   = 0x01

	// maxIndexDepth bounds the walk; a tree of 2^64 keys is less deep.
	maxIndexDepth = 32
	// maxIndexPages bounds the file to 4 TiB, so that a page count can't size an allocation beyond 128 MiB.
	maxIndexPages = 1 << 30
)

// indexFacts is what the check learns on its way.
type indexFacts struct {
	generation uint64
	pages      uint64
	freePages  uint64
	older      bool // some of today's buckets are missing
	damaged    []damagedEntry
}

// damagedEntry is an entry whose checksum is wrong.
type damagedEntry struct{ bucket, key []byte }

// maxDamagedEntries: a file with more isn't worth mending.
const maxDamagedEntries = 10_000

// checkIndexFile says whether bbolt can safely open the file. The error is a
// *CorruptError if the file is damaged, else a failure to read it.
func checkIndexFile(path string) (indexFacts, error) { return walkIndexFile(path, nil) }

// walkIndexFile is checkIndexFile if keep is nil. Else it passes over what is
// damaged and gives keep every whole entry that it still can reach, in the order
// of buckets and keys; the slices are keep's only for the call.
func walkIndexFile(path string, keep func(bucket, key, value []byte) error) (indexFacts, error) {
	f, err := os.Open(path)
	if err != nil {
		return indexFacts{}, fmt.Errorf("storage: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return indexFacts{}, fmt.Errorf("storage: %w", err)
	}
	w := indexWalk{file: f, size: uint64(info.Size()), keep: keep}
	if err := w.run(); err != nil {
		if bad := (*CorruptError)(nil); errors.As(err, &bad) {
			bad.Path = info.Name()
			return w.facts, bad
		}
		return w.facts, fmt.Errorf("storage: %w", err)
	}
	return w.facts, nil
}

// indexWalk is one check of one file.
type indexWalk struct {
	file  io.ReaderAt
	size  uint64
	keep  func(bucket, key, value []byte) error // nil: damage ends the walk
	pages uint64                                // pages in use or free; none at or above
	free  uint64                                // page of the freelist, or noFreelistPage
	seen  []uint64
	count uint64 // pages seen
	facts indexFacts
}

func (w *indexWalk) bad(page uint64, format string, args ...any) error {
	return &CorruptError{Position: int64(page * indexPageSize), Reason: fmt.Sprintf(format, args...)}
}

func (w *indexWalk) run() error {
	if w.size < 4*indexPageSize {
		return w.bad(0, "%d bytes are no index", w.size)
	}
	root, err := w.metas()
	if err != nil {
		return err
	}
	w.seen = make([]uint64, w.pages/64+1)
	w.mark(0, 1)
	buckets := map[string]bool{}
	err = w.tree(root, nil, nil, 0, func(page uint64, flags uint32, key, value []byte) error {
		if flags != leafFlagBucket || len(value) < bucketHeaderSize {
			return w.bad(page, "entry %q is no bucket", key)
		}
		if !slices.ContainsFunc(indexBuckets(), func(name []byte) bool { return bytes.Equal(name, key) }) {
			return w.passOver(w.bad(page, "unknown bucket %q", key))
		}
		buckets[string(key)] = true
		return w.passOver(w.bucket(page, bytes.Clone(key), value))
	})
	if err != nil || w.keep != nil {
		return err
	}
	for _, name := range firstBuckets() {
		if !buckets[string(name)] {
			return w.bad(root, "bucket %q is missing", name)
		}
	}
	w.facts.older = len(buckets) < len(indexBuckets())
	w.facts.pages, w.facts.freePages = w.pages, w.pages-w.count
	return w.freelist()
}

// passOver swallows damage if the walk is to go on over it.
func (w *indexWalk) passOver(err error) error {
	if bad := (*CorruptError)(nil); w.keep != nil && errors.As(err, &bad) {
		return nil
	}
	return err
}

// errStrayPages: a page is neither in use nor free, so some pointer must lead to
// another page than it did, perhaps to an older copy of the right one.
const errStrayPages = "pages are neither in use nor free"

// freelist checks the list of free pages, if there is one, which bbolt believes:
// a page listed by mistake would be overwritten.
func (w *indexWalk) freelist() error {
	if w.free == noFreelistPage {
		return nil
	}
	p, err := w.readPage(w.free)
	if err != nil {
		return err
	}
	if flags := binary.LittleEndian.Uint16(p[8:]); flags != pageFlagFree || binary.LittleEndian.Uint64(p) != w.free {
		return w.bad(w.free, "is no freelist")
	}
	count, list := uint64(binary.LittleEndian.Uint16(p[10:])), p[pageHeaderSize:]
	if count == 0xffff {
		count, list = binary.LittleEndian.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return w.bad(w.free, "%d free pages don't fit in the page", count)
	}
	for i := range count {
		page := binary.LittleEndian.Uint64(list[8*i:])
		if page < 2 || page >= w.pages || !w.mark(page, page) {
			return w.bad(w.free, "page %d can't be free", page)
		}
	}
	if w.count != w.pages {
		return w.bad(w.free, "%d %s", w.pages-w.count, errStrayPages)
	}
	return nil
}

// metas checks both meta pages and returns the root page of the one that bbolt
// will use: the newer valid one. One invalid meta is what a power cut in the
// middle of a commit leaves behind.
func (w *indexWalk) metas() (root uint64, err error) {
	var newest uint64
	found := false
	for page := range uint64(2) {
		var buf [pageHeaderSize + indexMetaSize]byte
		if _, err := w.file.ReadAt(buf[:], int64(page*indexPageSize)); err != nil {
			return 0, err
		}
		m := buf[pageHeaderSize:]
		u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
		sum := fnv.New64a()
		sum.Write(m[:indexMetaSize-8])
		if u32(m) != indexMagic || u32(m[4:]) != indexVersion || u64(m[56:]) != sum.Sum64() {
			continue
		}
		tx := u64(m[48:])
		if found && tx < newest {
			continue
		}
		found, newest = true, tx
		if u32(m[8:]) != indexPageSize {
			return 0, w.bad(page, "page size is %d, not %d", u32(m[8:]), indexPageSize)
		}
		root, w.free, w.pages = u64(m[16:]), u64(m[32:]), u64(m[40:])
	}
	switch {
	case !found:
		return 0, w.bad(0, "both meta pages are damaged")
	case w.keep != nil:
		w.pages = min(w.pages, w.size/indexPageSize)
	case w.pages > maxIndexPages || w.pages > w.size/indexPageSize:
		return 0, w.bad(0, "%d pages don't fit in %d bytes", w.pages, w.size)
	}
	return root, nil
}

// mark notes that pages from..to are in use; false if one already was.
func (w *indexWalk) mark(from, to uint64) bool {
	for p := from; p <= to; p++ {
		if w.seen[p/64]&(1<<(p%64)) != 0 {
			return false
		}
		w.seen[p/64] |= 1 << (p % 64)
		w.count++
	}
	return true
}

// bucket walks one of the buckets.
func (w *indexWalk) bucket(page uint64, name, value []byte) error {
	visit := func(page uint64, flags uint32, key, value []byte) error {
		if flags != 0 {
			return w.bad(page, "a bucket within bucket %q", name)
		}
		return w.entry(page, name, key, value)
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		if len(value) != bucketHeaderSize {
			return w.bad(page, "bucket %q is inline and isn't", name)
		}
		return w.tree(root, nil, nil, 0, visit)
	}
	p := indexPage{buf: bytes.Clone(value[bucketHeaderSize:])}
	if reason := p.parse(0); reason != "" || p.branch || binary.LittleEndian.Uint32(p.buf[12:]) != 0 {
		return w.bad(page, "inline bucket %q: %s", name, reason)
	}
	return w.leaf(page, p, nil, nil, visit)
}

// entry checks an entry's checksum.
func (w *indexWalk) entry(page uint64, bucket, key, value []byte) error {
	var err error
	switch string(bucket) {
	case "store":
		if bytes.Equal(key, keyGeneration) {
			w.facts.generation, err = parseGeneration(value)
		}
	case "meta":
		_, err = parseMeta(key, value)
	case "offset":
		_, err = parseOffsetEntry(key, value)
	case "time":
		_, err = parseTimeEntry(key, value)
	case "ids", "producers":
		_, err = unseal(bucket, key, value)
	}
	switch {
	case w.keep != nil && err == nil:
		return w.keep(bucket, key, value)
	case err != nil && len(w.facts.damaged) >= maxDamagedEntries:
		return w.bad(page, "more than %d damaged entries", maxDamagedEntries)
	case err != nil:
		w.facts.damaged = append(w.facts.damaged, damagedEntry{bytes.Clone(bucket), bytes.Clone(key)})
	}
	return nil
}

// tree walks the page and everything below it. Its first key must be from, as
// bbolt relies on when it writes, and all keys below to; nil means no bound.
func (w *indexWalk) tree(page uint64, from, to []byte, depth int, visit func(page uint64, flags uint32, key, value []byte) error) error {
	if depth > maxIndexDepth {
		return w.bad(page, "tree is deeper than %d", maxIndexDepth)
	}
	p, err := w.read(page)
	if err != nil {
		return err
	}
	if !p.branch {
		return w.leaf(page, p, from, to, visit)
	}
	if p.count == 0 {
		return w.bad(page, "branch without children")
	}
	for i := range p.count {
		end, err := w.nextKey(page, p, i, from, to)
		if err != nil {
			return err
		}
		e := p.element(i)
		if err := w.passOver(w.tree(e.child, e.key, end, depth+1, visit)); err != nil {
			return err
		}
	}
	return nil
}

func (w *indexWalk) leaf(page uint64, p indexPage, from, to []byte, visit func(page uint64, flags uint32, key, value []byte) error) error {
	if p.count == 0 && from != nil {
		return w.bad(page, "empty leaf")
	}
	for i := range p.count {
		if _, err := w.nextKey(page, p, i, from, to); err != nil {
			return err
		}
		e := p.element(i)
		if err := visit(page, e.flags, e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// nextKey checks that element i is in its place, and returns the key that it must
// stay below.
func (w *indexWalk) nextKey(page uint64, p indexPage, i int, from, to []byte) ([]byte, error) {
	key, end := p.element(i).key, to
	if i+1 < p.count {
		end = p.element(i + 1).key
	}
	if i == 0 && from != nil && !bytes.Equal(key, from) {
		return nil, w.bad(page, "first key is not the one in the page above")
	}
	if end != nil && bytes.Compare(key, end) >= 0 {
		return nil, w.bad(page, "keys out of order at element %d", i)
	}
	return end, nil
}

// read reads a branch or leaf page and checks all of its figures.
func (w *indexWalk) read(page uint64) (indexPage, error) {
	buf, err := w.readPage(page)
	if err != nil {
		return indexPage{}, err
	}
	p := indexPage{buf: buf}
	if reason := p.parse(page); reason != "" {
		return indexPage{}, w.bad(page, "%s", reason)
	}
	return p, nil
}

// readPage reads a page with its overflow pages and marks them as used.
func (w *indexWalk) readPage(page uint64) ([]byte, error) {
	if page < 2 || page >= w.pages {
		return nil, w.bad(page%maxIndexPages, "page %d is not in [2, %d)", page, w.pages)
	}
	var header [pageHeaderSize]byte
	if _, err := w.file.ReadAt(header[:], int64(page*indexPageSize)); err != nil {
		return nil, err
	}
	overflow := uint64(binary.LittleEndian.Uint32(header[12:]))
	if page+overflow >= w.pages {
		return nil, w.bad(page, "%d overflow pages leave the file", overflow)
	}
	if !w.mark(page, page+overflow) {
		return nil, w.bad(page, "page is used twice")
	}
	buf := make([]byte, (1+overflow)*indexPageSize)
	if _, err := w.file.ReadAt(buf, int64(page*indexPageSize)); err != nil {
		return nil, err
	}
	return buf, nil
}

// indexPage is a branch or leaf page whose figures were checked by parse.
type indexPage struct {
	buf    []byte
	branch bool
	count  int
}

type pageElement struct {
	flags      uint32
	child      uint64
	key, value []byte
}

// parse checks the page's header and that its elements describe one run of
// non-empty keys with their values, without a gap. It returns what is wrong.
func (p *indexPage) parse(id uint64) (reason string) {
	if len(p.buf) < pageHeaderSize {
		return "page is cut off"
	}
	flags := binary.LittleEndian.Uint16(p.buf[8:])
	p.branch = flags == pageFlagBranch
	p.count = int(binary.LittleEndian.Uint16(p.buf[10:]))
	switch {
	case binary.LittleEndian.Uint64(p.buf) != id:
		return fmt.Sprintf("page says it is page %d", binary.LittleEndian.Uint64(p.buf))
	case flags != pageFlagBranch && flags != pageFlagLeaf:
		return fmt.Sprintf("page type is %#x", flags)
	case pageHeaderSize+p.count*pageElementSize > len(p.buf):
		return fmt.Sprintf("%d elements don't fit in the page", p.count)
	}
	next := uint64(pageHeaderSize + p.count*pageElementSize)
	for i := range p.count {
		start, keySize, valueSize := p.place(i)
		if start != next || keySize == 0 || next+keySize+valueSize > uint64(len(p.buf)) {
			return fmt.Sprintf("element %d is at %d+%d+%d instead of %d", i, start, keySize, valueSize, next)
		}
		next += keySize + valueSize
	}
	return ""
}

// place returns where element i says that its key is, and the sizes.
func (p *indexPage) place(i int) (start, keySize, valueSize uint64) {
	at := pageHeaderSize + i*pageElementSize
	u32 := func(off int) uint64 { return uint64(binary.LittleEndian.Uint32(p.buf[at+off:])) }
	if p.branch {
		return uint64(at) + u32(0), u32(4), 0
	}
	return uint64(at) + u32(4), u32(8), u32(12)
}

func (p *indexPage) element(i int) pageElement {
	start, keySize, valueSize := p.place(i)
	at := pageHeaderSize + i*pageElementSize
	e := pageElement{key: p.buf[start : start+keySize], value: p.buf[start+keySize : start+keySize+valueSize]}
	if p.branch {
		e.child = binary.LittleEndian.Uint64(p.buf[at+8:])
	} else {
		e.flags = binary.LittleEndian.Uint32(p.buf[at:])
	}
	return e
}
