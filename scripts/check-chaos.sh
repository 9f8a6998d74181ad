#!/usr/bin/env bash
# The chaos run's own tests, and two short runs of three brokers: a minute of faults
# of all kinds, and half a minute in which every request is sent again while leaders
# die. CHAOS_SECONDS and CHAOS_SEED make the first longer or another one,
# CHAOS_RETRIES_SECONDS the second longer.
set -euo pipefail
cd "$(dirname "$0")/chaos"
go vet ./...
go test ./...
go run . -seed "${CHAOS_SEED:-1}" -duration "${CHAOS_SECONDS:-60}s"
make --silent -C ../.. chaos-retries SEED="${CHAOS_SEED:-1}" SECONDS="${CHAOS_RETRIES_SECONDS:-30}"
