#!/usr/bin/env bash
# The bench runs from end to end, at small sizes. It asserts no time.
set -euo pipefail
cd "$(dirname "$0")/.."
make --silent bench-quick
