// Command jetstream is the peer that `make bench` measures Highwater's replicated
// appends against: NATS JetStream's server as a library, and a load generator that
// waits for acknowledgements. It has a go.mod of its own, so that none of it is a
// dependency of the broker.
//
//	jetstream serve -name n1 -port P -cluster P -routes nats://..,.. -dir D -sync always|default
//	jetstream load -servers n1=nats://..,.. -stream S -conns 16 -batch 1 -bytes 200 -warm 1s -measure 3s
//
// load prints one JSON object.
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		err = serve(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "load":
		err = load(os.Args[2:])
	default:
		err = fmt.Errorf("want serve or load")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "jetstream:", err)
		os.Exit(1)
	}
}
