package group

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// sampleRecords is a record of each kind, and one that deletes.
func sampleRecords() map[string]record {
	a, b := uuid.UUID{0xaa}, uuid.UUID{0xbb}
	call := uuid.UUID{1, 2, 3}
	when := time.UnixMilli(1_700_000_000_123).UTC()
	member := recordKey{kind: kindMember, group: "g", name: "c1"}
	return map[string]record{
		"group": {recordKey: recordKey{kind: kindGroup, group: "g"}, meta: &groupValue{generation: 7, floor: 2}},
		"member": {recordKey: member, member: &memberValue{
			incarnation: 2, numbered: true, call: call, index: 99,
			options: Options{
				Format: "json", Reset: ResetLatest, AutoCommit: true, MinBytes: 1,
				RequestTimeout: time.Second, SessionTimeout: 300 * time.Second, Isolation: "read_committed",
			},
			epoch: 6, inherited: true, topics: []string{"t", "u"},
			assigned: []part{{a, 0}},
			owned:    []ownedPart{{part{a, 0}, 3}, {part{a, 4}, 7}, {part{b, 1}, 7}},
		}},
		"pattern": {recordKey: member, member: &memberValue{incarnation: 1, options: Options{Reset: ResetNone}, pattern: "t.*"}},
		"left":    {recordKey: member, member: &memberValue{status: left, incarnation: 1, call: call, at: when}},
		"expired": {recordKey: member, member: &memberValue{status: expired, incarnation: 3, at: when, silent: 30 * time.Second}},
		"offset": {recordKey: recordKey{kind: kindOffset, group: "g", part: part{a, 4}}, offset: &offsetValue{
			offset: 1 << 40, leaderEpoch: -1, time: when, call: call, index: 99, metadata: "über",
		}},
		"initial": {recordKey: recordKey{kind: kindOffset, group: "g", part: part{b, 0}}, offset: &offsetValue{
			leaderEpoch: 3, time: when, initial: true,
		}},
		"no member": {recordKey: member},
	}
}

func TestRecordsReadBackAsWritten(t *testing.T) {
	for name, rec := range sampleRecords() {
		key, value := rec.encode()
		got, err := decodeRecord(key, value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, rec) {
			t.Errorf("%s: read back as %+v, was %+v", name, got, rec)
		}
		if name == "no member" && value != nil {
			t.Errorf("%s has a value", name)
		}
	}
}

// What is on disk stays readable: these bytes were written by the first version.
func TestRecordsOnDiskStayAsTheyAre(t *testing.T) {
	golden := map[string][2]string{
		"group": {"01010167", "010000000700000002"},
		"member": {"010201670263" + "31", "0100" + "00000002" + "01" + "01020300000000000000000000000000" + "0000000000000063" +
			"0004" + "6a736f6e" + "01" + "01" + "0000000000000001" + "00000000000003e8" + "00000000000493e0" + "000e" + "726561645f636f6d6d6974746564" +
			"00000006" + "01" + "0000" + "00000002" + "000174" + "000175" +
			"00000001" + "aa000000000000000000000000000000" + "00000001" + "00000000" +
			"00000002" + "aa000000000000000000000000000000" + "00000002" + "00000000" + "00000003" + "00000004" + "00000007" +
			"bb000000000000000000000000000000" + "00000001" + "00000001" + "00000007"},
		"expired": {"01020167026331", "0102" + "00000003" + "00" + "00000000000000000000000000000000" + "0000000000000000" + "0000018bcfe5687b" + "0000000000007530"},
		"offset": {"01030167" + "aa000000000000000000000000000000" + "00000004",
			"01" + "0000010000000000" + "ffffffff" + "0000018bcfe5687b" + "00" + "01020300000000000000000000000000" + "0000000000000063" + "0005" + "c3bc626572"},
	}
	for name, want := range golden {
		rec := sampleRecords()[name]
		key, value := rec.encode()
		if got := [2]string{hex.EncodeToString(key), hex.EncodeToString(value)}; got != want {
			t.Errorf("%s: %v\nwant %v", name, got, want)
		}
	}
}

func TestRecordsThatAreNotUnderstoodAreRefused(t *testing.T) {
	samples := sampleRecords()
	member, offset := samples["member"], samples["offset"]
	mk, mv := member.encode()
	ok, ov := offset.encode()
	with := func(b []byte, at int, v byte) []byte {
		b = append([]byte(nil), b...)
		b[at] = v
		return b
	}
	cases := map[string][2][]byte{
		"key's version":       {with(mk, 0, 2), mv},
		"kind":                {with(mk, 1, 9), mv},
		"empty group":         {{1, 1, 0}, nil},
		"key cut off":         {mk[:len(mk)-1], mv},
		"key too long":        {append(mk[:len(mk):len(mk)], 0), nil},
		"value's version":     {mk, with(mv, 0, 2)},
		"empty value":         {mk, {}},
		"status":              {mk, with(mv, 1, 3)},
		"incarnation 0":       {mk, with(mv, 5, 0)},
		"bool":                {mk, with(mv, 6, 2)},
		"value of other kind": {ok, mv},
		"value cut off":       {ok, ov[:len(ov)-1]},
		"value too long":      {ok, append(ov[:len(ov):len(ov)], 0)},
		"negative offset":     {ok, with(ov, 1, 0x80)},
		"leader epoch -2":     {ok, with(ov, 12, 0xfe)},
		"negative partition":  {with(ok, len(ok)-4, 0x80), ov},
		"not UTF-8":           {ok, with(ov, len(ov)-5, 0xff)},
		"order of partitions": {mk, with(mv, len(mv)-28, 0xa0)}, // the second topic's id before the first's
	}
	for name, c := range cases {
		_, err := decodeRecord(c[0], c[1])
		if bad := (*RecordError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range mv {
		if _, err := decodeRecord(mk, append([]byte{}, mv[:n]...)); err == nil {
			t.Errorf("a value cut off after %d bytes is read", n)
		}
	}
}

// FuzzRecord: whatever is read is written as the same bytes.
func FuzzRecord(f *testing.F) {
	for _, rec := range sampleRecords() {
		key, value := rec.encode()
		f.Add(key, value, value == nil)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, null bool) {
		if null {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		rec, err := decodeRecord(key, value)
		if err != nil {
			return
		}
		k, v := rec.encode()
		if string(k) != string(key) || string(v) != string(value) || (v == nil) != (value == nil) {
			t.Fatalf("%x %x was read as %+v and written as %x %x", key, value, rec, k, v)
		}
		s := newState(rec.group)
		if err := s.apply(rec); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPatternsMatchWholeNames(t *testing.T) {
	re, err := compile("a|b.")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b1": true, "ab": false, "xa": false, "b12": false, "b\n": false} {
		if re.MatchString(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	for _, bad := range []string{"(", "a)(b", "a)|(b", `\1`, "(?=a)", strings.Repeat("a", maxPattern+1), strings.Repeat("(a{1000})", 20), "x{1001}"} {
		if invalid := (*InvalidError)(nil); !errors.As(CheckPattern(bad), &invalid) {
			t.Errorf("%.20q: %v", bad, CheckPattern(bad))
		}
	}
}
