package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/alecthomas/kong"
)

// detours are addresses of peers that are reached by way of another address,
// HOST:PORT=HOST:PORT,..: what a test puts between two brokers to cut one direction of
// one link. Peers know each other by one URL each, so only the dialler can tell
// links apart.
type detours map[string]string

// Decode reads the flag.
func (d *detours) Decode(ctx *kong.DecodeContext) error {
	text, err := tokenText(ctx)
	if err != nil {
		return err
	}
	*d = detours{}
	for pair := range strings.SplitSeq(text, ",") {
		to, via, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is no detour; want a list of HOST:PORT=HOST:PORT", pair)
		}
		for _, address := range []string{to, via} {
			if _, _, err := net.SplitHostPort(address); err != nil {
				return fmt.Errorf("%q is no detour: %w", pair, err)
			}
		}
		(*d)[to] = via
	}
	return nil
}

// dialer makes another dialer take the detours.
func (d detours) dialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if len(d) == 0 {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if via, ok := d[address]; ok {
			address = via
		}
		return dial(ctx, network, address)
	}
}
