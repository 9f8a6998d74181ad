// Command cloudevents speaks CloudEvents to a real broker as others do: with the Go
// SDK of the CloudEvents project, in all modes, each event there and back.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	binary := flag.String("broker", "", "the broker's binary")
	flag.Parse()
	if err := run(*binary); err != nil {
		fmt.Fprintln(os.Stderr, "cloudevents:", err)
		os.Exit(1)
	}
}

func run(binary string) (err error) {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := startBroker(ctx, binary)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := b.stop(); err == nil {
			err = stopped
		}
	}()
	for _, check := range []struct {
		what string
		do   func(context.Context, *broker) error
	}{
		{"binary mode: each event there and back", binaryMode},
		{"structured mode: each event there and back", structuredMode},
		{"batched mode: all events there and back", batchedMode},
		{"the client's own Send, in both modes", clientSends},
		{"one call of a consumer group reads events", consumed},
		{"a record that is no event is told of by one", standIn},
		{"an event that is sent again is a duplicate, in whichever mode", sentAgain},
	} {
		if err := check.do(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", check.what, err)
		}
		fmt.Println("PASS check-cloudevents:", check.what)
	}
	return nil
}
