#!/usr/bin/env bash
# The distribution's packages that the demo needs. Read by the demo's scripts, not run.

# podman's own network wants nft or iptables, by its age; mmdebstrap makes the base where no registry can be reached.
PACKAGES=(podman uidmap crun netavark aardvark-dns skopeo nftables iptables mmdebstrap
	debian-archive-keyring ca-certificates python3 python3-venv util-linux)
# What tells that they are there, where there is no dpkg.
readonly PROGRAMS=(podman newuidmap skopeo python3 unshare setpriv)

missing=()
: "${log:?lib.sh comes first}"

# The way out for builds and for the gate: podman 5 wants pasta, older ones take slirp4netns.
network_packages() {
	local version
	if ! has podman; then
		echo slirp4netns passt
		return
	fi
	version=$(podman --version)
	version=${version##* }
	if [ "${version%%.*}" -ge 5 ]; then echo passt; else echo slirp4netns; fi
}

find_missing() {
	local name present wanted
	missing=()
	if has dpkg-query; then
		read -ra wanted <<<"${PACKAGES[*]} $(network_packages)"
		present=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
		for name in "${wanted[@]}"; do
			grep -qx "$name installed" <<<"$present" || missing+=("$name")
		done
	else
		for name in "${PROGRAMS[@]}"; do
			PATH=$PATH:/usr/sbin:/sbin has "$name" || missing+=("$name")
		done
	fi
}

# Install what is missing; the arguments come before apt-get (sudo, or nothing).
install_missing() {
	local apt=("$@" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
	local folder
	folder=$(dirname -- "$log")
	mkdir -p -- "$folder"
	: >"$log"
	printf '%s\n' "${missing[@]}" >>"$folder/packages"
	say "packages: missing are ${missing[*]}"
	step 'packages: reading what there is (apt-get update)' "${apt[@]}" update
	step 'packages: installing what is missing (apt-get install)' "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
}

# All packages, or exit with the one command that installs them.
need_packages() {
	find_missing
	if [ ${#missing[@]} -eq 0 ]; then
		say 'packages: all there'
		return
	fi
	if ! has apt-get; then
		die "$UNAVAILABLE" "install these with your package manager: ${missing[*]}"
	fi
	if [ "$(id -u)" -eq 0 ]; then
		install_missing
	elif [ -n "${DEPS:-}" ] && [ "$DEPS" != 0 ]; then
		has sudo || die "$UNAVAILABLE" "sudo was not found; as root: apt-get install ${missing[*]}"
		# Asks for the password before a step hides it.
		sudo --validate || die "$UNAVAILABLE" 'sudo did not let the demo install packages'
		install_missing sudo
	else
		die "$UNAVAILABLE" 'some packages are missing; this installs them:' '' \
			"  sudo apt-get install --no-install-recommends ${missing[*]}" '' \
			'or let the demo do it by sudo: make demo DEPS=1'
	fi
}
