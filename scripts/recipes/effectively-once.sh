#!/usr/bin/env bash
# Effectively once: fetch, process, produce the results, then commit. Records may be
# processed again, but whatever dies, the effect of each is in the store once, and its
# result in the other topic once.
#
#   effectively-once.sh TOPIC RESULTS-TOPIC GROUP MEMBER STORE COMMAND [ARGUMENT..]
#
# COMMAND gets one record (JSON) on its standard input and prints its result, an object such as
# {"key":"k","value":1}, or nothing if there is none. STORE is a directory in which a result is put under the record's
# id; any store that can do that ("put if there is none") serves as well. RESULTS-TOPIC has at
# least as many partitions as TOPIC. MEMBER is this worker's own name: more workers under
# other names share the partitions, and the store.
set -uo pipefail
[ $# -ge 6 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
topic=$1 results=$2 group=$3 member=$4 store=$5
shift 5
[ -d "$store" ] || { echo "STORE: there is no directory $store" >&2 && exit 2; }
read -ra brokers <<<"${BROKERS:-http://localhost:8080}" # any one answers; separated by spaces
count=${COUNT:-100}                                     # records a batch, at most
wait_ms=${WAIT_MS:-10000}                               # how long a fetch waits for records
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
place='^\{"topic":"([^"]+)","partition":([0-9]+),"offset":([0-9]+),' # so every record begins

# ask METHOD PATH [CURL OPTION..] sets $status and fails unless all of it succeeded (207:
# some of it did not) and the answer, in $dir/answer, is whole. The next request then
# goes to the next broker.
ask() {
	local method=$1 path=$2
	shift 2
	: >"$dir/answer"
	status=$(curl -sS --fail-with-body --connect-timeout 3 --max-time $((wait_ms / 1000 + 45)) \
		-o "$dir/answer" -w '%{http_code}' -X "$method" "$@" "${brokers[0]}$path") && [ "$status" != 207 ] && return
	echo "$method $path: ${status:-000} $(head -c 2000 "$dir/answer" | grep -a '^{"type":')" >&2
	brokers=("${brokers[@]:1}" "${brokers[0]}")
	return 1
}

# begin starts a new life of this member, worker-1~2. Whatever an earlier one still
# has on its way is refused from then on.
begin() {
	until ask PUT "/consumers/$group/instances/$member"; do
		[ -z "$stop" ] || exit 1 # no broker answers: the group lets go of this member by itself
		sleep 1
	done
	me=$(sed -n 's/.*"instance_id":"\([^"]*\)".*/\1/p' "$dir/answer")
}

# process COMMAND.. has the effect of each record of the batch in the store, and
# prints the results. Each has an id that follows from the record's place, and goes to the
# partition of the same number: who does it again sends the same to the same place.
process() {
	local record partition id new result
	while IFS= read -r record; do
		[[ $record =~ $place ]] || return
		partition=${BASH_REMATCH[2]} id=${BASH_REMATCH[1]}-$partition-${BASH_REMATCH[3]}
		if [ ! -e "$store/$id" ]; then
			new=$(mktemp "$store/.XXXXXXXX") && "$@" <<<"$record" >"$new" && sync "$new" || return
			ln "$new" "$store/$id" 2>/dev/null # fails if another was first: what is there stands
			rm "$new"
		fi
		result=$(<"$store/$id") || return
		[ -z "$result" ] || printf '{"id":"%s","partition":%s,%s\n' "$id" "$partition" "${result#*\{}"
	done <"$dir/batch"
	sync "$store"
}

# produce sends the results until they are stored. Those of an earlier try are answered with
# "duplicate":true and not stored again.
produce() {
	until ask POST "/topics/$results?acks=-1" -H 'Content-Type: application/x-ndjson' --data-binary @"$dir/results"; do
		case ${status:-000} in 000 | 2?? | 408 | 429 | 5??) sleep 1 ;; *) exit 1 ;; esac
	done
}

stop='' && trap 'stop=1' INT TERM # when the batch under way is done
# Ctrl-C kills sleep, curl and COMMAND, too: what goes on after a failure must not depend on them.
begin
# The ids in the store are places in this topic: those of another one of its name are the same.
until ask GET "/topics/$topic"; do
	[ -z "$stop" ] || exit 1
	sleep 1
done
new=$(mktemp "$store/.XXXXXXXX") && sed -n 's/.*"topic_id":"\([^"]*\)".*/\1/p' "$dir/answer" >"$new" || exit 2
ln "$new" "$store/.topic" 2>/dev/null
cmp -s "$new" "$store/.topic" || { echo "STORE: what is in $store is of another topic than $topic is now" >&2 && rm "$new" && exit 2; }
rm "$new"
while [ -z "$stop" ]; do
	ask GET "/consumers/$group/records?topics=$topic&member=$me&count=$count&timeout=$wait_ms" \
		-H 'Accept: application/x-ndjson' || { sleep 1; begin; continue; }
	[ -s "$dir/answer" ] || continue # nothing came in time
	mv "$dir/answer" "$dir/batch" || continue
	process "$@" >"$dir/results" || { echo "the command failed: these records come again" >&2; sleep 1; continue; }
	[ ! -s "$dir/results" ] || produce
	ask POST "/consumers/$group/offsets?member=$me" || { sleep 1; begin; }
done
ask DELETE "/consumers/$group/instances/$me" # others get its partitions now, not after its session timeout
