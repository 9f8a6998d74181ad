package handlers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkFetchPage is a fetch of 1 MiB through the whole server.
func BenchmarkFetchPage(b *testing.B) {
	br := startBroker(b)
	br.topic("t", 1)
	var body strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&body, `{"key":"key-%d","value":{"n":%d,"pad":"%s"}}`+"\n", i, i, strings.Repeat("x", 180))
	}
	for range 10 {
		br.post("/topics/t/partitions/0?acks=-1", body.String(), ofType(typeNDJSON)).want(200)
	}
	next := "0"
	for b.Loop() {
		resp, err := br.client.Get(br.url + "/topics/t/partitions/0/records?offset=" + next)
		must(b, err)
		n, err := io.Copy(io.Discard, resp.Body)
		must(b, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
		b.SetBytes(n)
		if next = resp.Header.Get("Highwater-Next-Offset"); next == "50000" {
			next = "0"
		}
	}
}
