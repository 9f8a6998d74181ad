package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"highwater/storage"
)

// eventIn is an event in the JSON format, with further members.
func eventIn(id, members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"specversion":"1.0","id":"` + id + `","source":"/shops/berlin","type":"order.placed"` + members + `}`
}

// sameJSON compares two JSON texts, whatever the order of members.
func sameJSON(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: no JSON: %v: %s", what, err, got)
	}
	must(t, json.Unmarshal([]byte(want), &w))
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// oneEvent reads the event at an offset.
func (b *testBroker) oneEvent(topic string, offset int64) []byte {
	b.t.Helper()
	a := b.get(fmt.Sprintf("/topics/%s/partitions/0/records?timeout=10000&offset=%d", topic, offset), accept(typeEvent)).want(200)
	if got := a.header.Get("Content-Type"); got != typeEvent {
		b.t.Errorf("Content-Type %q", got)
	}
	return a.body
}

// TestAnEventComesBackAsItWasSent: nothing of it is lost, in the form it had.
func TestAnEventComesBackAsItWasSent(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for i, members := range []string{
		``,
		`"data":null`,
		`"data":{"n":1.0,"big":9007199254740993,"s":"\u00fc \ud83d\ude00"}`,
		`"data":"I'm just a string"`,
		`"datacontenttype":"application/json; charset=utf-8","data":[1, 2]`,
		`"datacontenttype":"application/vnd.a+json","data":"x"`,
		`"datacontenttype":"text/plain","data":""`,
		`"datacontenttype":"application/xml","data":"<much wow=\"xml\"/>"`,
		`"datacontenttype":"application/x-own","data":"text"`,
		`"datacontenttype":"application/x-own","data_base64":"dGV4dA=="`,
		`"datacontenttype":"application/json","data_base64":"e30="`,
		`"datacontenttype":"text/plain; charset=iso-8859-1","data_base64":"/A=="`,
		`"data_base64":"AP8="`,
		`"data_base64":""`,
		`"subject":"Grüße 😀","time":"2018-04-05T17:31:00.123456789+01:00","dataschema":"urn:x:y#z","partitionkey":"k","empty":""`,
		`"number":5,"least":-2147483648,"yes":true,"no":false,"text":"5","textual":"true","a1":"b","data":1`,
	} {
		sent := eventIn(fmt.Sprint(i), members)
		b.post("/topics/t?acks=all", sent, ofType(typeEvent+"; charset=UTF-8")).want(200)
		sameJSON(t, members, b.oneEvent("t", int64(i)), sent)
	}
	// All at once, and through every other way out.
	batch := b.get("/topics/t/partitions/0/records", accept(typeEvents)).want(200)
	var events []json.RawMessage
	batch.into(&events)
	if len(events) != 16 || batch.header.Get("Content-Type") != typeEvents {
		t.Fatalf("%d events, %s", len(events), batch.header.Get("Content-Type"))
	}
	b.post("/topics/t?acks=all", batch.body, ofType(typeEvents)) // as a whole it can be posted again
	sameJSON(t, "merged", b.get("/topics/t/records?position=0:2", accept(typeEvent)).want(200).body, string(events[2]))
	sameJSON(t, "merged batch", b.get("/topics/t/records?count=2", accept(typeEvents)).want(200).body, "["+string(events[0])+","+string(events[1])+"]")
	path := b.subscriber("g", `{"format":"json"}`, "t")
	sameJSON(t, "polled", b.get(path+"/records?timeout=20000", accept(typeEvent)).want(200).body, string(events[0]))
	sameJSON(t, "polled on", b.get(path+"/records?timeout=20000&count=2", accept(typeEvents)).want(200).body, "["+string(events[1])+","+string(events[2])+"]")
	sameJSON(t, "consumed", b.get("/consumers/h/records?member=m&topics=t&timeout=20000", accept(typeEvent)).want(200).body, string(events[0]))
}

func TestAnEventIsARecordOfKafkasBinding(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=all", eventIn("4711", `"subject":"s","n":7,"datacontenttype":"application/json","time":"2018-04-05T17:31:00Z","data":{"a" : 1}`), ofType(typeEvent)).want(200)
	b.post("/topics/t?acks=all", eventIn("4712", `"subject":"s","partitionkey":"p","data_base64":"AP8="`), ofType(typeEvent)).want(200)
	b.post("/topics/t/records?acks=all&key=own&timestamp=5", eventIn("4713", `"subject":"s"`), ofType(typeEvent)).want(200)
	recs := b.stored("t", 0, 3)
	var got []string
	for _, h := range recs[0].Headers {
		got = append(got, string(h.Key)+"="+string(h.Value))
	}
	want := "ce_specversion=1.0 ce_id=4711 ce_source=/shops/berlin ce_type=order.placed ce_subject=s ce_time=2018-04-05T17:31:00Z ce_n=7 content-type=application/json " + bareHeader + "=n " + idHeader + "=/shops/berlin 4711"
	if strings.Join(got, " ") != want {
		t.Errorf("headers\n %s\nwant\n %s", strings.Join(got, " "), want)
	}
	if r := recs[0]; string(r.Key) != "s" || string(r.Value) != `{"a" : 1}` || r.Attributes != storage.FlagValueJSON|storage.FlagValueOneLine || r.Timestamp < 1_700_000_000_000 {
		t.Errorf("record %+v", r)
	}
	if r := recs[1]; string(r.Key) != "p" || string(r.Value) != "\x00\xff" {
		t.Errorf("record %+v", r)
	}
	if r := recs[2]; string(r.Key) != "own" || r.Value != nil || r.Timestamp != 5 {
		t.Errorf("an event without data is a null value: %+v", r)
	}
	var native []struct{ ID string }
	b.get("/topics/t/partitions/0/records").want(200).into(&native)
	if native[0].ID != "/shops/berlin 4711" {
		t.Errorf("message id %q", native[0].ID)
	}
}

// inBinary are the headers of an event in binary mode.
func inBinary(headers ...string) request {
	return func(r *http.Request) {
		for name, value := range map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"} {
			r.Header.Set(name, value)
		}
		for i := 0; i < len(headers); i += 2 {
			if headers[i+1] == "-" {
				r.Header.Del(headers[i])
				continue
			}
			r.Header.Set(headers[i], headers[i+1])
		}
	}
}

func TestEventsInBinaryMode(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	base := `"specversion":"1.0","source":"/s","type":"t"`
	for i, c := range []struct {
		body    string
		headers []string
		want    string
	}{
		{`{"n": 1.0}`, []string{"Content-Type", "application/json"}, `,"datacontenttype":"application/json","data":{"n":1.0}`},
		{`{"n":`, []string{"Content-Type", "application/json"}, `,"datacontenttype":"application/json","data_base64":"eyJuIjo="`},
		{``, []string{"Content-Type", "application/json"}, `,"datacontenttype":"application/json"`},
		{`null`, []string{"Content-Type", "application/json"}, `,"datacontenttype":"application/json","data":null`},
		{``, nil, ``},
		{`{}`, nil, `,"data_base64":"e30="`},
		{``, []string{"Content-Type", "text/plain"}, `,"datacontenttype":"text/plain","data":""`},
		{"a\r\nb", []string{"Content-Type", "Text/Plain; charset=UTF-8"}, `,"datacontenttype":"Text/Plain; charset=UTF-8","data":"a\r\nb"`},
		{"\xfc", []string{"Content-Type", "text/plain; charset=iso-8859-1"}, `,"datacontenttype":"text/plain; charset=iso-8859-1","data_base64":"/A=="`},
		{"text", []string{"Content-Type", "application/octet-stream"}, `,"datacontenttype":"application/octet-stream","data_base64":"dGV4dA=="`},
		{"1", []string{"Content-Type", "application/json", "ce-subject", "Euro%20%E2%82%AC%20%f0%9F%98%80", "ce-old", `"a \"b\" %25"`, "ce-plain", "with ünescaped space", "ce-empty", "", "Ce-Num", "5"},
			`,"datacontenttype":"application/json","data":1,"subject":"Euro € 😀","old":"a \"b\" %","plain":"with ünescaped space","empty":"","num":"5"`},
	} {
		path := []string{"/topics/t", "/topics/t/records", "/topics/t/partitions/0", "/topics/t/partitions/0/records"}[i%4]
		id := fmt.Sprint(i)
		b.post(path+"?acks=all", c.body, inBinary(append(c.headers, "ce-id", id)...)).want(200)
		sameJSON(t, c.body, b.oneEvent("t", int64(i)), `{"id":"`+id+`",`+base+c.want+"}")
	}
}

func TestTheSameEventIsTheSameRecordInEveryMode(t *testing.T) {
	b := startBroker(t)
	for i, send := range []func(topic string) answer{
		func(topic string) answer {
			return b.post("/topics/"+topic+"?acks=all", `{"b":"2","data":{"x":1},"type":"t","a":"1","source":"/s","id":"1","specversion":"1.0","datacontenttype":"application/json"}`, ofType(typeEvent))
		},
		func(topic string) answer {
			return b.post("/topics/"+topic+"?acks=all", `{"x":1}`, inBinary("ce-b", "2", "ce-a", "1", "Content-Type", "application/json"))
		},
		func(topic string) answer {
			return b.post("/topics/"+topic+"/records?acks=all", `[{"specversion":"1.0","datacontenttype":"application/json","id":"1","source":"/s","type":"t","a":"1","b":"2","data":{"x":1}}]`, ofType(typeEvents))
		},
	} {
		topic := fmt.Sprintf("t%d", i)
		b.topic(topic, 1)
		send(topic).want(200)
		rec := b.stored(topic, 0, 1)[0]
		rec.Timestamp = 0
		if first := b.stored("t0", 0, 1)[0]; true {
			first.Timestamp = 0
			if !reflect.DeepEqual(rec, first) {
				t.Errorf("mode %d: %+v, want %+v", i, rec, first)
			}
		}
	}
}

func TestAnEventThatComesAgainIsADuplicate(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	sent := eventIn("a/1", `"datacontenttype":"application/json","data":[1]`)
	inHeaders := func(more ...string) request {
		return inBinary(append([]string{"ce-id", "a/1", "ce-source", "/shops/berlin", "ce-type", "order.placed", "Content-Type", typeJSON}, more...)...)
	}
	for i, send := range []func() answer{
		func() answer { return b.post("/topics/t?acks=all", sent, ofType(typeEvent)) },
		func() answer { return b.post("/topics/t?acks=all", sent, ofType(typeEvent)) },
		func() answer { return b.post("/topics/t?acks=all", "["+sent+"]", ofType(typeEvents)) },
		func() answer { return b.post("/topics/t/records?acks=all&timestamp=5", "[1]", inHeaders()) },
	} {
		var res struct {
			Offsets []struct {
				Offset    int64
				Duplicate bool
			}
		}
		if send().want(200).into(&res); len(res.Offsets) != 1 || res.Offsets[0].Offset != 0 || res.Offsets[0].Duplicate != (i > 0) {
			t.Errorf("time %d: %+v", i, res)
		}
	}
	// Another event under the same source and id is told where its id is meant.
	for pointer, a := range map[string]answer{
		"/id":   b.post("/topics/t", eventIn("a/1", `"data":2`), ofType(typeEvent)),
		"/1/id": b.post("/topics/t", "["+eventIn("b", "")+","+eventIn("a/1", `"data":2`)+"]", ofType(typeEvents)),
		"ce-id": b.post("/topics/t", "[1]", inHeaders("ce-more", "1")),
	} {
		if p := a.problem(40908); len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("errors %+v, want %s", p.Errors, pointer)
		}
	}
	found := b.get("/topics/t/messages/"+url.PathEscape("/shops/berlin a/1"), accept(typeEvent)).want(200)
	sameJSON(t, "found", found.body, sent)
	b.get("/topics/t/messages/x?key_format=json", accept(typeEvent)).problem(40001)
}

func TestEveryFaultOfAnEventIsTold(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 2)
	b.topic("c", 1, "cleanup.policy", "compact")
	b.topic("small", 1, "max.message.bytes", "90")
	long := strings.Repeat("x", maxIDBytes)
	for _, c := range []struct {
		path, body string
		with       request
		code       int
		pointers   string
	}{
		{"/topics/t", `{}`, ofType(typeEvent), 42201, "/specversion /id /source /type"},
		{"/topics/t", `{"specversion":"0.3","id":"","source":"a b","type":5,"time":"yesterday","subject":"","datacontenttype":"json","A":1,"data":1,"data_base64":"AA=="}`, ofType(typeEvent), 42201,
			"/type /A /specversion /id /source /subject /time /datacontenttype /data_base64"},
		{"/topics/t", eventIn("1", `"x":1.5,"y":{},"z":[],"big":2147483648,"partitionkey":5,"data":1`), ofType(typeEvent), 42201, "/x /y /z /big /partitionkey"},
		{"/topics/t", eventIn("1", `"x":"a\u0000b","y":"\uffff","a/b~c":null`), ofType(typeEvent), 42201, "/a~1b~0c /x /y"},
		{"/topics/t", eventIn("1", `"datacontenttype":"text/plain","data":{}`), ofType(typeEvent), 42201, "/data"},
		{"/topics/t", eventIn("1", `"datacontenttype":"text/plain;charset=utf-16","data":"x"`), ofType(typeEvent), 42201, "/data"},
		{"/topics/t", eventIn("1", `"data_base64":"e30"`), ofType(typeEvent), 42201, "/data_base64"},
		{"/topics/t", eventIn("1", `"dataschema":"/relative"`), ofType(typeEvent), 42201, "/dataschema"},
		{"/topics/t", eventIn(long, ``), ofType(typeEvent), 42201, "/id"},
		{"/topics/t", `[` + eventIn("1", ``) + `,7,` + eventIn("2", `"time":""`) + `]`, ofType(typeEvents), 42201, "/1 /2/time"},
		{"/topics/t", eventIn("1", `"data":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)), ofType(typeEvent), 40001, "/data"},
		{"/topics/t", eventIn("1", `"data":{"secret":{"a":1,"a":2}}`), ofType(typeEvent), 40001, "/data"},
		{"/topics/t", eventIn("1", `"id":"2"`), ofType(typeEvent), 40001, "/id"},
		{"/topics/t", eventIn("1", `"x":"\ud800"`), ofType(typeEvent), 40001, "/x"},
		{"/topics/t", `[]`, ofType(typeEvent), 42201, ""},
		{"/topics/t", eventIn("1", ""), ofType(typeEvents), 42201, ""},
		{"/topics/t", ``, ofType(typeEvent), 40001, ""},
		{"/topics/t", eventIn("1", "") + eventIn("2", ""), ofType(typeEvent), 40001, ""},
		{"/topics/t", "\xef\xbb\xbf" + eventIn("1", ""), ofType(typeEvent), 40001, ""},
		{"/topics/c", eventIn("1", `"data":1`), ofType(typeEvent), 42201, "/partitionkey"},
		{"/topics/small", eventIn("1", `"data":1`), ofType(typeEvent), 41302, ""},
		{"/topics/small", strings.Repeat("x", 101), inBinary(), 41302, ""},
		{"/topics/small", `[` + eventIn("1", `"data":1`) + `]`, ofType(typeEvents), 41302, "/0"},
		// binary mode
		{"/topics/t", "x", inBinary("ce-id", "-", "ce-type", ""), 40001, "ce-id ce-type"},
		{"/topics/t", "x", inBinary("ce-source", "a%20b", "ce-time", "now", "Content-Type", "text"), 40001, "ce-source ce-time content-type"},
		{"/topics/t", "x", inBinary("ce-datacontenttype", "text/plain"), 40001, "ce-datacontenttype"},
		{"/topics/t", "x", inBinary("ce-my-ext", "1", "ce-data", "2", "ce-data_base64", "3"), 40001, "ce-data ce-data_base64 ce-my-ext"},
		{"/topics/t", "x", inBinary("ce-a", "%C0%A0", "ce-b", "100%", "ce-c", "\xfc", "ce-d", `"x`, "ce-e", "%00"), 40001, "ce-a ce-b ce-c ce-d ce-e"},
		{"/topics/t", "x", func(r *http.Request) { inBinary()(r); r.Header["Ce-A"] = []string{"1", "2"} }, 40001, "ce-a"},
		{"/topics/t", "x", header("ce-foo", "1"), 40001, "ce-specversion ce-id ce-source ce-type"},
		{"/topics/c", "x", inBinary(), 42201, "ce-partitionkey"},
		// what has no place beside an event
		{"/topics/t", "x", inBinary("Message-Id", "1"), 40001, ""},
		{"/topics/t", eventIn("1", ""), func(r *http.Request) { ofType(typeEvent)(r); r.Header.Set("Idempotency-Key", "1") }, 40001, ""},
		{"/topics/t", "x", inBinary("Record-Header-A", "1"), 40001, ""},
		{"/topics/t?key_format=json", eventIn("1", ""), ofType(typeEvent), 40001, "?key_format"},
		{"/topics/t/records?key=k&partition=1", "[]", ofType(typeEvents), 40001, "?key ?partition"},
		{"/topics/t/records?partition=2", eventIn("1", ""), ofType(typeEvent), 40402, ""},
		{"/topics/t", "x", ofType("application/cloudevents+avro"), 41501, ""},
		{"/topics/t/records", "x", ofType("application/cloudevents"), 41501, ""},
		{"/topics/t", eventIn("1", ""), ofType(typeEvent + "; charset=utf-16"), 41501, ""},
		{"/topics/t", "x", func(r *http.Request) { inBinary()(r); r.Header["Content-Type"] = []string{"a/b", "c/d"} }, 41501, ""},
		{"/topics/nope", eventIn("1", ""), ofType(typeEvent), 40401, ""},
	} {
		p := b.post(c.path, c.body, c.with).problem(c.code)
		var pointers []string
		for _, e := range p.Errors {
			pointers = append(pointers, e.Pointer)
		}
		if got := strings.Join(pointers, " "); strings.TrimSpace(got) != c.pointers || p.Outcome != "not_written" {
			t.Errorf("%.100s: pointers %q, want %q (%s, %s)", c.body, got, c.pointers, p.Detail, p.Outcome)
		}
	}
	if p := b.post("/topics/t", "x", ofType("text/plain")).problem(41501); !strings.Contains(p.Detail, typeEvent+", "+typeEvents) {
		t.Errorf("the refusal doesn't list the types of events: %s", p.Detail)
	}
	for partition := range int32(2) {
		if end := b.end("t", partition); end != 0 {
			t.Errorf("something was written to partition %d", partition)
		}
	}
}

func TestABatchOfEvents(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 6)
	if res := b.post("/topics/t", `[]`, ofType(typeEvents)).produced(200); len(res.Offsets) != 0 || len(res.Partitions) != 0 {
		t.Errorf("an empty batch: %+v", res)
	}
	res := b.post("/topics/t?acks=all", `[`+eventIn("1", `"subject":"order-1"`)+`,`+eventIn("2", `"partitionkey":"order-2","subject":"order-1"`)+`,`+eventIn("3", ``)+`]`, ofType(typeEvents)).produced(200)
	byID := partitionForKey([]byte("/shops/berlin 3"), 6)
	if o := res.Offsets; len(o) != 3 || o[0].Partition != 4 || o[1].Partition != 3 || o[2].Partition != byID {
		t.Errorf("partitions %+v", res.Offsets)
	}
	res = b.post(fmt.Sprintf("/topics/t/partitions/5?acks=all&expected_offset=%d", b.end("t", 5)), `[`+eventIn("4", `"subject":"order-1"`)+`]`, ofType(typeEvents)).produced(200)
	if res.Offsets[0].Partition != 5 {
		t.Errorf("the path's partition: %+v", res.Offsets)
	}
	b.post("/topics/t?acks=0&response=summary", eventIn("5", ``), ofType(typeEvent)).produced(202)
	res = b.post("/topics/t/records?acks=all&partition=2", eventIn("6", `"subject":"order-1"`), ofType(typeEvent)).produced(200)
	if res.Offsets[0].Partition != 2 {
		t.Errorf("the query's partition: %+v", res.Offsets)
	}
}

func TestARecordThatIsNoEventIsToldOfByOne(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t?acks=all", `{"records":[
		{"key":"k","value":{"n":1},"timestamp":1764424000123},
		{"value":null,"timestamp":0},
		{"key":"/wA=","key_encoding":"base64","value":"hi","value_encoding":"text","timestamp":0},
		{"value":"/wA=","value_encoding":"base64","timestamp":0},
		{"value":"AAE=","value_encoding":"base64","timestamp":0,"headers":[{"key":"ce_id","value":"MQ=="},{"key":"content-type","value":"dGV4dC9wbGFpbg=="}]},
		{"value":7,"timestamp":0,"headers":[{"key":"ce_specversion","value":"MS4w"},{"key":"ce_id","value":"MQ=="},{"key":"ce_source","value":"L3M="},{"key":"ce_type","value":"dA=="},
			{"key":"ce_Bad","value":"MQ=="},{"key":"ce_time","value":"MQ=="},{"key":"ce_nul","value":null},{"key":"ce_twice","value":"MQ=="},{"key":"ce_twice","value":"Mg=="},{"key":"content-type","value":"bm9uZQ=="},
			{"key":"highwater.event.bare","value":"dHdpY2UgaWQgb3RoZXI="}]}
	]}`).want(200)
	var events []json.RawMessage
	b.get("/topics/t/partitions/0/records", accept(typeEvents)).want(200).into(&events)
	of := func(offset int, members string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":"t-0-%d","source":"/topics/t/partitions/0","type":"highwater.record",%s}`, offset, members)
	}
	for i, want := range []string{
		of(0, `"time":"2025-11-29T13:46:40.123Z","partitionkey":"k","datacontenttype":"application/json","data":{"n":1}`),
		of(1, `"time":"1970-01-01T00:00:00.000Z"`),
		of(2, `"time":"1970-01-01T00:00:00.000Z","datacontenttype":"text/plain; charset=utf-8","data":"hi"`),
		of(3, `"time":"1970-01-01T00:00:00.000Z","datacontenttype":"application/octet-stream","data_base64":"/wA="`),
		of(4, `"time":"1970-01-01T00:00:00.000Z","datacontenttype":"text/plain","data":"\u0000\u0001"`),
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","twice":1,"data":7}`,
	} {
		sameJSON(t, fmt.Sprint(i), events[i], want)
	}
	// What stands in for a record is an event itself, and can be posted as one.
	b.topic("u", 1)
	b.post("/topics/u?acks=all", "["+string(events[0])+"]", ofType(typeEvents)).want(200)
	sameJSON(t, "posted again", b.oneEvent("u", 0), string(events[0]))
}

func TestEventsAreOneFormAmongOthers(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	path := "/topics/t/partitions/0/records"
	b.get(path, accept(typeEvent)).want(204)
	b.get("/topics/t/records", accept(typeEvent)).want(204)
	b.get(path, accept(typeEvents)).want(200)
	b.get("/consumers/g/records?member=m&topics=t&timeout=0", accept(typeEvent)).want(204)
	b.get(b.subscriber("g2", `{}`, "t")+"/records?timeout=0", accept(typeEvent)).want(204)
	b.post("/topics/t?acks=all", "["+eventIn("1", `"data":1`)+","+eventIn("2", `"data":2`)+"]", ofType(typeEvents)).want(200)
	one := b.get(path+"?offset=0&count=1", accept(typeEvent)).want(200)
	batch := b.get(path+"?offset=0&count=1", accept(typeEvents)).want(200)
	native := b.get(path + "?offset=0&count=1").want(200)
	tags := map[string]bool{}
	for _, a := range []answer{one, batch, native} {
		if tag := a.header.Get("Etag"); tag == "" || tags[tag] {
			t.Errorf("the ETag %q is missing or another form's", tag)
		} else {
			tags[tag] = true
		}
	}
	if one.header.Get("Highwater-Next-Offset") != "1" {
		t.Errorf("next offset %q", one.header.Get("Highwater-Next-Offset"))
	}
	b.get(path+"?offset=0&count=1", accept(typeEvent), header("If-None-Match", one.header.Get("Etag"))).want(304)
	if h := b.do(http.MethodHead, path, nil, accept(typeEvent)).want(200); h.header.Get("Content-Type") != typeEvent {
		t.Errorf("HEAD: %q", h.header.Get("Content-Type"))
	}
	b.get(path+"?count=2", accept(typeEvent)).problem(40001)
	b.get(path+"?key_format=json", accept(typeEvents)).problem(40001)
	b.get(path+"?follow=true", accept(typeEvents)).problem(40601)
	b.get(path, accept("application/cloudevents+avro")).problem(40601)
	if a := b.get(path, accept("*/*")).want(200); a.header.Get("Content-Type") != typeJSON {
		t.Errorf("*/* is %q", a.header.Get("Content-Type"))
	}
	// A repeated answer of two records is no single event.
	member := "/consumers/r/records?topics=t&timeout=20000&member=m&request_id=" + url.QueryEscape("x:1")
	b.get(member).want(200)
	b.get(member, accept(typeEvents)).want(200)
	b.get(member, accept(typeEvent)).problem(40601)
}
