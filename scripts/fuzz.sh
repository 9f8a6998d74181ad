#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for the given time or number
# of executions ("2000x") each (default 1m). -parallel=1 keeps a two-core machine usable. A check
# gives a number: when time runs out in the middle of an execution, go test may report the
# deadline itself as a failure of the target (golang/go#48591).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-1m}
found=0
while read -r package; do
	dir=$(go list -f '{{.Dir}}' "$package")
	targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u || true)
	for target in $targets; do
		found=$((found + 1))
		echo "== $package $target for $time"
		go test "$package" -run '^$' -fuzz "^${target}\$" -fuzztime "$time" -parallel=1
	done
done < <(go list ./...)
echo "== $found fuzz targets ran"
[ "$found" -gt 0 ]
