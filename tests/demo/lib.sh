#!/usr/bin/env bash
# What the demo's scripts share: names, and how they speak. Read by them, not run.
# shellcheck disable=SC2034

readonly UNAVAILABLE=69

# The account that root's demo uses, where its files are, and what root has written down about it.
readonly ACCOUNT=aisb-demo
readonly RECORD=/var/lib/aisb-demo

# What the demo makes in podman's store besides images and volumes. Addresses of TEST-NET-2 belong to nobody.
readonly NETWORK=aisb-demo SUBNET=198.51.100.0/24

# All files of the demo, in the home of the user who runs it.
place=${AISB_DEMO_PLACE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/aisb-demo}
# Where the output of long steps goes.
log=$place/log
readonly STARTED=${AISB_DEMO_STARTED:-$(date +%s)}

say() { printf 'demo: %s\n' "$*"; }

complain() { printf 'demo: %s\n' "$@" >&2; }

die() {
	complain "${@:2}"
	exit "$1"
}

has() { command -v "$1" >/dev/null; }

# --- long steps -----------------------------------------------------------------------------------

ticker=''

# Show that the step TEXT goes on: on a terminal its seconds, elsewhere a line every ten seconds.
tick() {
	local started=$SECONDS
	# A pipe that nobody writes to: waiting for it leaves no `sleep` behind.
	exec {never}<> <(:)
	while true; do
		if [ -t 1 ]; then
			printf '\r\033[Kdemo: %.60s ... %d s' "$1" $((SECONDS - started))
			read -rt 1 -u "$never" || true
		else
			read -rt 10 -u "$never" || true
			say "$1: still at it after $((SECONDS - started)) s"
		fi
	done
}

stop_ticking() {
	if [ -n "$ticker" ]; then
		kill "$ticker" 2>/dev/null || true
		wait "$ticker" 2>/dev/null || true
		if [ -t 1 ]; then printf '\r\033[K'; fi
	fi
	ticker=''
}

# Run a command, its output to the log, and say for how long. Where it fails, show the log's end and stop.
step() {
	local text=$1 began=$SECONDS status=0 lines
	shift
	lines=$(wc -l <"$log")
	tick "$text" &
	ticker=$!
	printf '$ %s\n' "$*" >>"$log"
	"$@" </dev/null >>"$log" 2>&1 || status=$?
	stop_ticking
	if [ $status -ne 0 ]; then
		tail -n "+$((lines + 1))" "$log" | tail -n 20 >&2
		die $UNAVAILABLE "$text: failed after $((SECONDS - began)) s; the whole log: $log"
	fi
	say "$text: $((SECONDS - began)) s"
}
