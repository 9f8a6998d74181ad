package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// healthcheckTimeout is below the interval that container engines ask at.
const healthcheckTimeout = 3 * time.Second

// healthcheck asks the broker of this machine whether it serves.
func healthcheck(ctx context.Context, cfg *config, out io.Writer) error {
	base := cfg.Healthcheck.URL
	if base == "" {
		host, port, err := splitListen(cfg.Listen)
		if err != nil {
			return fmt.Errorf("--listen %q: %w", cfg.Listen, err)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		base = "http://" + net.JoinHostPort(host, strconv.Itoa(port))
	}
	base, err := baseURL(base)
	if err != nil {
		return fmt.Errorf("healthcheck %q: %w", cfg.Healthcheck.URL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
	if err != nil {
		return err
	}
	// No proxy from the environment: the broker is on this machine.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/healthz answers %s", base, res.Status)
	}
	_, err = fmt.Fprintln(out, "ok")
	return err
}
