package handlers

import "strconv"

// idHeader is the record header in which a message id is stored. Clients see it
// as the member "id" and can't set a header of that name.
const idHeader = "highwater.id"

// idHeaderBytes is idHeader for the encoder, which only reads it.
var idHeaderBytes = []byte(idHeader)

// prefixedID is the id of the request's i-th record under an Idempotency-Key.
func (rp *recordParser) prefixedID(i int) []byte {
	start := len(rp.scratch)
	rp.scratch = append(rp.scratch, rp.idPrefix...)
	rp.scratch = strconv.AppendInt(rp.scratch, int64(i), 10)
	return rp.scratch[start:len(rp.scratch):len(rp.scratch)]
}
