// Command server is the Highwater broker. This package decides who lives in the
// process, and who starts and stops whom: read run.go, then lifecycle.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes of the process.
const (
	exitOK     = 0
	exitFailed = 1 // the broker or the health check failed
	exitUsage  = 2 // flags, environment or file can't be used
)

// lastLines is how long the process stays for its last log lines.
const lastLines = time.Second

// main starts the broker.
//
//	@title					Highwater
//	@version				1
//	@description			Highwater keeps partitioned logs of records with Kafka's reliability model, and speaks HTTP. What the Kafka REST v2 dialect has for topics, partitions and produces works under its paths and with its field names; its consumers (`/consumers/…`), Avro, JSON Schema and Protobuf do not.
//	@description
//	@description			**Records.** In the native form (`application/json`) a key is a string and a value any JSON, stored as the very bytes that were sent: numbers keep their text. Bytes that are no JSON stand as `"value_encoding":"text"` or `"base64"`. What a fetch prints can be posted back. The dialect's media types (`application/vnd.kafka.json.v2+json`, `…binary…`, `…text…`) are taken and given as well. Request bodies may be `Content-Encoding: gzip` or `zstd`.
//	@description
//	@description			**Errors** have one body, `application/problem+json`, labelled with a dialect's media type when `Accept` names that. `fix` says what to do next; `outcome` says whether a write may have happened; the HTTP status is `error_code` divided by 100.
//	@description
//	@description			**Parameters** that a resource does not know are refused, so that a typo can not weaken a request. HEAD works wherever GET does; a path with a slash at its end is the same resource.
//	@license.name			Apache-2.0
//	@license.url			https://www.apache.org/licenses/LICENSE-2.0
//	@BasePath				/
//	@schemes				http
//	@tag.name				produce
//	@tag.description		Append records.
//	@tag.name				fetch
//	@tag.description		Read records: by offset or time, waiting, or as an endless tail.
//	@tag.name				consumers
//	@tag.description		Consumer groups: members share the partitions of topics, and commit how far they have come.
//	@tag.name				topics
//	@tag.description		Create, look at, change and delete topics.
//	@tag.name				cluster
//	@tag.description		The brokers and who leads the metadata.
//	@tag.name				operations
//	@tag.description		Health, readiness and metrics of this broker.
//	@tag.name				about
//	@tag.description		This document, the pages, and what the problem types mean.
func main() {
	os.Exit(realMain(os.Args[1:]))
}

func realMain(args []string) int {
	cfg, cmd, err := parseConfig(args, os.Stdout)
	switch {
	case errors.Is(err, errPrinted):
		return exitOK
	case err != nil:
		fmt.Fprintln(os.Stderr, "highwater:", err)
		return exitUsage
	}
	// Every SIGTERM and SIGINT is caught until the end: the first one drains, a
	// second one must not cut that short.
	signals, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if cmd == commandHealthcheck {
		if err := healthcheck(signals, cfg, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "highwater:", err)
			return exitFailed
		}
		return exitOK
	}
	signal.Ignore(syscall.SIGPIPE) // nobody may read the log any more; the broker serves on
	log := newLogger(cfg, os.Stderr)
	defer log.queue.close(lastLines)
	if len(cfg.unknownEnv) > 0 {
		log.Warn().Strs("names", cfg.unknownEnv).Msg("environment variables that are no setting are ignored; --help lists the settings")
	}
	for _, advice := range cfg.advice {
		log.Warn().Msg(advice)
	}
	syscall.Umask(0o027) // records are nobody else's, whatever the shell says
	tuneMemory(log.Logger)
	if err := run(signals, cfg, log); err != nil {
		log.Error().Err(err).Msg("highwater stopped")
		return exitFailed
	}
	return exitOK
}
