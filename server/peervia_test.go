package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestDetours(t *testing.T) {
	cfg, _, err := parseConfig([]string{"--peer-via=127.0.0.1:8082=127.0.0.1:9012,[::1]:8083=127.0.0.1:9013"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	dialled := ""
	dial := cfg.PeerVia.dialer(func(_ context.Context, _, address string) (net.Conn, error) {
		dialled = address
		return nil, errors.New("not dialled in a test")
	})
	for to, want := range map[string]string{"127.0.0.1:8082": "127.0.0.1:9012", "[::1]:8083": "127.0.0.1:9013", "127.0.0.1:8081": "127.0.0.1:8081"} {
		_, _ = dial(t.Context(), "tcp", to)
		if dialled != want {
			t.Errorf("%s is dialled at %s, want %s", to, dialled, want)
		}
	}
	for _, bad := range []string{"8082=9012", "127.0.0.1:8082", "127.0.0.1:8082=", ""} {
		if _, _, err := parseConfig([]string{"--peer-via=" + bad}, io.Discard); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
