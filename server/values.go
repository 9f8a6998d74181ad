package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"highwater/replication"
)

// The types below are read from a flag, from the environment (always text) and
// from YAML (text or number), so each takes kong's untyped token.

// byteSize is a number of bytes, written 1048576, 1MiB or 1MB.
type byteSize int64

// Decode reads the flag.
func (b *byteSize) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	n, err := parseBytes(text)
	*b = byteSize(n)
	return err
}

func (b byteSize) String() string { return strconv.FormatInt(int64(b), 10) }

func parseBytes(text string) (int64, error) {
	wrong := fmt.Errorf("%q is no size; want bytes such as 1048576, 512KiB, 128MiB, 1GiB", text)
	digits := strings.TrimRight(text, "KMGTkiBb")
	factor, ok := map[string]int64{
		"": 1, "b": 1, "kib": 1 << 10, "k": 1 << 10, "mib": 1 << 20, "m": 1 << 20, "gib": 1 << 30, "g": 1 << 30, "tib": 1 << 40, "t": 1 << 40,
		"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	}[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if !ok || err != nil || n > (1<<62)/factor || n < -(1<<62)/factor {
		return 0, wrong
	}
	return n * factor, nil
}

// duration is a span of time with its unit, such as 10s or 500ms.
type duration time.Duration

// Decode reads the flag. A bare number is refused: nobody can know its unit.
func (d *duration) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration; want a number with its unit, such as 500ms, 10s, 5m", text)
	}
	*d = duration(v)
	return nil
}

func (d duration) String() string { return time.Duration(d).String() }

// acks is a default for ?acks=.
type acks replication.Acks

// Decode reads the flag.
func (a *acks) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	switch text {
	case "0":
		*a = acks(replication.AcksNone)
	case "1":
		*a = acks(replication.AcksLeader)
	case "-1", "all":
		*a = acks(replication.AcksAll)
	default:
		return fmt.Errorf("%q is no acks; want 0, 1, -1 or all", text)
	}
	return nil
}

// voter is one member of the first controller quorum.
type voter struct {
	ID  int32
	URL string
}

// voters are written 1=http://127.0.0.1:8081,2=http://127.0.0.1:8082.
type voters []voter

// Decode reads the flag.
func (v *voters) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	list, err := parseVoters(text)
	*v = list
	return err
}

func (v voters) String() string {
	parts := make([]string, len(v))
	for i, m := range v {
		parts[i] = fmt.Sprintf("%d=%s", m.ID, m.URL)
	}
	return strings.Join(parts, ",")
}

func parseVoters(text string) (voters, error) {
	var list voters
	ids, urls := map[int32]bool{}, map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		id, rawURL, ok := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no voter; want ID=URL, such as 1=http://127.0.0.1:8081", part)
		}
		clean, err := baseURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("voter %d: %q: %w", n, rawURL, err)
		}
		if ids[int32(n)] || urls[clean] {
			return nil, fmt.Errorf("%q: its id or URL is there twice", part)
		}
		ids[int32(n)], urls[clean] = true, true
		list = append(list, voter{ID: int32(n), URL: clean})
	}
	return list, nil
}

// protocolRange is written 1-2; zero: not given.
type protocolRange struct{ Low, High int }

// Decode reads the flag.
func (r *protocolRange) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	low, high, _ := strings.Cut(text, "-")
	a, errLow := strconv.Atoi(low)
	b, errHigh := strconv.Atoi(high)
	if errLow != nil || errHigh != nil || a < 1 || b < a {
		return fmt.Errorf("%q is no range of versions; want LOW-HIGH, such as 1-2", text)
	}
	r.Low, r.High = a, b
	return nil
}

// tokenText is the flag's value as it was written, whatever type YAML gave it.
func tokenText(ctx *kong.DecodeContext) (string, error) {
	token, err := ctx.Scan.PopValue(ctx.Value.Name)
	if err != nil {
		return "", err
	}
	switch reflect.ValueOf(token.Value).Kind() {
	case reflect.String, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return strings.TrimSpace(fmt.Sprint(token.Value)), nil
	default:
		return "", fmt.Errorf("want text or a number, not %v", token.Value)
	}
}

// maxSecretBytes is far above any sensible secret; more is the wrong file.
const maxSecretBytes = 4096

// minSecretBytes is what can't be guessed over a network.
const minSecretBytes = 16

// readSecret reads the cluster's secret, without white space at its ends, and the
// file's permissions.
func readSecret(path string) (secret []byte, mode fs.FileMode, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if err != nil {
		return nil, 0, errors.Unwrap(err) // the path is said already
	}
	secret = bytes.TrimSpace(data)
	switch {
	case len(secret) < minSecretBytes || len(data) > maxSecretBytes:
		return nil, mode, fmt.Errorf("must hold %d to %d bytes, such as from: openssl rand -hex 32", minSecretBytes, maxSecretBytes)
	case bytes.ContainsFunc(secret, func(r rune) bool { return r < 0x20 || r > 0x7e }):
		return nil, mode, errors.New("must be one line of printable ASCII (it travels in a header), such as from: openssl rand -hex 32")
	}
	return secret, mode, nil
}
