#!/usr/bin/env bash
# Produces one record, once, whatever dies: the broker, the connection, this script.
#
#   produce.sh TOPIC ID [KEY] <value
#
# ID names the record: something that the same record has again when it is sent again, such as
# the number of an order; never one made up here. Exit code 0: stored, on the disks of all
# in-sync replicas, and once. 75: not known yet; run it again with the same ID, within the
# topic's dedupe.window.ms (1 h). 1: refused, and not stored; again won't help.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
topic=$1 id=$2
read -ra brokers <<<"${BROKERS:-http://localhost:8080}" # any one answers; separated by spaces
tries=${TRIES:-30}
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cat >"$dir/value" # each try sends the same bytes

# ask METHOD PATH [CURL OPTION..] sets $status and fails unless it is a success and its
# answer, in $dir/answer, is whole. The next request then goes to the next broker.
ask() {
	local method=$1 path=$2
	shift 2
	: >"$dir/answer"
	status=$(curl -sS --fail-with-body --connect-timeout 3 --max-time 45 \
		-o "$dir/answer" -w '%{http_code}' -X "$method" "$@" "${brokers[0]}$path") && return
	echo "$method $path: ${status:-000} $(head -c 2000 "$dir/answer" | grep -a '^{"type":')" >&2
	brokers=("${brokers[@]:1}" "${brokers[0]}")
	return 1
}

# encode makes a text fit for a URL, byte by byte.
encode() {
	local LC_ALL=C i c
	for ((i = 0; i < ${#1}; i++)); do
		c=${1:i:1}
		case $c in [a-zA-Z0-9._~-]) printf %s "$c" ;; *) printf '%%%02X' "'$c" ;; esac
	done
}

query="acks=-1${3+&key=$(encode "$3")}${PARTITION:+&partition=$PARTITION}"
for ((try = 1; try <= tries; try++)); do
	ask POST "/topics/$topic/records?$query" -H "Message-Id: $id" --data-binary @"$dir/value" && exit 0
	case ${status:-000} in 000 | 2?? | 408 | 429 | 5??) ;; *) exit 1 ;; esac
	if ! grep -q '"outcome":"not_written"' "$dir/answer"; then
		# It may be there. Sent again with its id it isn't stored twice, as long as it goes
		# to the same partition: the one that the answer names, if there is an answer.
		pin=$(sed -n 's/.*"partition":\([0-9]\{1,\}\).*/\1/p' "$dir/answer")
		if [ -n "$pin" ]; then
			query="${query%%&partition=*}&partition=$pin"
		else # and without one: did it arrive? 404 says that no partition has it.
			ask GET "/topics/$topic/messages/$(encode "$id")" && exit 0
			[ "$status" = 404 ] || { sleep 1 && continue; }
		fi
	fi
	sleep 1
done
exit 75
