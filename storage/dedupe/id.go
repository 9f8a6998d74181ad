package dedupe

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"

	"github.com/cespare/xxhash/v2"
)

// ID stands for a message id: the first 16 bytes of its SHA-256. Two ids that
// share one can't be found on purpose.
type ID [16]byte

// IDOf is the ID of a message id.
func IDOf(id []byte) ID {
	sum := sha256.Sum256(id)
	return ID(sum[:16])
}

// IDs makes IDs of many message ids in less time than IDOf. The zero value is ready; it is not safe for
// concurrent use.
type IDs struct {
	sha   hash.Hash
	state encoding.BinaryAppender // of sha
	block [sha256.BlockSize]byte
	buf   [128]byte
}

const (
	// shortID is the length up to which an id and SHA-256's padding fit one block.
	shortID = sha256.BlockSize - 9
	// stateAt is where the hash's words begin in the state that crypto/sha256 tells.
	stateAt = 4
)

// Of is IDOf. A message id is nearly always shorter than a block, and then the sum is the state behind that
// one block: with the padding put there by hand, the hash doesn't have to copy itself to end.
func (ids *IDs) Of(id []byte) ID {
	if len(id) > shortID {
		return IDOf(id)
	}
	if ids.sha == nil {
		ids.sha = sha256.New()
		ids.state = ids.sha.(encoding.BinaryAppender) // as crypto/sha256 promises
	}
	clear(ids.block[:])
	copy(ids.block[:], id)
	ids.block[len(id)] = 0x80
	binary.BigEndian.PutUint64(ids.block[shortID+1:], 8*uint64(len(id)))
	ids.sha.Reset()
	_, _ = ids.sha.Write(ids.block[:])              // never fails
	state, _ := ids.state.AppendBinary(ids.buf[:0]) // never fails
	return ID(state[stateAt:])
}

// head is its first 8 bytes.
func (id *ID) head() uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Content hashes what a record says, to tell a repeated message from another one
// under the same id (D7): Begin, Header for each header that counts, in order,
// then Sum. nil and empty differ. The lengths are mixed in, so that two contents of the
// same bytes, parted elsewhere, differ. It is reused by the next Begin. The zero
// value is ready.
type Content struct {
	digest xxhash.Digest
	buf    []byte // what the digest doesn't have yet
	long   bool   // it has something
}

// contentBuffer is how much is gathered before it goes into the digest, which takes long strings
// much faster than short ones.
const contentBuffer = 1 << 10

// Begin starts with key and value.
func (c *Content) Begin(key, value []byte) {
	c.long, c.buf = false, c.buf[:0]
	c.part(key)
	c.part(value)
}

// Header adds a header. A nil value differs from an empty one.
func (c *Content) Header(name, value []byte) {
	c.part(name)
	c.part(value)
}

// Number adds a number, where the content is more than a record.
func (c *Content) Number(n uint64) {
	c.buf = binary.BigEndian.AppendUint64(c.buf, n)
	c.spill(contentBuffer)
}

// Sum is the hash of all since Begin.
func (c *Content) Sum() uint64 {
	if !c.long {
		return xxhash.Sum64(c.buf)
	}
	c.spill(0)
	return c.digest.Sum64()
}

func (c *Content) part(b []byte) {
	there := byte(1)
	if b == nil {
		there = 0
	}
	c.buf = binary.BigEndian.AppendUint64(append(c.buf, there), uint64(len(b)))
	if len(b) < contentBuffer {
		c.buf = append(c.buf, b...)
		c.spill(contentBuffer)
		return
	}
	c.spill(0)
	c.write(b)
}

// spill empties the buffer if it holds more than that.
func (c *Content) spill(above int) {
	if len(c.buf) > above {
		c.write(c.buf)
		c.buf = c.buf[:0]
	}
}

func (c *Content) write(b []byte) {
	if !c.long {
		c.digest.Reset()
		c.long = true
	}
	_, _ = c.digest.Write(b) // never fails
}
