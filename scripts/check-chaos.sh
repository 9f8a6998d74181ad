#!/usr/bin/env bash
# The chaos run's own tests, and a short run: three brokers, a minute of faults.
# CHAOS_SECONDS and CHAOS_SEED make it longer or another one.
set -euo pipefail
cd "$(dirname "$0")/chaos"
go vet ./...
go test ./...
go run . -seed "${CHAOS_SEED:-1}" -duration "${CHAOS_SECONDS:-60}s"
