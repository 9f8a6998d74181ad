package handlers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"highwater/storage"
)

func renderOne(f recordFormat, r storage.Record) string {
	return string(newRecordRenderer(f, "t", 3).append(nil, &r))
}

func TestRenderNative(t *testing.T) {
	const head = `{"topic":"t","partition":3,"offset":7,"timestamp":9,`
	for _, c := range []struct {
		name string
		rec  storage.Record
		want string
	}{
		{"JSON as it is", storage.Record{Key: []byte("k1"), Value: []byte("{ \"a\":1e400,\n\"b\" : 1.0 }")}, `"key":"k1","value":{ "a":1e400,` + "\n" + `"b" : 1.0 },"headers":[]}`},
		{"flagged is not looked at again", storage.Record{Value: []byte("{}"), Attributes: storage.FlagValueJSON}, `"key":null,"value":{},"headers":[]}`},
		{"tombstone", storage.Record{Key: []byte{}}, `"key":"","value":null,"headers":[]}`},
		{"the bytes null are no tombstone", storage.Record{Value: []byte("null"), Attributes: storage.FlagValueJSON}, `"key":null,"value":"null","value_encoding":"text","headers":[]}`},
		{"empty value", storage.Record{Value: []byte{}}, `"key":null,"value":"","value_encoding":"text","headers":[]}`},
		{"text", storage.Record{Value: []byte("hi <b>&\u2028\x01\"\\\n")}, `"key":null,"value":"hi <b>&` + "\u2028" + `\u0001\"\\\n","value_encoding":"text","headers":[]}`},
		{"white space around JSON", storage.Record{Value: []byte(" 1")}, `"key":null,"value":" 1","value_encoding":"text","headers":[]}`},
		{"repeated member", storage.Record{Value: []byte(`{"a":1,"a":2}`)}, `"key":null,"value":"{\"a\":1,\"a\":2}","value_encoding":"text","headers":[]}`},
		{"bytes", storage.Record{Key: []byte{0xff}, Value: []byte{0xfe}}, `"key":"/w==","key_encoding":"base64","value":"/g==","value_encoding":"base64","headers":[]}`},
		{"headers and id", storage.Record{Value: []byte("1"), Headers: []storage.Header{{Key: []byte("h"), Value: []byte("v")}, {Key: []byte(idHeader), Value: []byte("g-1")}, {Key: []byte("h")}}},
			`"key":null,"value":1,"headers":[{"key":"h","value":"dg=="},{"key":"h","value":null}],"id":"g-1"}`},
	} {
		c.rec.Offset, c.rec.Timestamp = 7, 9
		if got := renderOne(nativeFormat(), c.rec); got != head+c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, head+c.want)
		}
	}
}

func TestRenderFormats(t *testing.T) {
	rec := storage.Record{Key: []byte(`"k"`), Value: []byte("[1,\r\n2]")}
	for _, c := range []struct {
		name   string
		format recordFormat
		want   string
	}{
		{"vnd json", vndJSONFormat(), `"key":"k","value":[1,` + "\r\n" + `2],`},
		{"vnd binary", vndBinaryFormat(), `"key":"Imsi","value":"WzEsDQoyXQ==",`},
		{"vnd text", vndTextFormat(), `"key":"\"k\"","value":"[1,\r\n2]",`},
		{"native, other formats", nativeFormat().withKey(formatJSON).withValue(formatBinary), `"key":"k","key_encoding":"json","value":"WzEsDQoyXQ==","value_encoding":"base64",`},
		{"native, string", nativeFormat().withKey(formatString).withValue(formatString), `"key":"\"k\"","value":"[1,\r\n2]","value_encoding":"text",`},
		{"one line", recordFormat{key: formatString, value: formatJSON, native: true, oneLine: true}, `"key":"\"k\"","value":[1,2],`},
	} {
		if got := renderOne(c.format, rec); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	misfit := storage.Record{Key: []byte("k"), Value: []byte{0xff}}
	want := `"key":null,"key_base64":"aw==","value":null,"value_base64":"/w==","decode_error":"key is not a JSON text other than null; value is not a JSON text other than null",`
	if got := renderOne(vndJSONFormat(), misfit); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestH08_DepthOfRenderedJSON: a value deeper than the limit is given as text,
// and a hostile one costs no stack.
func TestH08_DepthOfRenderedJSON(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if !isJSONText(nested(maxJSONDepth)) {
		t.Error("the limit itself is refused")
	}
	for _, deep := range [][]byte{nested(maxJSONDepth + 1), nested(5_000_000), bytes.Repeat([]byte("["), 16<<20)} {
		if isJSONText(deep) {
			t.Errorf("%d bytes of nesting taken for JSON", len(deep))
		}
	}
	if brackets := []byte(`"` + strings.Repeat(`[\"`, 2000) + `"`); !isJSONText(brackets) {
		t.Error("brackets inside a string were counted")
	}
}

// unrender is an independent reading of a native record.
func unrender(t *testing.T, text []byte) (key, value []byte, headers []storage.Header) {
	t.Helper()
	var m struct {
		Key           *string         `json:"key"`
		KeyEncoding   string          `json:"key_encoding"`
		Value         json.RawMessage `json:"value"`
		ValueEncoding string          `json:"value_encoding"`
		Headers       []struct {
			Key         string  `json:"key"`
			KeyEncoding string  `json:"key_encoding"`
			Value       *string `json:"value"`
		} `json:"headers"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	unbase64 := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return b
	}
	if m.Key != nil {
		if key = []byte(*m.Key); m.KeyEncoding == "base64" {
			key = unbase64(*m.Key)
		}
	}
	var s string
	switch {
	case m.ValueEncoding == "" && string(m.Value) != "null":
		value = m.Value
	case m.ValueEncoding != "":
		if err := json.Unmarshal(m.Value, &s); err != nil {
			t.Fatal(err)
		}
		if value = []byte(s); m.ValueEncoding == "base64" {
			value = unbase64(s)
		}
	}
	for _, h := range m.Headers {
		out := storage.Header{Key: []byte(h.Key)}
		if h.KeyEncoding == "base64" {
			out.Key = unbase64(h.Key)
		}
		if h.Value != nil {
			out.Value = unbase64(*h.Value)
		}
		headers = append(headers, out)
	}
	return key, value, headers
}

func sameBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// FuzzRender: whatever bytes a record holds, its native form is strict JSON from
// which another parser gets the same bytes, and its line form is one line.
func FuzzRender(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"a":[1,2]}`), []byte("h"), []byte("v"))
	f.Add([]byte{0xff}, []byte("null"), []byte{0xc0}, []byte{})
	f.Add([]byte{}, []byte("\"\\ud800\""), []byte(""), []byte("\x00"))
	f.Add([]byte("a\r\nb"), []byte("[1,\r\n2]"), []byte("\u2028"), []byte("\n"))
	f.Fuzz(func(t *testing.T, key, value, headerKey, headerValue []byte) {
		if string(headerKey) == idHeader {
			return
		}
		rec := storage.Record{Key: key, Value: value, Headers: []storage.Header{{Key: headerKey, Value: headerValue}, {Key: []byte("null")}}}
		for _, form := range []recordFormat{nativeFormat(), nativeFormat().withValue(formatString), nativeFormat().withValue(formatBinary), vndJSONFormat(), vndTextFormat(), vndBinaryFormat()} {
			text := newRecordRenderer(form, "t", 0).append(nil, &rec)
			if !utf8.Valid(text) || !json.Valid(text) {
				t.Fatalf("not JSON: %q", text)
			}
			if !form.native {
				continue
			}
			k, v, h := unrender(t, text)
			if !sameBytes(k, key) || !sameBytes(v, value) || len(h) != 2 || !sameBytes(h[0].Value, headerValue) || !bytes.Equal(h[0].Key, headerKey) || h[1].Value != nil {
				t.Fatalf("%q %q %q=%q came back as %q %q %v from %s", key, value, headerKey, headerValue, k, v, h, text)
			}
		}
		line := nativeFormat()
		line.oneLine = true
		if text := newRecordRenderer(line, "t", 0).append(nil, &rec); bytes.ContainsAny(text, "\r\n") || !json.Valid(text) {
			t.Fatalf("not one line of JSON: %q", text)
		}
	})
}

// FuzzRenderRoundTrip: any bytes, rendered natively in any formats, are taken by
// a produce without parameters and give the same bytes again; as lines they do,
// too, but for line breaks inside JSON.
func FuzzRenderRoundTrip(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"a":[1,2]}`), "h", []byte("v"), uint8(0))
	f.Add([]byte{0xff}, []byte("null"), "", []byte{}, uint8(7))
	f.Add([]byte(`"k"`), []byte("\"\\ud800\""), "\u2028", []byte("\x00"), uint8(5))
	f.Add([]byte("a\r\nb"), []byte("[1,\r\n2]"), "x", []byte("\n"), uint8(16))
	f.Fuzz(func(t *testing.T, key, value []byte, headerKey string, headerValue []byte, form uint8) {
		if headerKey == idHeader || !utf8.ValidString(headerKey) || len(key)+len(value)+len(headerKey)+len(headerValue) > 1<<19 {
			return // no produce lets such a header in; the last is no record for the test's topic
		}
		format, media := nativeFormat(), typeJSON
		if k := form % 4; k > 0 {
			format = format.withKey(payloadFormat(k - 1))
		}
		if v := form / 4 % 4; v > 0 {
			format = format.withValue(payloadFormat(v - 1))
		}
		if form >= 128 {
			format.oneLine, media = true, typeNDJSON
		}
		want := storage.Record{Timestamp: 5, Key: key, Value: value, Headers: []storage.Header{{Key: []byte(headerKey), Value: headerValue}}}
		body := newRecordRenderer(format, "t", 0).append(nil, &want)
		if media == typeJSON {
			body = append(append([]byte(`{"records":[`), body...), `]}`...)
		}
		p := planOf(t, "", media)
		defer p.release()
		if err := parseBody(p, body, media); err != nil {
			t.Fatalf("refused: %v\n%s", err, body)
		}
		got := plannedRecords(t, p)
		if format.oneLine && !bytes.Equal(got[0].Value, value) {
			got[0].Value, want.Value = appendOneLine(nil, got[0].Value), appendOneLine(nil, value)
		}
		sameRecords(t, got, []storage.Record{want})
	})
}

// A key keeps its bytes in lines too: without its line breaks it would be another
// key, of another partition maybe (H10). Only a value may lose them.
func TestH10_LinesKeepAKeysLineBreaks(t *testing.T) {
	format := nativeFormat().withKey(formatJSON)
	format.oneLine = true
	for key, want := range map[string]string{
		"{\"a\":\n1}": `"key":"{\"a\":\n1}","key_encoding":"text"`,
		"[1,\r2]":     `"key":"[1,\r2]","key_encoding":"text"`,
		"\n\xff":      `"key":"Cv8=","key_encoding":"base64"`,
		`{"a":1}`:     `"key":{"a":1},"key_encoding":"json"`,
	} {
		if got := renderOne(format, storage.Record{Key: []byte(key), Value: []byte("1")}); !strings.Contains(got, want) {
			t.Errorf("key %q:\n got %s\nwant %s", key, got, want)
		}
	}
}
