package handlers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// values are the stored values of t-0, as text.
func (b *testBroker) values(topic string, n int) []string {
	b.t.Helper()
	var out []string
	for _, r := range b.stored(topic, 0, n) {
		if r.Value == nil {
			out = append(out, "<tombstone>")
			continue
		}
		out = append(out, string(r.Value))
	}
	return out
}

func wantValues(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values %q, want %d", len(got), got, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("value %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// batchOf is a native batch of these values.
func batchOf(values ...string) string {
	return `{"records":[{"value":` + strings.Join(values, `},{"value":`) + `}]}`
}

func TestH01_IntegersKeepTheirText(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	values := []string{"9007199254740993", "-9223372036854775808", "18446744073709551615", `{"id":123456789012345678901234567890}`}
	b.post("/topics/t?acks=-1", batchOf(values...)).want(200)
	wantValues(t, b.values("t", 4), values...)
}

// Error texts hold no record content (rule 4 of the cases), not even the bytes
// that break a string.
func TestH03_ErrorTextsQuoteNoValue(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, bad := range []string{`\ud800secret`, `\ud800\ud800`, `\xsecret`, `\u12secret`, "\xffsecret"} {
		for path, body := range map[string]string{"/topics/t": batchOf(`"` + bad + `"`), "/topics": `{"topic_name":"` + bad + `"}`} {
			answer := b.post(path, body)
			answer.problem(40001)
			if text := string(answer.body); strings.Contains(text, "secr") || strings.Contains(text, "`") || strings.Contains(text, "ud800") {
				t.Errorf("%s with %q answers %s", path, bad, text)
			}
		}
	}
}

func TestH02_BytesAfterTheDocument(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", `{"records":[{"value":1}]}xyz`).problem(40001)
	b.post("/topics/t", `{"records":[{"value":2}]}{"records":[{"value":3}]}`).problem(40001)
	if end := b.end("t", 0); end != 0 {
		t.Fatalf("log end %d", end)
	}
	b.post("/topics/t", "{\"records\":[{\"value\":4}]}\n\n\t").want(200)
	wantValues(t, b.values("t", 1), "4")
}

func TestH03_BytesThatAreNotUTF8(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, body := range []string{"{\"records\":[{\"value\":\"ok-1\"},{\"value\":\"a\xffb\"},{\"value\":\"ok-2\"}]}",
		`{"records":[{"value":"\ud800"}]}`, `{"records":[{"value":"\udc00\ud800"}]}`, "{\"records\":[{\"key\":\"\xc0\x80\",\"value\":1}]}",
		"{\"records\":[{\"value\":{\"\xed\xa0\x80\":1}}]}", "{\"\xff\":[]}"} {
		before := len(b.log.String())
		a := b.post("/topics/t", body)
		a.problem(40001)
		if !json.Valid(a.body) || bytes.Contains(a.body, []byte{0xff}) {
			t.Errorf("%q: answer %q", body, a.body)
		}
		if line := b.log.String()[before:]; strings.Count(line, "\n") > 1 || strings.Contains(line, "ok-1") {
			t.Errorf("%q: logged %s", body, line)
		}
	}
	if end := b.end("t", 0); end != 0 {
		t.Fatalf("log end %d", end)
	}
}

func TestH04_NotAnObjectAndCutOff(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for body, code := range map[string]int{
		``: 40001, `   `: 40001, `{`: 40001, `{"records":`: 40001, `{"records":[`: 40001, `{"records":[{"value":1}`: 40001, `{"records":[{"value":1}]`: 40001,
		`null`: 42201, `[]`: 42201, `"x"`: 42201, `7`: 42201, `{"records":{}}`: 42201, `{"records":null}`: 42201,
		`{"records":[null]}`: 42201, `{"records":["x"]}`: 42201, `{}`: 42201, `{"records":[]}`: 42201,
	} {
		p := b.post("/topics/t", body).problem(code)
		if p.Outcome != "not_written" {
			t.Errorf("%s: outcome %q", body, p.Outcome)
		}
	}
	if end := b.end("t", 0); end != 0 {
		t.Fatalf("log end %d", end)
	}
	b.post("/topics/t", batchOf("1")).want(200)
}

func TestH05_ByteOrderMark(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	for _, media := range []string{typeJSON, typeNDJSON, typeKafkaJSON} {
		for _, body := range []string{"\xef\xbb\xbf" + batchOf(`"v"`), "\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}"} {
			if p := b.post("/topics/t", body, ofType(media)).problem(40001); !strings.Contains(p.Detail, "encoding") {
				t.Errorf("detail %q", p.Detail)
			}
		}
	}
	b.post("/topics/t", "{\x00}\x00").problem(40001)
}

func TestH06_TombstoneIsNotAbsence(t *testing.T) {
	b := startBroker(t)
	b.topic("c", 1, "cleanup.policy", "compact")
	p := b.post("/topics/c", `{"records":[{"key":"k1","value":{"a":1}},{"key":"k1","value":null},{"key":"k2"},{"key":"k3","value":""}]}`).problem(42201)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/records/2/value" {
		t.Errorf("errors %+v", p.Errors)
	}
	b.post("/topics/c", `{"records":[{"key":"k1","value":{"a":1}},{"key":"k1","value":null},{"key":"k3","value":""},{"key":"k4","value":{}}]}`).want(200)
	wantValues(t, b.values("c", 4), `{"a":1}`, "<tombstone>", `""`, `{}`)
}

func TestH07_AngleBracketsAndSeparators(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	values := []string{`"<b>&amp; \u2028 \u2029 é 😀"`, `{"<k>":"&"}`, `"\ud83d\ude00"`, "\"\u2028\""}
	b.post("/topics/t", batchOf(values...)).want(200)
	wantValues(t, b.values("t", 4), values...)
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestH08_DeepNesting(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	b.post("/topics/t", batchOf(nested(maxJSONDepth))).want(200)
	wantValues(t, b.values("t", 1), nested(maxJSONDepth))
	for _, n := range []int{maxJSONDepth + 1, 5000, 200_000} {
		b.post("/topics/t", batchOf(nested(n))).problem(40001)
		b.post("/topics/t?key_format=json", `{"records":[{"key":`+nested(n)+`,"value":1}]}`).problem(40001)
		b.post("/topics/t", `{"value":`+nested(n)+`}`, ofType(typeNDJSON)).problem(40001)
		if s := b.post("/topics/t", `{"records":[{"value":1,"headers":`+nested(n)+`}]}`).status; s != 400 && s != 422 {
			t.Errorf("headers nested %d: %d", n, s)
		}
	}
	b.post("/topics/t", strings.Repeat("[", 16<<20)).problem(40001)
	b.post("/topics/t", `{"records":`+strings.Repeat("[", 16<<20)).problem(40001)
	b.post("/topics/t", `{"records":[`+strings.Repeat(`{"value":`, 1<<20)).problem(40001)
	packed := gzipped(t, []byte(batchOf(nested(5_000_000))))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { b.post("/topics/t", packed, header("Content-Encoding", "gzip")).problem(40001) })
	}
	wg.Wait()
	if end := b.end("t", 0); end != 1 {
		t.Fatalf("log end %d", end)
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(data)
	must(t, err)
	must(t, z.Close())
	return out.Bytes()
}

func TestH09_NumberTextIsKept(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	values := []string{"1.0", "1", "0.1", "1000000.0", "1e6", "1E+2", "-0", "5e-324", "0.30000000000000004"}
	b.post("/topics/t", batchOf(values...)).want(200)
	wantValues(t, b.values("t", len(values)), values...)
	for _, bad := range []string{"01", "+1", ".5", "1.", "0x1", "NaN", "1e", "--1", "'a'"} {
		b.post("/topics/t", batchOf(bad)).problem(40001)
	}
}

func TestH10_KeyTypes(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	keys := []string{`"1"`, `1`, `1.0`, `true`, `{"a":1}`, `[1]`}
	for _, k := range keys {
		a := b.post("/topics/t", `{"records":[{"key":`+k+`,"value":"x"}]}`)
		if k[0] == '"' {
			a.want(200)
		} else if p := a.problem(42201); !strings.Contains(p.Detail, "key_format=json") || p.Errors[0].Pointer != "/records/0/key" {
			t.Errorf("key %s: %+v", k, p)
		}
		b.post("/topics/t", `{"records":[{"key":`+k+`,"value":"x"}]}`, ofType(typeKafkaJSON)).want(200)
	}
	b.post("/topics/t", `{"records":[{"key":null,"value":"x"},{"value":"x"}]}`).want(200)
	got := ""
	for _, r := range b.stored("t", 0, 9) {
		got += fmt.Sprintf("%q ", r.Key)
	}
	if want := `"1" "\"1\"" "1" "1.0" "true" "{\"a\":1}" "[1]" "" "" `; got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
	b.post("/topics/t", `{"records":[{"key":{},"value":"x"}]}`, ofType(typeKafkaText)).problem(42201)
	b.post("/topics/t", `{"records":[{"key":"no base64!","value":"eA=="}]}`, ofType(typeKafkaBinary)).problem(42201)
}

func TestValidationListsEveryFaultWithItsPointer(t *testing.T) {
	b := startBroker(t)
	b.topic("t", 1)
	p := b.post("/topics/t", `{"records":[{"value":1},{"key":5,"value":2},{"value":3,"partition":-1},{"vlaue":4},{"value":5,"timestamp":1.5}],"recrods":1}`).problem(42201)
	var pointers []string
	for _, e := range p.Errors {
		pointers = append(pointers, e.Pointer)
	}
	if got, want := strings.Join(pointers, " "), "/records/1/key /records/2/partition /records/3/vlaue /records/3/value /records/4/timestamp /recrods"; got != want {
		t.Errorf("pointers %s, want %s", got, want)
	}
	many := b.post("/topics/t", batchOf(strings.Repeat(`1,"x":1},{"value":`, 499)+`1,"x":1`)).problem(42201)
	if len(many.Errors) != maxShownFaults || !strings.Contains(many.Detail, "499 more") {
		t.Errorf("%d errors, detail %q", len(many.Errors), many.Detail)
	}
	if p := b.post("/topics/t", `{"records":[{"value":{"secret":1,"secret":2}}]}`).problem(40001); strings.Contains(p.Detail+p.Errors[0].Pointer, "secret") {
		t.Errorf("the refusal tells content: %+v", p)
	}
	if p := b.post("/topics/t", `{"records":[{"value":1,"key":"a","key":"b"}]}`).problem(40001); !strings.Contains(p.Detail, `"key" is repeated`) {
		t.Errorf("detail %q", p.Detail)
	}
}
