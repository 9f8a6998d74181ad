#!/usr/bin/env bash
# At most once: fetch, commit, then process. Whatever dies, no record is processed
# twice; the batch that was committed and not yet processed is lost.
#
#   at-most-once.sh TOPIC GROUP MEMBER COMMAND [ARGUMENT..]
#
# COMMAND gets each batch on its standard input, one record (JSON) a line. MEMBER is
# this worker's own name: more workers under other names share the partitions.
set -uo pipefail
[ $# -ge 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
topic=$1 group=$2 member=$3
shift 3
read -ra brokers <<<"${BROKERS:-http://localhost:8080}" # any one answers; separated by spaces
count=${COUNT:-100}                                     # records a batch, at most
wait_ms=${WAIT_MS:-10000}                               # how long a fetch waits for records
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT

# ask METHOD PATH [CURL OPTION..] fails unless it is a success and its answer, in
# $dir/answer, is whole. The next request then goes to the next broker.
ask() {
	local method=$1 path=$2 status
	shift 2
	: >"$dir/answer"
	status=$(curl -sS --fail-with-body --connect-timeout 3 --max-time $((wait_ms / 1000 + 15)) \
		-o "$dir/answer" -w '%{http_code}' -X "$method" "$@" "${brokers[0]}$path") && return
	echo "$method $path: ${status:-000} $(head -c 2000 "$dir/answer" | grep -a '^{"type":')" >&2
	brokers=("${brokers[@]:1}" "${brokers[0]}")
	return 1
}

# begin starts a new life of this member, worker-1~2. Whatever an earlier one still
# has on its way is refused from then on. So nothing here is sent again when its
# answer is lost: the new life asks where the group stands.
begin() {
	until ask PUT "/consumers/$group/instances/$member"; do
		[ -z "$stop" ] || exit 1 # no broker answers: the group lets go of this member by itself
		sleep 1
	done
	me=$(sed -n 's/.*"instance_id":"\([^"]*\)".*/\1/p' "$dir/answer")
}

stop='' && trap 'stop=1' INT TERM # when the batch under way is done
# Ctrl-C kills sleep, curl and COMMAND, too: what goes on after a failure must not depend on them.
begin
while [ -z "$stop" ]; do
	ask GET "/consumers/$group/records?topics=$topic&member=$me&count=$count&timeout=$wait_ms" \
		-H 'Accept: application/x-ndjson' || { sleep 1; begin; continue; }
	[ -s "$dir/answer" ] || continue # nothing came in time
	mv "$dir/answer" "$dir/batch" || continue
	# 204 says that the group has gone past these records, on the disks. Without it they
	# are not to be processed: they come again, or not if only the answer is lost.
	ask POST "/consumers/$group/offsets?member=$me" || { sleep 1; begin; continue; }
	"$@" <"$dir/batch" || echo "the command failed: what it has not done of these records is lost" >&2
done
ask DELETE "/consumers/$group/instances/$me" # others get its partitions now, not after its session timeout
