package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sequenced is a batch of n records of a producer.
func sequenced(pid int64, epoch int16, base, n int) string {
	records := strings.Repeat(`{"value":1},`, n)
	return fmt.Sprintf(`{"producer_id":%d,"producer_epoch":%d,"base_sequence":%d,"records":[%s]}`, pid, epoch, base, strings.TrimSuffix(records, ","))
}

// I3: the last five batches are recognised, older ones too but for their place; a gap,
// an old epoch and a batch that was cut otherwise are refused, and change nothing.
func TestI3_SequencesOverHTTP(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", `{"transactional_id":"w"}`).want(200).into(&me)
	const path = "/topics/t/partitions/0"
	for i := range 7 {
		if p := b.produced(200, path, sequenced(me.ProducerID, 0, 2*i, 2)); p.places() != fmt.Sprint(2*i, 2*i+1) {
			t.Fatalf("batch %d: %s", i, p.places())
		}
	}
	for i := 2; i < 7; i++ {
		p := b.produced(200, path, sequenced(me.ProducerID, 0, 2*i, 2))
		if want := fmt.Sprintf("%dd %dd", 2*i, 2*i+1); p.places() != want || p.Partitions[0].Duplicates != 2 {
			t.Errorf("batch %d again: %s, want %s", i, p.places(), want)
		}
	}
	if p := b.produced(200, path, sequenced(me.ProducerID, 0, 0, 2)); p.places() != "-1d -1d" {
		t.Errorf("an older batch: %s", p.places())
	}
	gap := func(body string, expected int) {
		t.Helper()
		a := b.post(path, body)
		var more struct {
			Expected *int `json:"expected_sequence"`
		}
		p := a.problem(40904)
		a.into(&more)
		if p.Outcome != "not_written" || more.Expected == nil || *more.Expected != expected || !strings.Contains(p.Fix, fmt.Sprint(expected)) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	gap(sequenced(me.ProducerID, 0, 16, 1), 14)
	gap(sequenced(me.ProducerID, 0, 13, 2), 14)
	gap(sequenced(me.ProducerID, 0, 12, 1), 14)
	b.post("/producers", `{"transactional_id":"w"}`).want(200).into(&me)
	gap(sequenced(me.ProducerID, 1, 14, 1), 0) // a new epoch begins at 0
	b.post(path, sequenced(me.ProducerID, 1, 0, 1)).want(200)
	a := b.post(path, sequenced(me.ProducerID, 0, 14, 1))
	var more struct {
		Current *int `json:"current_epoch"`
	}
	p := a.problem(40303)
	a.into(&more)
	if p.Outcome != "not_written" || more.Current == nil || *more.Current != 1 || !strings.Contains(p.Fix, "/producers") {
		t.Errorf("the old epoch: %s", a.body)
	}
	if end := b.end("t", 0); end != 15 {
		t.Errorf("the log ends at %d", end)
	}
	b.restart()
	if p := b.produced(200, path, sequenced(me.ProducerID, 1, 0, 1)); p.places() != "14d" {
		t.Errorf("after a restart: %s", p.places())
	}
}

// I8: who takes a transactional id over fences the former life at once, in partitions
// that the new one hasn't written to, too.
func TestI8_TheFormerLifeIsFencedEverywhere(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	var former, now producerAnswer
	b.post("/producers", `{"transactional_id":"w"}`).want(200).into(&former)
	b.post("/topics/t/partitions/0", sequenced(former.ProducerID, former.ProducerEpoch, 0, 1)).want(200)
	b.post("/producers", `{"transactional_id":"w"}`).want(200).into(&now)
	for partition := range 2 {
		b.post(fmt.Sprint("/topics/t/partitions/", partition), sequenced(former.ProducerID, former.ProducerEpoch, 1-partition, 1)).problem(40303)
	}
	raw := func(p producerAnswer, sequence int) string {
		return fmt.Sprintf("/topics/t/partitions/1/records?producer_id=%d&producer_epoch=%d&base_sequence=%d", p.ProducerID, p.ProducerEpoch, sequence)
	}
	b.post(raw(former, 0), "x").problem(40303)
	b.post("/topics/t/partitions/1", sequenced(now.ProducerID, now.ProducerEpoch, 0, 1)).want(200)
	b.post(raw(now, 2), "x").problem(40904)
	b.post(raw(now, 1), "x").want(200)
}

// I7: a producer that nobody was given, and one that a partition doesn't know and that
// doesn't begin, are refused strictly.
func TestI7_UnknownProducers(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	for what, body := range map[string]string{
		"never given":       sequenced(me.ProducerID+100_000, 0, 0, 1),
		"largest":           sequenced(1<<63-1, 32767, 1<<31-1, 1),
		"epoch never given": sequenced(me.ProducerID, 1, 0, 1),
		"doesn't begin":     sequenced(me.ProducerID, 0, 1, 1),
	} {
		p := b.post("/topics/t/partitions/0", body).problem(40904)
		if p.KafkaError != "UNKNOWN_PRODUCER_ID" || p.Outcome != "not_written" || !strings.Contains(p.Fix, "/producers") {
			t.Errorf("%s: %+v", what, p)
		}
	}
	if end := b.end("t", 0); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
}

// A producer's numbers stand beside the records, or in the query where the body has no
// room for them; what else is 422 or 400, names what is wrong, and writes nothing.
func TestProducerFieldsOfEveryForm(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	query := func(base int) string {
		return fmt.Sprintf("?producer_id=%d&producer_epoch=0&base_sequence=%d", me.ProducerID, base)
	}
	const path = "/topics/t/partitions/0"
	for i := range 2 {
		for want, send := range []func() answer{
			func() answer { return b.post(path, sequenced(me.ProducerID, 0, 0, 1)) },
			func() answer { // the numbers come last
				return b.post(path, fmt.Sprintf(`{"records":[{"value":1}],"base_sequence":1,"producer_id":%d,"producer_epoch":0}`, me.ProducerID))
			},
			func() answer { return b.post(path+query(2)+"&response=full", `{"value":1}`+"\n", ofType(typeNDJSON)) },
			func() answer { return b.post(path+"/records"+query(3), "x") },
			func() answer {
				return b.post(path, fmt.Sprintf(`{"producer_id":%d,"producer_epoch":0,"base_sequence":4,"records":[{"value":"AA=="}]}`, me.ProducerID), ofType(typeKafkaBinary))
			},
		} {
			var p produceAnswer
			send().want(200).into(&p)
			if text := fmt.Sprint(want) + strings.Repeat("d", i); p.places() != text {
				t.Errorf("form %d, try %d: %s", want, i, p.places())
			}
		}
	}
	b.post(path, `{"records":[{"value":1}],"producer_id":null,"producer_epoch":null,"base_sequence":null}`).want(200)
	for body, code := range map[string]int{
		`{"records":[{"value":1}],"producer_id":1}`:                                                        42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":0}`:                                     42201,
		`{"records":[{"value":1}],"producer_epoch":0,"base_sequence":0}`:                                   42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":0,"base_sequence":null}`:                42201,
		`{"records":[{"value":1}],"producer_id":0,"producer_epoch":0,"base_sequence":0}`:                   42201,
		`{"records":[{"value":1}],"producer_id":-1,"producer_epoch":0,"base_sequence":0}`:                  42201,
		`{"records":[{"value":1}],"producer_id":"1","producer_epoch":0,"base_sequence":0}`:                 42201,
		`{"records":[{"value":1}],"producer_id":1.0,"producer_epoch":0,"base_sequence":0}`:                 42201,
		`{"records":[{"value":1}],"producer_id":1e0,"producer_epoch":0,"base_sequence":0}`:                 42201,
		`{"records":[{"value":1}],"producer_id":9223372036854775808,"producer_epoch":0,"base_sequence":0}`: 42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":32768,"base_sequence":0}`:               42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":-1,"base_sequence":0}`:                  42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":0,"base_sequence":-1}`:                  42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":0,"base_sequence":2147483648}`:          42201,
		`{"records":[{"value":1}],"producer_id":1,"producer_epoch":0,"base_sequence":[0]}`:                 42201,
		`{"records":[],"producer_id":1,"producer_epoch":0,"base_sequence":0}`:                              42201,
		`{"producer_id":1,"producer_epoch":0,"base_sequence":0}`:                                           42201,
		`{"records":[{"value":1}],"producerId":1,"producer_epoch":0,"base_sequence":0}`:                    42201,
		`{"producer_id":1,"records":[{"value":1}],"producer_id":1,"producer_epoch":0,"base_sequence":0}`:   40001,
		`{"producer_id":1,"records":[{"value":1}],"producer_\u0069d":1}`:                                   40001,
		`{"records":[{"value":1,"producer_id":1}]}`:                                                        42201,
	} {
		if p := b.post(path, body).problem(code); p.Outcome != "not_written" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if p := b.post("/topics/t", sequenced(me.ProducerID, 0, 5, 1)).problem(42201); !strings.Contains(p.Detail, "/topics/t/partitions/") {
		t.Errorf("on the topic: %+v", p)
	}
	b.post(path+query(5), `{"records":[{"value":1}]}`).problem(40001) // it would be passed over
	b.post("/topics/t/records"+query(5), "x").problem(40001)
	for _, q := range []string{"?producer_id=1", "?producer_id=1&producer_epoch=0&base_sequence=x", "?producer_id=1&producer_epoch=0&base_sequence=-1",
		"?producer_id=1&producer_id=1&producer_epoch=0&base_sequence=0", "?producer_id=99999999999999999999&producer_epoch=0&base_sequence=0"} {
		b.post(path+"/records"+q, "x").problem(40001)
	}
	if end := b.end("t", 0); end != 6 {
		t.Errorf("the log ends at %d", end)
	}
}

// CloudEvents have no room for a producer's numbers, in any mode: they stand in the query.
func TestProducerFieldsOfEvents(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	const path = "/topics/t/partitions/0"
	binary := func(r *http.Request) {
		for name, value := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "3", "Ce-Source": "/s", "Ce-Type": "t"} {
			r.Header.Set(name, value)
		}
	}
	for _, c := range []struct {
		base int
		want string
		send func(query string) answer
	}{
		{0, "0", func(q string) answer { return b.post(path+q, `[`+eventIn("1", "")+`]`, ofType(typeEvents)) }},
		{1, "1", func(q string) answer { return b.post(path+"/records"+q, eventIn("2", ""), ofType(typeEvent)) }},
		{2, "2", func(q string) answer { return b.post(path+"/records"+q, "x", binary) }},
	} {
		query := func(base int) string {
			return fmt.Sprintf("?producer_id=%d&producer_epoch=0&base_sequence=%d", me.ProducerID, base)
		}
		c.send(query(c.base + 1)).problem(40904) // a number is missing: they are heeded
		for _, again := range []string{"", "d"} {
			var p produceAnswer
			if c.send(query(c.base)).want(200).into(&p); p.places() != c.want+again {
				t.Errorf("number %d: %s, want %s", c.base, p.places(), c.want+again)
			}
		}
	}
	b.post("/topics/t?producer_id=1", eventIn("4", ""), ofType(typeEvent)).problem(40001)
}

// D10: the sequence number is judged first, and a batch has no holes: a known id in a
// new batch refuses it whole.
func TestD10_ProducerBeforeIDs(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	body := func(base int, ids ...string) string {
		var records []string
		for _, id := range ids {
			records = append(records, `{"value":1,"id":"`+id+`"}`)
		}
		return fmt.Sprintf(`{"producer_id":%d,"producer_epoch":0,"base_sequence":%d,"records":[%s]}`, me.ProducerID, base, strings.Join(records, ","))
	}
	const path = "/topics/t/partitions/0"
	b.post(path, body(0, "a", "b")).want(200)
	if p := b.produced(200, path, body(0, "a", "b")); p.places() != "0d 1d" {
		t.Errorf("again: %s", p.places())
	}
	b.post(path, body(2, "c", "a")).problem(40908)
	b.post(path, body(3, "a", "b")).problem(40904)
	if p := b.produced(200, path, body(2, "c", "d")); p.places() != "2 3" {
		t.Errorf("the next: %s", p.places())
	}
}

// A producer's batch is one batch, however large, up to a bound; other requests are cut.
func TestAProducersRequestIsOneBatch(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	var me producerAnswer
	b.post("/producers", nil).want(200).into(&me)
	value := `{"value":"` + strings.Repeat("x", 100_000) + `"},`
	records := strings.TrimSuffix(strings.Repeat(value, 10), ",")
	for base, form := range []string{`{"producer_id":%[1]d,"producer_epoch":0,"base_sequence":%[2]d,"records":[%[3]s]}`, `{"records":[%[3]s],"producer_id":%[1]d,"producer_epoch":0,"base_sequence":%[2]d}`} {
		for try := range 2 {
			p := b.produced(200, "/topics/t/partitions/0", fmt.Sprintf(form, me.ProducerID, 10*base, records))
			if p.Offsets[9].Offset != int64(10*base+9) || p.Offsets[9].Duplicate != (try > 0) {
				t.Errorf("form %d, try %d: %s", base, try, p.places())
			}
		}
	}
	records = strings.TrimSuffix(strings.Repeat(value, 170), ",")
	p := b.post("/topics/t/partitions/0", fmt.Sprintf(`{"producer_id":%d,"producer_epoch":0,"base_sequence":20,"records":[%s]}`, me.ProducerID, records)).problem(41301)
	if !strings.Contains(p.Fix, "base_sequence") || p.Outcome != "not_written" {
		t.Errorf("too much: %+v", p)
	}
	b.post("/topics/t/partitions/0", fmt.Sprintf(`{"records":[%s]}`, records)).want(200)
}
