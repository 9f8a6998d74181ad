#!/usr/bin/env bash
# The console and the API docs page in a real browser (headless Chromium, from
# $CHROMIUM or the PATH): see scripts/browser. SCREENSHOTS=DIR keeps pictures.
set -euo pipefail
cd "$(dirname "$0")/browser"
go vet ./...
go test -count=1 -timeout 10m ./...
echo "PASS check-browser: console and docs page"
