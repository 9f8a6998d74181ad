#!/usr/bin/env bash
# A cluster of real brokers on this machine, for trying things out.
# Run it without arguments for the list of commands.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${HIGHWATER_CLUSTER_DIR:-$root/cluster-data}
first_port=${HIGHWATER_CLUSTER_PORT:-8081}
given=${HIGHWATER_BIN:-}
# To a broker such variables are settings that it doesn't know.
unset HIGHWATER_CLUSTER_DIR HIGHWATER_CLUSTER_PORT HIGHWATER_BIN
me=${BASH_SOURCE[0]}
patience=60 # seconds to wait for a broker to serve, or to end

usage() {
	cat <<END
A Highwater cluster on this machine.

  ${BASH_SOURCE[0]} [-d DIR] [-p PORT] COMMAND

  up [N] [FLAG..]  start N brokers (3) and wait until they serve; what runs
                   already is left alone, what died is started again. FLAGs
                   such as --min-insync-replicas=2 go to every broker that
                   is started from then on, until up is given others
  status           which broker runs, which one leads the metadata
  kill N           kill -9 broker N
  stop N           freeze broker N (SIGSTOP): alive, and silent
  cont N           let it go on (SIGCONT)
  restart N        end broker N in order (SIGTERM) if it runs, and start it
  replace N        throw the data of broker N away, which must be dead, and
                   start it anew in its old place (--join)
  logs N [-f]      the end of broker N's log; -f follows it
  down             end all brokers in order; the data stays

  -d DIR           where data, logs and pids are (default: HIGHWATER_CLUSTER_DIR,
                   else cluster-data in the source tree)
  -p PORT          broker N listens on PORT+N-1 (default: HIGHWATER_CLUSTER_PORT,
                   else 8081)

The program is built from the source tree, or is the one that HIGHWATER_BIN names.
END
}

say() { printf '%s\n' "$*"; }
die() {
	printf 'cluster.sh: %s\n' "$*" >&2
	exit 1
}

# What a cluster is made of stays the same over its life, and so is kept with it.
remember() { printf '%s\n' "$2" >"$dir/$1"; }
recall() { if [ -f "$dir/$1" ]; then cat "$dir/$1"; else printf '%s\n' "$2"; fi; }

url() { printf 'http://127.0.0.1:%d' $((first_port + $1 - 1)); }
data() { printf '%s/node-%d' "$dir" "$1"; }
log_of() { printf '%s/node-%d.log' "$dir" "$1"; }
pid_of() { recall "node-$1.pid" ''; }

# runs tells whether broker N is there: a process of that number that works on our
# data directory. Numbers are used again by others, and those are left alone.
runs() {
	local pid words
	pid=$(pid_of "$1")
	[ -n "$pid" ] || return 1
	if [ -d /proc/self ]; then
		words=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
	else
		words=$(ps -p "$pid" -o args= 2>/dev/null) || return 1
	fi
	[[ $words == *"--data-dir=$(data "$1") "* ]]
}

frozen() {
	local state
	if [ -d /proc/self ]; then
		state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$(pid_of "$1")/status" 2>/dev/null) || true
	else
		state=$(ps -p "$(pid_of "$1")" -o state= 2>/dev/null | cut -c1) || true
	fi
	[ "$state" = T ]
}

# taken tells whether a process listens on broker N's port.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$((first_port + $1 - 1))") 2>/dev/null; }

# free_port refuses a port that somebody else has: that one would answer for broker N.
free_port() {
	local port=$((first_port + $1 - 1)) other=''
	taken "$1" || return 0
	[ -f "$dir/cluster" ] || other="; or choose other ports: $me -p PORT up"
	die "broker $1 can't have port $port: another process listens there (ss -ltnp and lsof -i tell which). Stop it$other"
}

ready() { curl -fs -m 2 -o /dev/null "$(url "$1")/readyz"; }

build() {
	if [ -n "$given" ]; then
		[ -x "$given" ] || die "HIGHWATER_BIN: $given is no program"
		binary=$(cd "$(dirname "$given")" && pwd)/$(basename "$given")
		return
	fi
	command -v go >/dev/null || die "there is no go here to build the broker with: install Go 1.26 or later, or name a built program by HIGHWATER_BIN"
	binary=$dir/highwater
	(cd "$root" && go build -o "$binary" ./server) || die "the broker can't be built"
}

# helper is a running voter other than broker N.
helper() {
	local i
	for ((i = 1; i <= $(recall voters 1); i++)); do
		if [ "$i" != "$1" ] && runs "$i" && ! frozen "$i"; then printf '%s' "$i" && return; fi
	done
	die "no other voter runs, at which broker $1 could join; start one: $me restart 1"
}

# launch starts broker N. Voters have the list of voters; a further broker, and one
# that takes its own place anew, joins at another one.
launch() {
	local n=$1 flags=() extra=() line at
	free_port "$n"
	flags=(--node-id="$n" --listen="127.0.0.1:$((first_port + n - 1))" --data-dir="$(data "$n")")
	if [ "$n" -le "$(recall voters 1)" ] && [ "${2:-}" != join ]; then
		flags+=(--cluster="$(recall cluster "1=$(url 1)")")
	else
		at=$(helper "$n")
		flags+=(--join="$(url "$at")")
	fi
	if [ -s "$dir/flags" ]; then
		while IFS= read -r line; do extra+=("$line"); done <"$dir/flags"
	fi
	# A process group of its own: Ctrl-C here isn't meant for it.
	set -m
	nohup "$binary" "${flags[@]}" ${extra[@]+"${extra[@]}"} </dev/null >>"$(log_of "$n")" 2>&1 &
	remember "node-$n.pid" "$!"
	disown
	set +m
}

# await waits until broker N serves. Given further brokers, it sees to it that those
# run: while a cluster is founded, the one that has ended is why N doesn't serve.
await() {
	local n=$1 i until=$((SECONDS + patience))
	while ! ready "$n"; do
		for i in "$@"; do
			if runs "$i"; then continue; fi
			tail -n 5 "$(log_of "$i")" >&2
			if [ -s "$dir/flags" ]; then say "cluster.sh: up was given these flags: $(tr '\n' ' ' <"$dir/flags")(up with others replaces them, rm '$dir/flags' drops them)" >&2; fi
			die "broker $i has ended; the lines above say why (all of them: $me logs $i)"
		done
		[ $SECONDS -lt $until ] || die "broker $n doesn't serve after $patience s: $(why "$n"); see: $me logs $n"
		sleep 0.1
	done
}

# why is the reason that a broker gives for not being ready.
why() {
	local answer
	answer=$(curl -s -m 2 "$(url "$1")/readyz") || { printf 'no answer' && return; }
	printf '%s' "$answer" | sed -n 's/.*"detail":"\([^"]*\)".*/\1/p'
}

# end waits until broker N is gone.
end() {
	local until=$((SECONDS + patience))
	while runs "$1"; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.1
	done
	rm -f "$dir/node-$1.pid"
}

up() {
	local count='' n voters list=''
	case "${1:-}" in '' | -*) ;; *) count=$1 && shift ;; esac
	command -v curl >/dev/null || die "curl is needed to see whether the brokers serve"
	count=${count:-$(recall count 3)}
	[[ $count =~ ^[1-9][0-9]?$ ]] || die "up $count: want a number of brokers from 1 to 99"
	if [ ! -f "$dir/cluster" ]; then
		# An odd number of voters, five at most; further brokers join.
		voters=$((count > 5 ? 5 : count))
		voters=$((voters % 2 ? voters : voters - 1))
		for ((n = 1; n <= count; n++)); do free_port "$n"; done
		mkdir -p "$dir"
		for ((n = 1; n <= voters; n++)); do list+=${list:+,}$n=$(url "$n"); done
		remember port "$first_port"
		remember voters "$voters"
		remember cluster "$list"
	fi
	[ "$count" -ge "$(recall count 1)" ] || count=$(recall count 1)
	remember count "$count"
	if [ $# -gt 0 ]; then printf '%s\n' "$@" >"$dir/flags"; fi
	build
	for ((n = 1; n <= count; n++)); do
		if runs "$n"; then
			if [ $# -gt 0 ]; then say "broker $n runs already and has the new flags after: $me restart $n"; fi
			continue
		fi
		# Those that join need a cluster that stands.
		if [ "$n" -gt "$(recall voters 1)" ]; then await 1; fi
		launch "$n"
	done
	for ((n = 1; n <= count; n++)); do
		if frozen "$n"; then say "broker $n is frozen (let it go on: $me cont $n)" && continue; fi
		await "$n" $(seq 1 "$count")
		say "broker $n serves on $(url "$n")"
	done
	next_steps "$count"
}

next_steps() {
	cat <<END

Now try, for instance:
  curl -s -X PUT $(url 1)/topics/orders --json '{"partitions":3}'
  curl -s -d 'hello' '$(url "$1")/topics/orders/records?acks=-1'
  curl -s $(url 1)/topics/orders/partitions/0      # who leads, who is in sync
  $me kill 1                     # and produce through another broker
  $me status
The console is at $(url 1)/console/
END
}

status() {
	local n count state leader=''
	count=$(recall count 0)
	[ "$count" -gt 0 ] || die "$none"
	for ((n = 1; n <= count; n++)); do
		if ! runs "$n"; then
			state="not running (start it: $me restart $n)"
		elif frozen "$n"; then
			state="frozen (let it go on: $me cont $n)"
		elif ready "$n"; then
			state=ready
			leader=${leader:-$(curl -s -m 2 "$(url "$n")/cluster" | sed -n 's/.*"controller":{"leader":\(-\{0,1\}[0-9]*\).*/\1/p')}
		else
			state="not ready: $(why "$n")"
		fi
		printf '%-3d %-22s pid %-8s %s\n' "$n" "$(url "$n")" "$(pid_of "$n")" "$state"
	done
	case "$leader" in
	'') say "no broker is ready" ;;
	-1) say "the metadata has no leader right now" ;;
	*) say "broker $leader leads the metadata" ;;
	esac
}

# number checks N of a command.
number() {
	local count
	count=$(recall count 0)
	[ "$count" -gt 0 ] || die "$none"
	if [[ ${1:-} =~ ^[1-9][0-9]?$ ]] && [ "$1" -le "$count" ]; then return; fi
	die "want the number of a broker, 1 to $count (one more: $me up $((count + 1)))"
}

signal() {
	number "${2:-}"
	runs "$2" || die "broker $2 isn't running; start it: $me restart $2"
	kill "-$1" "$(pid_of "$2")"
}

restart() {
	number "${1:-}"
	build
	if runs "$1"; then
		kill -CONT "$(pid_of "$1")"
		kill -TERM "$(pid_of "$1")"
		end "$1" || die "broker $1 doesn't end; see: $me logs $1"
	fi
	launch "$1"
	await "$1"
	say "broker $1 serves on $(url "$1")"
}

replace() {
	number "${1:-}"
	if runs "$1"; then die "broker $1 runs; end it first: $me kill $1"; fi
	build
	helper "$1" >/dev/null
	rm -rf "$(data "$1")"
	launch "$1" join
	await "$1"
	say "broker $1 serves on $(url "$1") and fetches what it lacks from the others"
}

down() {
	local n count
	count=$(recall count 0)
	if [ "$count" = 0 ]; then say "$none" && return; fi
	# Brokers that are frozen first: they take part in the farewell of the others.
	for ((n = 1; n <= count; n++)); do if runs "$n"; then kill -CONT "$(pid_of "$n")"; fi; done
	for ((n = 1; n <= count; n++)); do if runs "$n"; then kill -TERM "$(pid_of "$n")"; fi; done
	for ((n = 1; n <= count; n++)); do
		if ! end "$n"; then
			say "broker $n did not end; killing it"
			kill -KILL "$(pid_of "$n")"
			end "$n" || die "broker $n can't be killed"
		fi
	done
	say "all brokers have ended. Start them again: $me up. Throw their data away: rm -r $dir"
}

port_given=''
while getopts d:p:h option; do
	case $option in
	d)
		me+=" -d $(printf %q "$OPTARG")" # the commands that we propose are for this cluster
		case $OPTARG in /*) dir=$OPTARG ;; *) dir=$PWD/$OPTARG ;; esac
		;;
	p) first_port=$OPTARG port_given=yes ;;
	h) usage && exit 0 ;;
	*) usage >&2 && exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[[ $first_port =~ ^[1-9][0-9]{0,4}$ ]] || die "-p $first_port: want a port"
if [ -n "$port_given" ] && [ "$first_port" != "$(recall port "$first_port")" ]; then
	die "-p $first_port: the cluster in $dir has the ports from $(recall port '') on; a second cluster needs a directory of its own: -d DIR"
fi
first_port=$(recall port "$first_port")
none="there is no cluster in $dir; start one: $me up"
command=${1:-}
shift || true
case $command in
up) up "$@" ;;
down) down ;;
status) status ;;
kill) signal KILL "${1:-}" && end "$1" && say "broker $1 is dead. Start it again: $me restart $1" ;;
stop) signal STOP "${1:-}" && say "broker $1 is frozen. Let it go on: $me cont $1" ;;
cont) signal CONT "${1:-}" && say "broker $1 goes on" ;;
restart) restart "$@" ;;
replace) replace "$@" ;;
logs)
	number "${1:-}"
	tail -n 40 ${2:+"$2"} "$(log_of "$1")"
	;;
'' | help | -h | --help) usage ;;
*) usage >&2 && exit 2 ;;
esac
