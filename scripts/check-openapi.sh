#!/usr/bin/env bash
# The OpenAPI document as others use it: linted, made into a Go client and
# TypeScript types that work, and turned into thousands of requests against a live
# broker. Tools are pinned and go into $HIGHWATER_TOOLS, a cache outside the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

REDOCLY=2.77.0
OPENAPI_TYPESCRIPT=7.13.0
TYPESCRIPT=5.9.3
OAPI_CODEGEN=v2.8.2
SCHEMATHESIS=4.32.5
SEED=1
EXAMPLES=${EXAMPLES:-20} # generated requests of each operation and phase

tools=${HIGHWATER_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/highwater-tools}/openapi
mkdir -p "$tools"
work=$(mktemp -d)
broker=
stop() {
	if [ -n "$broker" ]; then
		kill "$broker" 2>/dev/null || true
		wait "$broker" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap stop EXIT

pass() { printf 'PASS check-openapi: %s\n' "$*"; }

# install_once NAME COMMAND...: runs COMMAND unless it has succeeded before.
install_once() {
	local stamp="$tools/$1"
	shift
	[ -e "$stamp" ] && return
	"$@"
	touch "$stamp"
}

install_node() {
	npm install --prefix "$tools/node" --ignore-scripts --no-audit --no-fund --silent \
		"@redocly/cli@$REDOCLY" "openapi-typescript@$OPENAPI_TYPESCRIPT" "typescript@$TYPESCRIPT"
}

install_python() {
	python3 -m venv "$tools/python-$SCHEMATHESIS"
	"$tools/python-$SCHEMATHESIS/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$SCHEMATHESIS"
}

install_once "node-$REDOCLY-$OPENAPI_TYPESCRIPT-$TYPESCRIPT" install_node
install_once "schemathesis-$SCHEMATHESIS" install_python
export GOBIN=$tools/bin
install_once "oapi-codegen-$OAPI_CODEGEN" go install "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@$OAPI_CODEGEN"
unset GOBIN

# --- a broker
go build -o "$work/highwater" ./server
"$work/highwater" --listen 127.0.0.1:0 --data-dir "$work/data" --log-format json 2>"$work/log" &
broker=$!
url=
for _ in $(seq 200); do
	url=$(sed -n 's/.*"url":"\([^"]*\)".*"message":"serving".*/\1/p' "$work/log")
	[ -n "$url" ] && break
	kill -0 "$broker" || { cat "$work/log"; exit 1; }
	sleep 0.1
done
[ -n "$url" ] || { echo "the broker did not start"; cat "$work/log"; exit 1; }

curl --fail --silent --show-error "$url/openapi.json" -o "$work/openapi.json"
cmp "$work/openapi.json" openapi/openapi.json
pass "the served document is the committed one"

# --- redocly
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$tools/node/node_modules/.bin/redocly" lint "$work/openapi.json" >"$work/redocly" 2>&1 || { cat "$work/redocly"; exit 1; }
pass "redocly lint reports no error"

# --- TypeScript
"$tools/node/node_modules/.bin/openapi-typescript" "$work/openapi.json" -o "$work/openapi.d.ts" >/dev/null
cp scripts/openapi/usage.ts "$work/"
"$tools/node/node_modules/.bin/tsc" --strict --noEmit --target es2022 "$work/usage.ts" "$work/openapi.d.ts"
pass "openapi-typescript's types compile with tsc --strict"

# --- Go client
cp -r scripts/openapi/client "$work/client"
"$tools/bin/oapi-codegen" -generate types,client -package main -o "$work/client/client.gen.go" "$work/openapi.json"
(cd "$work/client" && go vet . && go run . "$url")
pass "oapi-codegen's Go client produces and fetches"

# --- schemathesis
for topic in fixture changed; do
	curl --fail --silent --show-error -o /dev/null -X PUT "$url/topics/$topic" --json '{"partitions":2}'
done
curl --fail --silent --show-error -o /dev/null "$url/topics/fixture/partitions/0?acks=-1" --json '{"records":[{"key":"k","value":{"n":1}},{"value":"x"}]}'
curl --fail --silent --show-error -o /dev/null "$url/topics/fixture/partitions/1?acks=-1" --json '{"records":[{"value":null,"key":"k"}]}'
hooks=$PWD/scripts/openapi
# In $work, as it keeps a cache of failures where it stands, and would try those first.
(cd "$work" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$hooks SCHEMATHESIS_HOOKS=hooks "$tools/python-$SCHEMATHESIS/bin/schemathesis" \
	--config-file "$hooks/schemathesis.toml" run "$work/openapi.json" --url "$url" \
	--seed "$SEED" --max-examples "$EXAMPLES" --phases examples,coverage,fuzzing --continue-on-failure \
	--request-timeout 20 --suppress-health-check all --warnings off) >"$work/schemathesis" 2>&1 || { cat "$work/schemathesis"; exit 1; }
grep -E 'generated' "$work/schemathesis"
kill -0 "$broker"
curl --fail --silent --show-error -o /dev/null "$url/readyz"
if grep -q '"panic"' "$work/log"; then
	grep '"panic"' "$work/log"
	exit 1
fi
pass "schemathesis found no failure, and the broker lives"
