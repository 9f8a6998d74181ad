package cloudevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestURIReferences(t *testing.T) {
	for _, text := range []string{
		"/", "a", "//", "//host", "/a/b?c=d#e", "https://github.com/cloudevents", "mailto:cncf-wg-serverless@lists.cncf.io", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
		"/cloudevents/spec/pull/123", "1-555-123-4567", "?q", "#f", "./a:b", "a/b:c", "x:", "http://u:p@h:80/", "http://[::1]:8080/a", "http://[v7.a:b]/", "http://h:", "%C3%BC", "//[::ffff:1.2.3.4]", "a@b", "http://h?a/b?c",
	} {
		if fault := uriFault([]byte(text), false); fault != "" {
			t.Errorf("%q: %s", text, fault)
		}
	}
	for _, text := range []string{
		"", " ", "a b", "ü", "a\tb", "%", "%4", "%zz", "a#b#c", "1:b", ":b", "-x:y", "a%20:b", "<a>", `a"b`, "a\\b", "a^b", "`", "{x}", "|", "a[b]", "/a?b=[]", "http://[::1", "http://[::1]x", "http://[1.2.3.4]",
		"http://[fe80::1%25eth0]/", "http://h:8x", "http://a:1:2", "http://a@b@c/", "http://[v.a]", "http://[v7.]", "http://a[::1]/", "\x7f",
	} {
		if uriFault([]byte(text), false) == "" {
			t.Errorf("%q is taken for a URI-reference", text)
		}
	}
	for text, want := range map[string]bool{"urn:x:y": true, "http://a/b#c": true, "/a": false, "a": false, "//h": false, "#a": false} {
		if got := uriFault([]byte(text), true) == ""; got != want {
			t.Errorf("%q as a URI: %v", text, got)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, text := range []string{
		"2018-04-05T17:31:00Z", "2018-04-05t17:31:00z", "2018-04-05T17:31:00.000000000001+23:59", "0000-01-01T00:00:00-00:00", "2020-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2016-12-31T23:59:60Z", "2017-01-01T00:59:60+01:00", "9999-12-31T23:59:59Z",
	} {
		if !validTime([]byte(text)) {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{
		"", "2018-04-05", "2018-04-05T17:31:00", "2018-04-05 17:31:00Z", "2018-4-05T17:31:00Z", "2018-04-31T17:31:00Z", "2019-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2018-00-01T00:00:00Z", "2018-13-01T00:00:00Z", "2018-01-00T00:00:00Z",
		"2018-04-05T24:00:00Z", "2018-04-05T17:60:00Z", "2018-04-05T17:31:61Z", "2018-04-05T17:31:60Z", "2018-04-05T17:31:00.Z", "2018-04-05T17:31:00,5Z", "2018-04-05T17:31:00+0100", "2018-04-05T17:31:00+24:00", "2018-04-05T17:31:00+01:60", "2018-04-05T17:31:00Zx", "+018-04-05T17:31:00Z",
		"2018-04-05T17:31:00.5", "2018-04-05T17:31:00ZZ", "1522949460",
	} {
		if validTime([]byte(text)) {
			t.Errorf("%q is taken for a time", text)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, text := range []string{"", "a b", "ü", "\u00a0", "\ufffd", "\U0001f600", "\U0010fffd", "\ufdcf", "\ufdf0"} {
		if fault := stringFault([]byte(text)); fault != "" {
			t.Errorf("%q: %s", text, fault)
		}
	}
	for _, text := range []string{"\x00", "\n", "\x1f", "\x7f", "\u0080", "\u009f", "\ufdd0", "\ufdef", "\ufffe", "\uffff", "\U0001fffe", "\U0010ffff", "\xff", "a\xc0\xa0", "\xed\xa0\x80"} {
		if stringFault([]byte(text)) == "" {
			t.Errorf("%q is taken for a string", text)
		}
	}
}

func TestIntegers(t *testing.T) {
	for text, want := range map[string]bool{"0": true, "-0": true, "5": true, "-5": true, "2147483647": true, "-2147483648": true, "2147483648": false, "-2147483649": false, "1.0": false, "1e3": false, "05": false,
		"": false, "-": false, "+5": false, "99999999999999999999": false, "--5": false, "5 ": false} {
		if got := validInteger([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !IsBare([]byte("true")) || !IsBare([]byte("false")) || IsBare([]byte("True")) || IsBare([]byte("null")) {
		t.Error("booleans")
	}
}

func TestMediaTypes(t *testing.T) {
	var c typeCache
	for text, want := range map[string]mediaKind{
		"application/json":                 {known: true, json: true},
		"Application/JSON; charset=UTF-8":  {known: true, json: true, text: true},
		"application/vnd.x+json":           {known: true, json: true},
		"text/plain":                       {known: true, text: true},
		`text/plain; charset="us-ascii"`:   {known: true, text: true, charset: charsetASCII},
		"text/plain;charset=latin1":        {known: true, text: true, charset: charsetOther},
		"application/xml":                  {known: true, text: true},
		"image/svg+xml":                    {known: true, text: true},
		"application/octet-stream":         {known: true},
		"application/json-seq":             {known: true},
		"json":                             {},
		"":                                 {},
		"a/b/c":                            {},
		"/json":                            {},
		"text/":                            {},
		"text/plain; charset":              {},
		"text/plain; charset=a; charset=b": {},
		"text/" + strings.Repeat("x", maxMediaBytes): {},
		"text/pl ain": {},
	} {
		for range 2 { // the second time from memory
			if got := c.of([]byte(text)); got != want {
				t.Errorf("%q: %+v, want %+v", text, got, want)
			}
		}
	}
}

func TestHeaderValues(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "plain": "plain", "Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro € 😀", "%e2%82%ac": "€", "%41": "A", "%2541": "%41", "a b": "a b",
		`"quoted"`: "quoted", `"a \"b\" \\ %20"`: `a "b" \  `, `""`: "", `a\b`: `a\b`, "Größe 😀": "Größe 😀",
	} {
		if got, fault := decodeHeader([]byte(value)); fault != "" || string(got) != want {
			t.Errorf("%q: %q (%s), want %q", value, got, fault, want)
		}
	}
	for _, value := range []string{"%", "%4", "%G0", "100%", "%C0%A0", "%ff", "\xff", "\xc0\xa0", `"`, `"open`, `"open\"`, `x"y"`, `"a"b"`, `"a" "b"`, `5" disk`, "a\tb", "%ED%A0%80"} {
		if got, fault := decodeHeader([]byte(value)); fault == "" {
			t.Errorf("%q is taken for %q", value, got)
		}
	}
}

func TestTwoEventsNeverShareAMessageID(t *testing.T) {
	a := Event{Attributes: []Attribute{{Name: []byte("source"), Value: []byte("/a")}, {Name: []byte("id"), Value: []byte("b c")}}}
	if got := string(a.MessageID(nil)); got != "/a b c" {
		t.Errorf("message id %q", got)
	}
	if uriFault([]byte("/a b"), false) == "" {
		t.Error("a source with a space would make the id ambiguous")
	}
}

func TestSalvageLeavesOutWhatIsNone(t *testing.T) {
	var e Event
	for _, a := range [][2]string{{"type", "t"}, {"id", "1"}, {"id", "2"}, {"Bad", "x"}, {"data", "x"}, {"source", "/s"}, {"specversion", "1.0"}, {"time", "never"}, {"x", "\x00"}, {"y", "1"}, {"datacontenttype", "none"}} {
		e.Add([]byte(a[0]), []byte(a[1]), false)
	}
	if !e.Salvage() {
		t.Fatal("no event is left")
	}
	if got := string(e.AppendJSON(nil)); got != `{"specversion":"1.0","id":"1","source":"/s","type":"t","y":"1"}` {
		t.Errorf("left: %s", got)
	}
	e.Reset()
	e.Add([]byte("id"), []byte("1"), false)
	if e.Salvage() {
		t.Error("an event without its source")
	}
}

func TestBareNamesAreTakenInOrder(t *testing.T) {
	for names, want := range map[string]string{
		"":             `"a":"1","b":"true","c":"x","partitionkey":"7"`,
		"a b c":        `"a":1,"b":true,"c":"x","partitionkey":"7"`,
		"b a":          `"a":"1","b":true,"c":"x","partitionkey":"7"`,
		"id b  z":      `"a":"1","b":true,"c":"x","partitionkey":"7"`,
		"partitionkey": `"a":"1","b":"true","c":"x","partitionkey":"7"`,
	} {
		var e Event
		for _, a := range [][2]string{{"c", "x"}, {"partitionkey", "7"}, {"b", "true"}, {"a", "1"}, {"id", "1"}, {"source", "/s"}, {"specversion", "1.0"}, {"type", "t"}} {
			e.Add([]byte(a[0]), []byte(a[1]), false)
		}
		if !e.Salvage() {
			t.Fatal("no event")
		}
		e.SetBare([]byte(names))
		if got := string(e.AppendJSON(nil)); got != `{"specversion":"1.0","id":"1","source":"/s","type":"t",`+want+`}` {
			t.Errorf("%q: %s", names, got)
		}
	}
}

// FuzzReadJSON feeds bodies to the reader. What it takes for an event must come back
// the same from what is written of it.
func FuzzReadJSON(f *testing.F) {
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`,
		`{"specversion":"1.0","id":"\u00e9","source":"/s","type":"t","subject":null,"n":-5,"b":true,"data":{"a":[1.0,1e400,"\ud83d\ude00"]}}`,
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"a\nb","time":"2018-04-05T17:31:00Z"}`,
		`{"specversion":"1.0","id":"1","source":"urn:x","type":"t","data_base64":"AP8=","data":1,"X":1,"x":1.5,"y":{}}`,
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8=","dataschema":"a:b","datacontenttype":"a/b; charset=x"}`,
		`{"id":"1","id":"2"}`, `{"data":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "{\"id\":\"\xff\"}", `{"id":"\ud800"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := bytes.Clone(body)
		e, err := read(body)
		if !bytes.Equal(given, body) {
			t.Fatal("the reader changed the body")
		}
		if err != nil || len(e.Faults) > 0 {
			for _, fault := range e.Faults {
				if fault.Detail == "" {
					t.Fatalf("a fault without a word: %+v", fault)
				}
			}
			return
		}
		if e.Form == JSONData && !bytes.Contains(body, e.Data) {
			t.Fatalf("the data %q do not stand in the body", e.Data)
		}
		written := e.AppendJSON(nil)
		if !json.Valid(written) {
			t.Fatalf("no JSON: %s", written)
		}
		again, err := read(written)
		if err != nil || len(again.Faults) > 0 {
			t.Fatalf("what was accepted is refused when it comes back: %v %+v\n%s", err, again.Faults, written)
		}
		if !reflect.DeepEqual(again.Attributes, e.Attributes) || !bytes.Equal(again.ContentType, e.ContentType) || again.Form != e.Form || !bytes.Equal(again.Data, e.Data) {
			t.Fatalf("got %+v, want %+v", again, e)
		}
	})
}

func read(body []byte) (*Event, error) {
	e := &Event{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if err := e.ReadJSON(dec); err != nil {
		return e, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return e, errors.New("bytes follow")
	}
	return e, nil
}

// FuzzHeader feeds values of headers to binary mode: what is taken can stand in JSON.
func FuzzHeader(f *testing.F) {
	for _, value := range []string{"", "a", "%20", "%C0%A0", `"a\"b"`, "100%", "ü", "%00", "Euro%20%E2%82%AC"} {
		f.Add("subject", value)
	}
	f.Add("Time", "2018-04-05T17:31:00Z")
	f.Add("datacontenttype", "a/b")
	f.Fuzz(func(t *testing.T, name, value string) {
		var e Event
		e.AddHeader(name, value)
		for i, value := range [len(required)]string{"1.0", "1", "/s", "t"} {
			if e.Get(required[i]) == nil {
				e.AddHeader(required[i], value)
			}
		}
		e.Check()
		if len(e.Faults) > 0 {
			return
		}
		again, err := read(e.AppendJSON(nil))
		if err != nil || len(again.Faults) > 0 || !reflect.DeepEqual(again.Attributes, e.Attributes) {
			t.Fatalf("%q %q: got %+v (%v), want %+v", name, value, again, err, e)
		}
	})
}
