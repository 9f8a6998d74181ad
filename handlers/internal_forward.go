package handlers

import (
	"net/http"

	"highwater/replication/wire"
)

// What other brokers' clients ask of partitions that this broker leads. None of
// these is forwarded again: the broker that doesn't lead says so.

// appendOverhead is what an append may hold beyond one client's request: the head,
// and what batches add to records.
const appendOverhead = 64 << 20

// append appends another broker's batches.
func (in *Internal) append(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	req := &wire.AppendRequest{}
	release, err := in.receive(w, r, 2*in.cfg.MaxRequestBytes+appendOverhead, req)
	if err != nil {
		return err
	}
	defer release()
	return in.answer(w, &wire.JSON[wire.AppendAnswer]{V: b.ServeAppend(r.Context(), req)})
}

// read answers with records, raw.
func (in *Internal) read(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	req := &wire.JSON[wire.ReadRequest]{}
	release, err := in.receive(w, r, maxControlMessage, req)
	if err != nil {
		return err
	}
	release()
	var buf []byte
	if req.V.MaxWaitMs <= 0 { // none is held while a request waits
		buf = in.buffers.get()
	}
	defer func() { in.buffers.put(buf) }()
	ctx, cancel := in.polling(r)
	defer cancel()
	return in.answer(w, b.ServeRead(ctx, req.V, &buf))
}

// watch is the long-poll for news of partitions.
func (in *Internal) watch(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	ctx, cancel := in.polling(r)
	defer cancel()
	return served(in, w, r, func(req *wire.WatchRequest) *wire.WatchAnswer { return b.ServeWatch(ctx, req) })
}

func (in *Internal) offsets(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.OffsetsRequest) *wire.OffsetsAnswer { return b.ServeOffsets(r.Context(), req) })
}

func (in *Internal) deleteRecords(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.DeleteRecordsRequest) *wire.DeleteRecordsAnswer {
		return b.ServeDeleteRecords(r.Context(), req)
	})
}

func (in *Internal) status(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	return served(in, w, r, func(req *wire.StatusRequest) *wire.StatusAnswer { return b.ServeStatus(req) })
}

// findMessage looks for a message id, and waits for a record in flight.
func (in *Internal) findMessage(w http.ResponseWriter, r *http.Request) error {
	b, err := in.theBroker()
	if err != nil {
		return err
	}
	req := &wire.JSON[wire.FindRequest]{}
	release, err := in.receive(w, r, maxControlMessage, req)
	if err != nil {
		return err
	}
	release()
	ctx, cancel := in.polling(r)
	defer cancel()
	return in.answer(w, b.ServeFind(ctx, req.V))
}
