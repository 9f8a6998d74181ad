package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
)

const (
	// freshBodies is how many request bodies go round whose ids are made new in
	// place: far more than there are connections, so none is on its way still.
	freshBodies = 512
	// idDigits of each id count requests; the rest tells the records of one apart.
	idDigits = 16
	// manyPartitions is P18's and P20's topic whose ids are spread.
	manyPartitions = 64
	// lookups is how many different messages are looked up.
	lookups = 2000
	// oneRecord is the answer to a fetch of one.
	oneRecord = 1
)

// idBatch is a produce body of n records that each have an id, and where in it the
// digits are that make the ids new. An id is as long as a UUID.
func (w *workload) idBatch(n int) (body []byte, digits []int) {
	body = []byte(`{"records":[`)
	for i := range n {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"id":"`...)
		digits = append(digits, len(body))
		body = fmt.Appendf(body, "%016x-%019d", 0, i)
		body = fmt.Appendf(body, `","key":"user-%d","value":`, w.rng.Int64N(1e6))
		body = w.value(body, "")
		body = append(body, '}')
	}
	return append(body, `]}`...), digits
}

// freshRequests are requests of `records` records, whose ids were never sent
// before under this mark.
func freshRequests(target func(i int) string, records int, mark uint32) func(int) []byte {
	w := newWorkload()
	requests, digits := make([][]byte, freshBodies), make([][]int, freshBodies)
	for i := range requests {
		var body []byte
		body, digits[i] = w.idBatch(records)
		requests[i] = post(target(i), "application/json", body)
		for j := range digits[i] {
			digits[i][j] += len(requests[i]) - len(body)
		}
	}
	return func(i int) []byte {
		var number [8]byte
		binary.BigEndian.PutUint32(number[:], mark)
		binary.BigEndian.PutUint32(number[4:], uint32(i))
		request := requests[i%freshBodies]
		for _, at := range digits[i%freshBodies] {
			hex.Encode(request[at:at+idDigits], number[:])
		}
		return request
	}
}

// keyedRequests are distinctBodies requests under an Idempotency-Key each that was
// never sent before under this mark. The bodies are those of produceRequests.
func keyedRequests(target string, records int, mark uint32) func(int) []byte {
	const header = "Idempotency-Key: "
	w := newWorkload()
	requests := make([][]byte, freshBodies)
	at := 0
	for i := range requests {
		body := w.batch(records)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n%s", target, header)
		at = len(head)
		requests[i] = append(fmt.Appendf(nil, "%s%016x\r\nContent-Length: %d\r\n\r\n", head, 0, len(body)), body...)
	}
	return func(i int) []byte {
		var number [8]byte
		binary.BigEndian.PutUint32(number[:], mark)
		binary.BigEndian.PutUint32(number[4:], uint32(i))
		request := requests[i%freshBodies]
		hex.Encode(request[at:at+idDigits], number[:])
		return request
	}
}

// sameRequests are distinctBodies requests whose ids are always the same: every
// record but of the first round of them is a duplicate.
func sameRequests(target string, records int, mark uint32) func(int) []byte {
	fresh := freshRequests(func(int) string { return target }, records, mark)
	requests := make([][]byte, distinctBodies)
	for i := range requests {
		requests[i] = bytes.Clone(fresh(i))
	}
	return func(i int) []byte { return requests[i%distinctBodies] }
}

// idMarks gives every run of a side ids of its own.
type idMarks uint32

func (m *idMarks) next() uint32 { *m++; return uint32(*m) }

// idTopics are what P17's sides write to.
var idTopics = [...]string{"plain", "ids", "keyed", "again"}

// anew is a closed loop against one broker that has new requests in each round.
func (b *bench) anew(name, durability string, addr netip.AddrPort, pids []int, requests func() func(int) []byte) side {
	return side{name, durability, batchRecords, func() (sample, error) {
		l := load{addr: addr, conns: connections, request: requests(), status: http.StatusOK, warm: b.warm, measure: b.measure, pids: pids}
		return l.closedLoop()
	}}
}

// measureIDs fills P17 on one broker.
func (b *bench) measureIDs() error {
	leaders := map[string]netip.AddrPort{}
	for _, topic := range idTopics {
		if _, err := b.createTopic(topic, 1); err != nil {
			return err
		}
		leaders[topic] = b.broker.addr
	}
	for _, acks := range []string{"1", "-1"} {
		if err := b.compareIDs(leaders, []int{b.broker.pid()}, acks, ""); err != nil {
			return err
		}
	}
	return nil
}

// compareIDs sends batches without ids and with, in turns, to the topics' leaders.
func (b *bench) compareIDs(leaders map[string]netip.AddrPort, pids []int, acks, where string) error {
	proof := map[string]string{"1": provedWritten, "-1": provedFsynced}[acks]
	if where != "" {
		proof = provedReplicated
	}
	var m idMarks
	of := func(topic string) string { return "/topics/" + topic + "?acks=" + acks }
	what := fmt.Sprintf("acks=%s, batches of 100%s", acks, where)
	plain := produceRequests(of("plain"), batchRecords)
	s, err := b.interleave(
		b.anew(what+", no ids", proof, leaders["plain"], pids, func() func(int) []byte { return plain }),
		b.anew(what+", an id in each record", proof, leaders["ids"], pids, func() func(int) []byte {
			return freshRequests(func(int) string { return of("ids") }, batchRecords, m.next())
		}),
		b.anew(what+", an Idempotency-Key", proof, leaders["keyed"], pids, func() func(int) []byte { return keyedRequests(of("keyed"), batchRecords, m.next()) }),
		b.anew(what+", all duplicates", "that the first is", leaders["again"], pids, func() func(int) []byte { return sameRequests(of("again"), batchRecords, 0) }))
	if err != nil {
		return err
	}
	none := each(s[0], (*sample).perSecond)
	b.report.add(row{id: "P17", work: what + ": records/s with an id in each record against without", target: 0.70, stretch: 0.85, unit: percent, atLeast: true,
		rounds: perRound(each(s[1], (*sample).perSecond), none)})
	b.report.add(row{id: "P17", work: "the same by an Idempotency-Key, which makes the body no longer", unit: percent, atLeast: true, rounds: perRound(each(s[2], (*sample).perSecond), none)})
	b.report.add(row{id: "P17", work: "the same when every record is a duplicate", unit: percent, atLeast: true, rounds: perRound(each(s[3], (*sample).perSecond), none)})
	return nil
}

// pump sends n requests, each once, and takes none but the answer 200.
func (b *bench) pump(addr netip.AddrPort, n int, request func(int) []byte) error {
	c, err := dial(addr, connections)
	if err != nil {
		return err
	}
	defer c.close()
	sent, open := 0, 0
	next := func(cn *conn) error {
		if sent == n {
			return nil
		}
		sent++
		open++
		return c.send(cn, request(sent-1))
	}
	for _, cn := range c.conns {
		if err := next(cn); err != nil {
			return err
		}
	}
	for open > 0 {
		_, quiet, err := c.poll(stallLimit, func(cn *conn, data []byte) error {
			done, err := cn.answer.feed(data)
			if err != nil || !done {
				return err
			}
			open--
			return errors.Join(cn.expect(http.StatusOK), next(cn))
		})
		if err != nil {
			return err
		}
		if quiet {
			return errStalled
		}
	}
	return settle(b.dir)
}

// fillIDs writes `ids` records with an id each over all partitions of a topic, or
// as many without.
func (b *bench) fillIDs(addr netip.AddrPort, topic string, partitions int, with bool, mark uint32) error {
	target := func(i int) string {
		return fmt.Sprintf("/topics/%s/partitions/%d?acks=1&response=summary", topic, i%partitions)
	}
	if with {
		return b.pump(addr, b.ids/batchRecords, freshRequests(target, batchRecords, mark))
	}
	w := newWorkload()
	requests := make([][]byte, distinctBodies)
	for i := range requests {
		requests[i] = post(target(i), "application/json", w.batch(batchRecords))
	}
	return b.pump(addr, b.ids/batchRecords, func(i int) []byte { return requests[i%distinctBodies] })
}

// known are messages of a topic: the requests that look them up, and those that
// fetch the same records by their offsets.
func (b *bench) known(topic string, partitions int) (byID, byOffset [][]byte, err error) {
	rng := rand.New(rand.NewPCG(workloadSeed, 3))
	each := int64(b.ids/batchRecords/partitions) * batchRecords
	for range lookups {
		path := fmt.Sprintf("/topics/%s/partitions/%d/records?offset=%d&count=%d", topic, rng.IntN(partitions), rng.Int64N(each), oneRecord)
		answer, _, err := b.call(http.MethodGet, path, nil)
		if err != nil {
			return nil, nil, err
		}
		var records []struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(answer, &records); err != nil || len(records) != 1 || records[0].ID == "" {
			return nil, nil, fmt.Errorf("%s: no record with an id (%w): %.200s", path, err, answer)
		}
		byOffset = append(byOffset, get(path, "application/json"))
		byID = append(byID, get("/topics/"+topic+"/messages/"+records[0].ID, "application/json"))
	}
	return byID, byOffset, nil
}

// compareLookups fills P20: a message by its id against the same by its offset.
func (b *bench) compareLookups(p *process, pids []int, topic string, partitions int, where string) error {
	byID, byOffset, err := b.known(topic, partitions)
	if err != nil {
		return err
	}
	of := func(name string, requests [][]byte) side {
		s := b.httpSide(name, "committed", p, connections, oneRecord, func(i int) []byte { return requests[i%len(requests)] })
		l := load{addr: p.addr, conns: connections, request: func(i int) []byte { return requests[i%len(requests)] }, status: http.StatusOK,
			warm: b.warm, measure: b.measure, pids: pids}
		s.run = l.closedLoop
		return s
	}
	what := fmt.Sprintf("%d partitions with %d ids%s", partitions, b.ids, where)
	s, err := b.interleave(of("fetch of one record by its offset, "+what, byOffset), of("look-up of the same by its id, "+what, byID))
	if err != nil {
		return err
	}
	b.report.add(row{id: "P20", work: "look-up of a known id, " + what + ": cost against a fetch of the same record by its offset", target: 3, stretch: 1.5, unit: times,
		rounds: perRound(each(s[0], (*sample).perSecond), each(s[1], (*sample).perSecond))})
	return nil
}

// measureReplicatedIDs fills P17 and P20 on three brokers.
func (b *bench) measureReplicatedIDs(c *brokers) error {
	leaders := map[string]netip.AddrPort{}
	for _, topic := range idTopics {
		leader, err := c.topic(topic, 1)
		if err != nil {
			return err
		}
		leaders[topic] = c.addrs[leader]
	}
	if err := b.compareIDs(leaders, c.pids(), "-1", ", three brokers"); err != nil {
		return err
	}
	if _, err := c.topic("many", manyPartitions); err != nil {
		return err
	}
	if err := b.fillIDs(c.addrs[0], "many", manyPartitions, true, 1<<20); err != nil {
		return err
	}
	for i := range c.nodes {
		if err := waitIdle(c.nodes[i].pid()); err != nil {
			return err
		}
	}
	return b.compareLookups(c.nodes[0], c.pids(), "many", manyPartitions, ", three brokers")
}
