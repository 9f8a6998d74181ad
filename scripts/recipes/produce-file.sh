#!/usr/bin/env bash
# Produces the lines of a file, each once, whatever dies: run it again, and it goes on.
#
#   produce-file.sh TOPIC FILE
#
# FILE has a record a line, {"key":"k","value":1}, without ids: they are made of the file's
# name (or NAME) and the number of the line. So a line that is there must stay as it is; more
# may be added. FILE.sent says how many lines are stored, and in which topic (its topic_id).
# Exit code 0: all of them, but a last one without a newline, which may not be whole yet: a message
# says so. 75: not yet, run it again within the topic's dedupe.window.ms (1 h). 1: refused.
set -uo pipefail
[ $# -eq 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
topic=$1 file=$2
[ -r "$file" ] || { echo "FILE: $file can't be read" >&2 && exit 2; }
name=${NAME:-$(basename "$file")}
name=${name//\\/\\\\} name=${name//\"/\\\"} # as it stands in JSON
read -ra brokers <<<"${BROKERS:-http://localhost:8080}" # any one answers; separated by spaces
count=${COUNT:-1000}                                    # lines a request
tries=${TRIES:-30}                                      # of each request
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT

# ask METHOD PATH [CURL OPTION..] sets $status and fails unless all of it succeeded (207:
# some of it did not) and the answer, in $dir/answer, is whole. The next request then
# goes to the next broker.
ask() {
	local method=$1 path=$2
	shift 2
	: >"$dir/answer"
	status=$(curl -sS --fail-with-body --connect-timeout 3 --max-time 45 \
		-o "$dir/answer" -w '%{http_code}' -X "$method" "$@" "${brokers[0]}$path") && [ "$status" != 207 ] && return
	echo "$method $path: ${status:-000} $(head -c 2000 "$dir/answer" | grep -a '^{"type":')" >&2
	brokers=("${brokers[@]:1}" "${brokers[0]}")
	return 1
}

# again asks until it is done.
again() {
	local try=1
	until ask "$@"; do
		case ${status:-000} in 000 | 2?? | 408 | 429 | 5??) ;; *) exit 1 ;; esac
		[ $((try++)) -lt "$tries" ] || exit 75
		sleep 1
	done
}

again GET "/topics/$topic"
id=$(sed -n 's/.*"topic_id":"\([^"]*\)".*/\1/p' "$dir/answer")
sent=0 of=$id end='' rest=''
[ ! -e "$file.sent" ] || read -r sent of <"$file.sent"
[ "$of" = "$id" ] || { echo "$file.sent is of another topic than $topic is now: remove it, and all lines are sent" >&2 && exit 1; }
exec 3<"$file"
for ((n = 0; n < sent; n++)); do IFS= read -r <&3; done

# next gives the lines that come now, each with the id NAME:LINE. How many are sent together may be
# another number after a crash, as the file may have grown: the id of a line stays what it is.
next() {
	local n line comma
	for ((n = 1; n <= count; n++)); do
		IFS= read -r line <&3 || { end=1 rest=$line && break; } # a line without its end is not there yet
		comma=,
		[[ $line =~ ^[[:space:]]*\{[[:space:]]*\} ]] && comma=''
		[[ $line =~ ^[[:space:]]*\{ ]] && line="{\"id\":\"$name:$((sent + n))\"$comma${line#*\{}"
		printf '%s\n' "$line" || return
	done
}
while [ -z "$end" ]; do
	next >"$dir/lines" || exit 75
	[ -s "$dir/lines" ] || break
	again POST "/topics/$topic${PARTITION:+/partitions/$PARTITION}?acks=-1" \
		-H 'Content-Type: application/x-ndjson' --data-binary @"$dir/lines"
	sent=$((sent + $(wc -l <"$dir/lines")))
	echo "$sent $id" >"$file.sent.new" && mv "$file.sent.new" "$file.sent" || exit 75
done
[ -z "$rest" ] || echo "$file: its last line has no newline yet, and isn't sent" >&2
