#!/usr/bin/env bash
# What the demo makes in podman's store, written down so that exactly that is taken back. Read by its scripts, not run.

: "${place:?lib.sh comes first}"

list_store() {
	case $1 in
	image) podman image ls --format '{{.Repository}}:{{.Tag}}' | grep -v '<none>' || true ;;
	volume) podman volume ls --format '{{.Name}}' ;;
	esac | sort -u
}

note_before() { list_store "$1" >"$place/$1s.before"; }

# Add to the record what has come since `note_before`.
note_new() {
	list_store "$1" | comm -13 "$place/$1s.before" - >>"$place/$1s"
	rm -- "$place/$1s.before"
}

# Take back the demo's network with all that is on it: its sites, and the gate.
end_internet() {
	local gate
	podman network exists "$NETWORK" || return 0
	for gate in $(podman ps --all --filter "network=$NETWORK" --filter label=aisb.role=gate --format '{{.Names}}'); do
		podman rm --force --time 0 "$gate"
		rm -rf -- "${XDG_RUNTIME_DIR:?}/aisb/g/${gate#aisb-gate-}"
	done
	podman network rm --force --time 0 "$NETWORK"
}
