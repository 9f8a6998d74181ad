#!/usr/bin/env bash
# CloudEvents as others send and read them: the Go SDK of the CloudEvents project
# against a real broker, in all modes.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/highwater" ./server
cd scripts/cloudevents
go vet .
go run . -broker "$work/highwater"
