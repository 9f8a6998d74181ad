package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
)

var (
	idA = uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	idB = uuid.MustParse("ffeeddcc-bbaa-9988-7766-554433221100")
)

func fetchRequest() *FetchRequest {
	return &FetchRequest{Version: 1, ClusterID: "c1", Replica: 2, BrokerEpoch: 3, Fetcher: 4, Seq: 5, Full: true, MetadataIndex: 6,
		MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20,
		Partitions: []FetchPartition{{TopicPartition: TopicPartition{idA, 7}, LeaderEpoch: 8, Offset: 9, From: 12, LastEpoch: -1, LogStart: 1, MaxBytes: 1 << 16}},
		Forgotten:  []TopicPartition{{idB, 10}}}
}

func fetchResponse() *FetchResponse {
	return &FetchResponse{Version: 1, Partitions: []FetchedPartition{
		{TopicPartition: TopicPartition{idA, 7}, LeaderEpoch: 8, Leader: 1, HighWatermark: 20, LogStart: 2, LeaderEnd: 22, Batches: []byte("raw")},
		{TopicPartition: TopicPartition{idB, 1}, LeaderEpoch: 9, Leader: 1, HighWatermark: -1, Diverging: &EpochEnd{Epoch: 3, EndOffset: 15}},
		{TopicPartition: TopicPartition{idB, 2}, Code: CodeFencedLeaderEpoch, LeaderEpoch: 9, Leader: -1},
		{TopicPartition: TopicPartition{idA, 8}, Batches: []byte("more")}}}
}

// The bytes themselves: another version of the program must read them.
func TestGoldenFetches(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    Message
		want string
	}{
		{"request", fetchRequest(), `
			0001 01 02 6331 00000002 0000000000000003 00000004 0000000000000005 0000000000000006 000001f4 00000001 00100000
			00000001 00112233445566778899aabbccddeeff 00000007 00000008 0000000000000009 000000000000000c ffffffff 0000000000000001 00010000
			00000001 ffeeddccbbaa99887766554433221100 0000000a`},
		{"response", fetchResponse(), `
			0001 00 00000004
			00112233445566778899aabbccddeeff 00000007 00 00000008 00000001 0000000000000014 0000000000000002 0000000000000016 00 00000003
			ffeeddccbbaa99887766554433221100 00000001 00 00000009 00000001 ffffffffffffffff 0000000000000000 0000000000000000 01 00000003 000000000000000f 00000000
			ffeeddccbbaa99887766554433221100 00000002 13 46454e4345445f4c45414445525f45504f4348 00000009 ffffffff 0000000000000000 0000000000000000 0000000000000000 00 00000000
			00112233445566778899aabbccddeeff 00000008 00 00000000 00000000 0000000000000000 0000000000000000 0000000000000000 00 00000004`},
	} {
		want, err := hex.DecodeString(strings.Join(strings.Fields(tc.want), ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := tc.m.AppendHead(nil); !bytes.Equal(got, want) {
			t.Errorf("%s is %x, want %x", tc.name, got, want)
		}
	}
}

// body is a whole body of a message.
func body(m Message) []byte {
	out := AppendFrame(nil, m)
	for _, p := range m.Payload() {
		out = append(out, p...)
	}
	return out
}

// messages is one of each kind, with an empty one of the kind to read it into.
func messages() map[string][2]Message {
	two := int64(2)
	epoch := int32(4)
	return map[string][2]Message{
		"fetch request":  {fetchRequest(), &FetchRequest{}},
		"fetch ahead":    {&FetchRequest{Version: 1, Ahead: true}, &FetchRequest{}},
		"fetch response": {fetchResponse(), &FetchResponse{}},
		"append": {&AppendRequest{Version: 1, Acks: -1, TimeoutMs: 100, Partitions: []AppendPartition{
			{TopicPartition: TopicPartition{idA, 1}, ExpectedOffset: &two, Batches: [][]byte{[]byte("one"), []byte("two!")}},
			{TopicPartition: TopicPartition{idA, 2}, Batches: [][]byte{[]byte("three")}}}}, &AppendRequest{}},
		"read answer": {&ReadAnswer{Version: 1, Results: []ReadResult{{HighWatermark: 5, Data: []byte("data")}, {Stale: true, Error: &Error{Kind: "k", Text: "t"}}, {Data: []byte("x")}}}, &ReadAnswer{}},
		"read":        {&JSON[ReadRequest]{V: &ReadRequest{Version: 1, MaxBytes: 9, Positions: []ReadPosition{{TopicPartition: TopicPartition{idA, 1}, Offset: 3, LeaderEpoch: &epoch}}}}, &JSON[ReadRequest]{}},
		"watch":       {&JSON[WatchRequest]{V: &WatchRequest{Version: 1, Session: idB, Add: []TopicPartition{{idA, 0}}}}, &JSON[WatchRequest]{}},
		"heartbeat":   {&JSON[Heartbeat]{V: &Heartbeat{Version: 1, ClusterID: "c", Broker: 3}}, &JSON[Heartbeat]{}},
	}
}

func TestMessagesComeBackEqual(t *testing.T) {
	for name, m := range messages() {
		if err := DecodeBody(body(m[0]), m[1]); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(m[0], m[1]) {
			t.Errorf("%s:\n%+v\n%+v", name, m[0], m[1])
		}
	}
}

// R100: what another version says is refused, not guessed at.
func TestR100_UnknownVersions(t *testing.T) {
	for _, version := range []int{0, MinVersion - 1, Version + 1, 0xffff} {
		req, res := fetchRequest(), fetchResponse()
		req.Version, res.Version = version, version
		for name, m := range map[string][2]Message{
			"fetch request":  {req, &FetchRequest{}},
			"fetch response": {res, &FetchResponse{}},
			"append":         {&AppendRequest{Version: version}, &AppendRequest{}},
			"read answer":    {&ReadAnswer{Version: version}, &ReadAnswer{}},
			"heartbeat":      {&JSON[Heartbeat]{V: &Heartbeat{Version: version}}, &JSON[Heartbeat]{}},
		} {
			other := (*VersionError)(nil)
			if err := DecodeBody(body(m[0]), m[1]); !errors.As(err, &other) {
				t.Errorf("%s of version %d: %v", name, version, err)
			}
		}
	}
	// A newer version may have other members, of other types: it is refused all the same.
	strange := []byte(`{"version":2,"broker":{"id":3}}`)
	other := (*VersionError)(nil)
	if err := (&JSON[Heartbeat]{}).Decode(strange, nil); !errors.As(err, &other) || other.Version != 2 {
		t.Error(err)
	}
}

// Every prefix of a body, and a body with something behind it, is no message; nor
// are lengths believed that nothing stands behind.
func TestHostileBodies(t *testing.T) {
	for name, m := range messages() {
		whole := body(m[0])
		for n := range whole {
			if err := DecodeBody(whole[:n], m[1]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d of %d: %v", name, n, len(whole), err)
			}
		}
		if err := DecodeBody(append(bytes.Clone(whole), 0), m[1]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte behind it: %v", name, err)
		}
	}
	head := fetchRequest().AppendHead(nil)
	at := bytes.Index(head, idA[:]) - 4
	copy(head[at:], "\xff\xff\xff\xff") // four billion partitions
	allocated := testing.AllocsPerRun(1, func() {
		if err := (&FetchRequest{}).Decode(head, nil); !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
	if allocated > 20 {
		t.Errorf("%v allocations", allocated)
	}
	for _, m := range []Message{&AppendRequest{}, &ReadAnswer{}} {
		for _, text := range []string{
			`{"version":1,"partitions":[{"batch_bytes":[-1]}],"results":[{"bytes":-1}]}`,
			`{"version":1,"partitions":[{"batch_bytes":[2147483647]}],"results":[{"bytes":2147483647}]}`,
			`{"version":1`, `null`, `[]`, `{"version":"1"}`,
		} {
			if err := m.Decode([]byte(text), []byte("abc")); err == nil {
				t.Errorf("%T takes %s", m, text)
			}
		}
	}
}

func TestEveryCodeIsKnown(t *testing.T) {
	for _, c := range codes {
		text := appendString8(nil, string(c))
		var d decoder
		if allocs := testing.AllocsPerRun(10, func() {
			d.b = text
			if d.code() != c {
				t.Fatal(c)
			}
		}); allocs > 0 {
			t.Errorf("%s: %v allocations", c, allocs)
		}
	}
}

func FuzzFetchRequest(f *testing.F) {
	f.Add(fetchRequest().AppendHead(nil), []byte(nil))
	fuzzMessage(f, func() Message { return &FetchRequest{} })
}

func FuzzFetchResponse(f *testing.F) {
	f.Add(fetchResponse().AppendHead(nil), []byte("rawmore"))
	fuzzMessage(f, func() Message { return &FetchResponse{} })
}

func FuzzAppendRequest(f *testing.F) {
	f.Add([]byte(`{"version":1,"acks":-1,"timeout_ms":5,"partitions":[{"topic":"00112233-4455-6677-8899-aabbccddeeff","partition":1,"batch_bytes":[3]}]}`), []byte("abc"))
	fuzzMessage(f, func() Message { return &AppendRequest{} })
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"version":1,"results":[{"high_watermark":5,"bytes":3},{"error":{"kind":"x"}}]}`), []byte("abc"))
	fuzzMessage(f, func() Message { return &ReadAnswer{} })
}

func FuzzFindAnswer(f *testing.F) {
	f.Add([]byte(`{"version":1,"results":[{"offset":-1},{"offset":5,"leader_epoch":2}]}`), []byte("abc"))
	fuzzMessage(f, func() Message { return &FindAnswer{} })
}

func FuzzDedupeAnswer(f *testing.F) {
	f.Add([]byte(`{"version":1,"below":7}`), []byte("abc"))
	fuzzMessage(f, func() Message { return &DedupeAnswer{} })
}

// fuzzMessage: what can be read can be written and read again, equal; all else is
// an error, never a panic.
func fuzzMessage(f *testing.F, empty func() Message) {
	f.Fuzz(func(t *testing.T, head, payload []byte) {
		m := empty()
		if err := m.Decode(head, payload); err != nil {
			return
		}
		again := empty()
		if err := DecodeBody(body(m), again); err != nil {
			t.Fatalf("%+v can't be read again: %v", m, err)
		}
		if !bytes.Equal(body(m), body(again)) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}
