package handlers

import (
	"strconv"

	"highwater/storage"
)

// requestHeader is the record header that tells one request under an Idempotency-Key
// from another. Clients neither see it nor can set it.
const requestHeader = storage.RequestHashHeader

// requestHeaderBytes is requestHeader for the encoder, which only reads it.
var requestHeaderBytes = []byte(requestHeader)

// requestHashBytes is how long its value is.
const requestHashBytes = 8

// idHeader is the record header in which a message id is stored. Clients see it
// as the member "id" and can't set a header of that name.
const idHeader = storage.MessageIDHeader

// idHeaderBytes is idHeader for the encoder, which only reads it.
var idHeaderBytes = []byte(idHeader)

// reserved tells that a record header is the broker's own.
func reserved(name []byte) bool { return string(name) == idHeader || string(name) == requestHeader }

// prefixedID is the id of the request's i-th record under an Idempotency-Key.
func (rp *recordParser) prefixedID(i int) []byte {
	start := len(rp.scratch)
	rp.scratch = append(rp.scratch, rp.idPrefix...)
	rp.scratch = strconv.AppendInt(rp.scratch, int64(i), 10)
	return rp.scratch[start:len(rp.scratch):len(rp.scratch)]
}
