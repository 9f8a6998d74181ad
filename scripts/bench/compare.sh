#!/usr/bin/env bash
# Compares the Go benchmarks of this tree with another commit's: scripts/bench/compare.sh REF [bench regexp]
# The two take turns, COUNT times (default 6), so that both see the same machine.
set -euo pipefail
ref=${1:?usage: compare.sh REF [benchmark regexp]}
pattern=${2:-.}
count=${COUNT:-6}
benchtime=${BENCHTIME:-300ms}
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

cd "$(git rev-parse --show-toplevel)"
mkdir -p .cache
work=$(mktemp -d .cache/compare.XXXXXX)
trap 'git worktree remove --force "$work/ref" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/ref" "$ref"

measure() { # tree, output
	(cd "$1" && go test -run '^$' -bench "$pattern" -benchmem -benchtime "$benchtime" ./...) >>"$2"
}
for round in $(seq "$count"); do
	echo "round $round of $count" >&2
	measure "$work/ref" "$work/$(basename "$ref").txt"
	measure . "$work/here.txt"
done
go run "$benchstat" "$work/$(basename "$ref").txt" "$work/here.txt"
