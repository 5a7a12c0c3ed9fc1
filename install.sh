#!/usr/bin/env bash
# Install aisb for the user who runs this, from the checkout that this script lies in.
#
#   ~/.local/share/ai-sandbox/venvs/NAME   a virtual environment (XDG_DATA_HOME is respected)
#   ~/.local/share/ai-sandbox/venv         a link to the one in use: an upgrade is one rename
#   ~/.local/share/ai-sandbox/manifest     what was made, with the hash of each file
#   ~/.local/bin/aisb, ai-sandbox          the command
#
# --uninstall takes back what the manifest lists, as far as it is unchanged, and nothing else.
set -euo pipefail
shopt -s inherit_errexit
unset CDPATH PYTHONPATH PYTHONHOME
# What is installed here confines an agent: nobody else may write to it, whatever the umask says.
umask g-w,o-w

readonly USAGE=2 UNAVAILABLE=69
readonly OLDEST_PYTHON='3, 11' OLDEST_PODMAN=4.3 PASTA_SINCE=4.4
readonly BLOCK_BEGIN='# >>> alias written by the install.sh of aisb >>>'
readonly BLOCK_END='# <<< alias written by the install.sh of aisb <<<'

usage() {
	cat <<-'END'
		usage: ./install.sh [--alias NAME] [--deps]     install or upgrade aisb, for this user
		       ./install.sh --uninstall                 take back what was installed
		       ./install.sh --deps                      as root: install the packages alone

		  --alias NAME   make NAME mean `aisb run`, in the start file of your shell (bash, zsh, fish)
		  --deps         install missing packages (apt, by sudo); elsewhere they are listed
		  --uninstall    remove the command, its libraries and the alias; volumes and images stay
		  -h, --help     this text

		Needed: Python 3.11 with venv, podman 4.3, newuidmap, and pasta or slirp4netns.
		Exit codes: 0 done; 2 usage; 69 something is missing.
	END
}

say() { printf '%s\n' "$*"; }

complain() { printf 'install.sh: %s\n' "$@" >&2; }

die() {
	complain "${@:2}"
	exit "$1"
}

# --- the command line -----------------------------------------------------------------------------

alias_name='' deps='' uninstall=''

read_arguments() {
	while [ $# -gt 0 ]; do
		case $1 in
		--alias)
			[ $# -ge 2 ] || die $USAGE '--alias needs a name'
			need_alias_name "$2"
			shift
			;;
		--alias=*) need_alias_name "${1#*=}" ;;
		--deps) deps=1 ;;
		--uninstall) uninstall=1 ;;
		-h | --help)
			usage
			exit 0
			;;
		*) die $USAGE "$1 is not known here" 'see: ./install.sh --help' ;;
		esac
		shift
	done
	if [ -n "$uninstall" ] && [ -n "$alias_name$deps" ]; then
		die $USAGE '--uninstall stands alone'
	fi
}

need_alias_name() {
	local hint='write a short name of your own: --alias sandboxed'
	[[ $1 =~ ^[A-Za-z_][A-Za-z0-9_-]{0,31}$ ]] || die $USAGE "--alias '$1' is not a name" "$hint"
	case $1 in
	aisb | ai-sandbox) die $USAGE "--alias $1 would hide the other verbs of aisb" "$hint" ;;
	and | begin | end | foreach | not | or | repeat | switch) die $USAGE "--alias $1 is a word of the shell" "$hint" ;;
	esac
	# Not by a pipe: grep ends with the first line that matches, and what still writes fails then.
	if grep -Fqx -- "$1" <<<"$(compgen -kb)"; then
		die $USAGE "--alias $1 is a word of the shell" "$hint"
	fi
	alias_name=$1
}

# --- what has to be there -------------------------------------------------------------------------

python='' needs=() reasons=()

need() {
	needs+=("$1")
	reasons+=("$2")
}

# Whether all is there; if not, `needs` names what is missing and `reasons` says it in sentences.
look_around() {
	needs=() reasons=()
	find_python
	find_podman
	if ! command -v newuidmap >/dev/null || ! command -v newgidmap >/dev/null; then
		need uidmap 'newuidmap and newgidmap were not found'
	fi
	[ ${#needs[@]} -eq 0 ]
}

find_python() {
	local name without_venv=''
	for name in python3 python3.13 python3.12 python3.11; do
		"$name" -I -c "import sys; sys.exit(sys.version_info < ($OLDEST_PYTHON))" 2>/dev/null || continue
		if "$name" -I -c 'import ensurepip, venv' 2>/dev/null; then
			python=$(command -v "$name")
			return
		fi
		without_venv=${without_venv:-$name}
	done
	if [ -n "$without_venv" ]; then
		need "$without_venv-venv" "$without_venv cannot make virtual environments"
	else
		need python 'Python 3.11 or newer was not found'
	fi
}

find_podman() {
	local version
	if ! command -v podman >/dev/null; then
		need podman 'podman was not found'
		need_network network pasta slirp4netns
		return
	fi
	# podman 5 makes ~/.config even for this, unless the variable names a directory that is there.
	version=$(XDG_CONFIG_HOME=${HOME:-/} podman --version 2>/dev/null) || version=''
	if ! [[ $version =~ ^podman\ version\ ([0-9]+\.[0-9]+) ]]; then
		need podman "$(command -v podman) does not tell its version"
		return
	fi
	version=${BASH_REMATCH[1]}
	if older "$version" $OLDEST_PODMAN; then
		need podman "podman $version is too old: $OLDEST_PODMAN or newer is needed"
	fi
	if older "$version" $PASTA_SINCE; then
		need_network slirp4netns slirp4netns
	else
		need_network pasta pasta slirp4netns
	fi
}

# The gate's way out: one of the programs after $1, else $1 is needed.
need_network() {
	local program
	for program in "${@:2}"; do
		if command -v "$program" >/dev/null; then return; fi
	done
	need "$1" "no program was found that gives a container its network: ${*:2}"
}

# Whether the version $1 (MAJOR.MINOR) is below $2.
older() {
	[ "${1%.*}" -lt "${2%.*}" ] || { [ "${1%.*}" -eq "${2%.*}" ] && [ "${1#*.}" -lt "${2#*.}" ]; }
}

package_manager() {
	local name
	for name in apt-get dnf pacman zypper; do
		if command -v "$name" >/dev/null; then
			echo "$name"
			return
		fi
	done
}

# The packages of the manager $1 that hold what is missing.
packages_for() {
	local need
	for need in "${needs[@]}"; do
		case $1:$need in
		apt-get:python) echo python3 python3-venv ;;
		apt-get:network) echo slirp4netns ;; # any podman of Debian and Ubuntu knows it
		*:network | *:pasta) echo passt ;;
		dnf:uidmap) echo shadow-utils ;;
		pacman:uidmap | zypper:uidmap) echo shadow ;;
		dnf:python*) echo python3 ;;
		pacman:python*) echo python ;;
		zypper:python*) echo python311 ;;
		*) echo "$need" ;;
		esac
	done | tr '\n' ' ' | sed 's/ $//'
}

# The one command that installs what is missing, for the manager $1.
install_command() {
	local sudo=''
	if [ "$(id -u)" -ne 0 ]; then sudo='sudo '; fi
	case $1 in
	apt-get) echo "${sudo}apt-get install --yes $(packages_for "$1")" ;;
	pacman) echo "${sudo}pacman -S --needed $(packages_for "$1")" ;;
	dnf | zypper) echo "$sudo$1 install $(packages_for "$1")" ;;
	*) echo "with your package manager: $(packages_for other)" ;;
	esac
}

need_packages() {
	local manager
	if look_around; then return; fi
	complain "${reasons[@]}"
	manager=$(package_manager)
	if [ -z "$deps" ] || [ "$manager" != apt-get ]; then
		die $UNAVAILABLE 'install what is missing, and try again:' "  $(install_command "$manager")"
	fi
	install_packages
	if ! look_around; then die $UNAVAILABLE 'this is still missing:' "${reasons[@]}"; fi
}

install_packages() {
	local as_root=(env DEBIAN_FRONTEND=noninteractive) packages
	read -ra packages <<<"$(packages_for apt-get)"
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || die $UNAVAILABLE 'sudo was not found; as root:' '  ./install.sh --deps'
		as_root=(sudo "${as_root[@]}")
	fi
	say "installing ${packages[*]}"
	"${as_root[@]}" apt-get update || complain 'apt-get update failed; going on with the lists that are there'
	"${as_root[@]}" apt-get install --yes "${packages[@]}" || die $UNAVAILABLE 'apt-get failed; see above'
	hash -r
}

# --- the manifest: what was made ------------------------------------------------------------------

# Lines `KIND VALUE PATH`. The kinds: `directory` (no value), `venv` (a hash of all that went in), `program` (the file's
# hash), `alias` (its block's hash); of the file that an alias is in: `created`, or `newline` (its last line had none).
declare -A made=()

record() { made["$1 $3"]=$2; }

recorded() { printf '%s' "${made["$1 $2"]:-}"; }

forget() { made["$1 $2"]=''; }

# The paths of a kind, a directory before what is in it.
paths_of() {
	local key
	for key in "${!made[@]}"; do
		if [[ $key == "$1 "* && -n ${made[$key]} ]]; then echo "${key#* }"; fi
	done | LC_ALL=C sort
}

read_manifest() {
	local line rest
	if [ ! -f "$data/manifest" ]; then return; fi
	while IFS= read -r line; do
		rest=${line#* }
		record "${line%% *}" "${rest%% *}" "${rest#* }"
	done < <(grep -v '^#' "$data/manifest")
}

# Always before what it records: after a crash in between there is too much in it, never too little.
write_manifest() {
	local kind path
	{
		echo '# Made by the install.sh of aisb, which takes it back: ./install.sh --uninstall'
		for kind in directory venv program alias created newline; do
			while IFS= read -r path; do
				echo "$kind $(recorded "$kind" "$path") $path"
			done < <(paths_of "$kind")
		done
	} >"$data/manifest.new"
	mv -- "$data/manifest.new" "$data/manifest"
}

make_directory() {
	if [ -d "$1" ]; then return; fi
	make_directory "$(dirname -- "$1")"
	mkdir -- "$1"
	record directory - "$1"
}

hash_of() { sha256sum | cut -d ' ' -f 1; }

# --- the virtual environment ----------------------------------------------------------------------

readonly PARTS=(aisb gate templates config pyproject.toml README.md LICENSE)

need_checkout() {
	local part
	for part in "${PARTS[@]}"; do
		[ -e "$checkout/$part" ] || die $UNAVAILABLE "$checkout is not a whole checkout: there is no $part"
	done
}

# A hash of all that goes into the environment: same hash, same environment.
fingerprint() {
	{
		(cd -- "$checkout" && find "${PARTS[@]}" -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
		"$python" -I -c 'import sys; print(sys.version, sys.base_prefix)'
	} | hash_of
}

version_in() { "$1/bin/python" -I -c 'from aisb.__main__ import main; main()' --version; }

unfinished=''

make_venv() {
	local started=$SECONDS
	unfinished=$(mktemp -d "$data/venvs/XXXXXXXX")
	say "installing aisb and its libraries into a virtual environment of $("$python" --version)"
	"$python" -I -m venv "$unfinished" || die $UNAVAILABLE 'the virtual environment could not be made; see above'
	# Somebody's pip settings may say `user` or `target`: this goes into the environment, and leaves nothing in a cache.
	env -u PIP_TARGET -u PIP_PREFIX PIP_USER=0 "$unfinished/bin/python" -I -m pip install --disable-pip-version-check \
		--no-cache-dir --progress-bar off "$checkout" </dev/null 2>&1 | sed -u 's/^/  /' ||
		die $UNAVAILABLE 'pip could not install aisb; see above'
	version_in "$unfinished" >/dev/null || die $UNAVAILABLE 'the new aisb does not start; see above'
	say "  done in $((SECONDS - started)) s"
}

# One rename puts the new environment in place; the ones before it go.
switch_venv() {
	local old
	ln -s -- "venvs/${unfinished##*/}" "$data/venv.new"
	mv -T -- "$data/venv.new" "$data/venv"
	unfinished=''
	for old in "$data"/venvs/*; do
		if ! [ "$old" -ef "$data/venv" ]; then rm -rf -- "$old"; fi
	done
}

# --- the command ----------------------------------------------------------------------------------

# In isolated mode neither the current directory, where an agent may write, nor PYTHON* decide what is imported.
program_text() {
	local interpreter=$data/venv/bin/python
	local note='# Written by the install.sh of aisb, which takes it back: ./install.sh --uninstall'
	# The kernel splits a first line at blanks, and older kernels cut it at 127 bytes.
	if [[ $interpreter == *[[:space:]]* ]] || [ ${#interpreter} -gt 100 ]; then
		printf '%s\n' '#!/bin/sh' "$note" \
			"exec '${interpreter//\'/\'\\\'\'}' -I -c 'from aisb.__main__ import main; main()' \"\$@\""
	else
		printf '%s\n' "#!$interpreter -I" "$note" 'from aisb.__main__ import main' '' 'main()'
	fi
}

exists() { [ -e "$1" ] || [ -L "$1" ]; }

# Whether the file is a plain one with the hash $2.
is_file_with() { [ ! -L "$1" ] && [ -f "$1" ] && [ "$(hash_of <"$1")" = "$2" ]; }

refuse_foreign_files() {
	local path
	for path in "${PROGRAMS[@]}"; do
		if exists "$path" && ! is_file_with "$path" "$(recorded program "$path")" &&
			! is_file_with "$path" "$(program_text | hash_of)"; then
			die $UNAVAILABLE "$path is there, and was not written by this script or was changed since" \
				'move it away first (of pipx or uv? pipx uninstall ai-sandbox, uv tool uninstall ai-sandbox)'
		fi
	done
	if [ ! -e "$data/manifest" ] && { exists "$data/venv" || exists "$data/venvs"; }; then
		die $UNAVAILABLE "$data holds an environment that was not made by this script" 'move it away first'
	fi
}

write_programs() {
	local path hash
	hash=$(program_text | hash_of)
	for path in "${PROGRAMS[@]}"; do
		if is_file_with "$path" "$hash"; then continue; fi
		program_text >"$path.new"
		chmod 0755 -- "$path.new"
		mv -- "$path.new" "$path"
	done
}

# --- the alias ------------------------------------------------------------------------------------

start_file=''

# The file that the user's shell reads at its start; decided before anything is made.
need_start_file() {
	local shell=${SHELL:-$(getent passwd "$(id -u)" | cut -d : -f 7)}
	case ${shell##*/} in
	bash) start_file=$HOME/.bashrc ;;
	zsh) start_file=${ZDOTDIR:-$HOME}/.zshrc ;;
	fish) start_file=${XDG_CONFIG_HOME:-$HOME/.config}/fish/config.fish ;;
	*)
		die $USAGE "--alias knows bash, zsh and fish; your shell is '$shell'" \
			"write this into its start file: alias $alias_name='aisb run'"
		;;
	esac
}

alias_block() { printf '%s\n' "$BLOCK_BEGIN" "alias $alias_name='aisb run'" "$BLOCK_END"; }

first=0 last=0

# Find the first and last line of the block in the file $1. False unless there is exactly one.
find_block() {
	first=$(grep -anFx -- "$BLOCK_BEGIN" "$1" 2>/dev/null | cut -d : -f 1) || return 1
	last=$(grep -anFx -- "$BLOCK_END" "$1" | cut -d : -f 1) || return 1
	[[ $first =~ ^[0-9]+$ && $last =~ ^[0-9]+$ ]] && [ "$first" -lt "$last" ]
}

hash_of_block() { sed -n "$first,${last}p" "$1" | hash_of; }

add_alias() {
	local wanted before=''
	wanted=$(alias_block | hash_of)
	if find_block "$start_file" && [ "$(hash_of_block "$start_file")" = "$wanted" ]; then return; fi
	remove_alias "$start_file" || return 0
	make_directory "$(dirname -- "$start_file")"
	record alias "$wanted" "$start_file"
	if [ ! -e "$start_file" ]; then
		record created - "$start_file"
	elif [ -s "$start_file" ] && [ "$(tail -c 1 -- "$start_file" | wc -l)" -eq 0 ]; then
		record newline - "$start_file"
		before=$'\n'
	fi
	write_manifest
	printf '%s%s\n' "$before" "$(alias_block)" >>"$start_file"
	say "$alias_name means 'aisb run' in a new shell ($start_file)"
}

# Take our block out of the file $1, and the rest byte for byte as it was. False where it was changed since.
remove_alias() {
	if grep -qFx -e "$BLOCK_BEGIN" -e "$BLOCK_END" "$1" 2>/dev/null; then
		if ! find_block "$1" || [ "$(hash_of_block "$1")" != "$(recorded alias "$1")" ]; then
			complain "$1: the alias there is not as this script wrote it, and is left alone"
			return 1
		fi
		cut_block "$1"
	fi
	forget alias "$1"
	forget created "$1"
	forget newline "$1"
}

cut_block() {
	local file new ending=(cat)
	# The file itself, not a link to it: dotfiles are often kept elsewhere.
	file=$(readlink -f -- "$1")
	new=$(mktemp "$file.XXXXXX")
	cp -p -- "$file" "$new"
	if [ -n "$(recorded newline "$1")" ] && [ "$(tail -n "+$((last + 1))" "$file" | wc -c)" -eq 0 ]; then
		ending=(head -c -1)
	fi
	{
		head -n "$((first - 1))" "$file" | "${ending[@]}"
		tail -n "+$((last + 1))" "$file"
	} >"$new"
	if [ -n "$(recorded created "$1")" ] && [ ! -s "$new" ]; then
		rm -- "$new" "$file"
	else
		mv -- "$new" "$file"
	fi
}

# --- install and uninstall ------------------------------------------------------------------------

fresh=''

install() {
	local hash path
	refuse_foreign_files
	need_packages
	make_directory "$data"
	need_lock
	read_manifest
	if [ ! -e "$data/manifest" ]; then fresh=1; fi
	make_directory "$data/venvs"
	make_directory "$bin"
	write_manifest
	hash=$(fingerprint)
	if [ "$hash" = "$(recorded venv "$data/venv")" ] && version_in "$data/venv" >/dev/null 2>&1; then
		say "nothing to do for $(version_in "$data/venv"): it was installed from this very checkout"
	else
		make_venv
		record venv "$hash" "$data/venv"
		switch_venv
	fi
	for path in "${PROGRAMS[@]}"; do record program "$(program_text | hash_of)" "$path"; done
	write_manifest
	write_programs
	if [ -n "$alias_name" ]; then add_alias; fi
	fresh=''
	say_how_to_start
}

need_lock() {
	exec 9<"$data"
	flock -n 9 || die $UNAVAILABLE 'another install.sh is at work; wait until it is done'
}

say_how_to_start() {
	say "$(version_in "$data/venv") is in $bin; see: aisb --help"
	case :$PATH: in
	*:"$bin":*)
		if ! [ "$(command -v aisb)" -ef "$bin/aisb" ]; then
			say "another aisb comes first on your PATH: $(command -v aisb)"
		fi
		;;
	*) say "$bin is not on your PATH: log in anew, or put it there in your shell's start file" ;;
	esac
}

take_back() {
	local path
	while IFS= read -r path; do
		if is_file_with "$path" "$(recorded program "$path")"; then
			rm -- "$path"
		elif exists "$path"; then
			complain "$path was changed since, and is left alone"
		fi
	done < <(paths_of program)
	while IFS= read -r path; do
		remove_alias "$path" || true
	done < <(paths_of alias)
	if [ -L "$data/venv" ]; then rm -- "$data/venv"; fi
	rm -rf -- "$data"/venvs/*
	rm -f -- "$data/manifest" "$data/manifest.new" "$data/venv.new"
	while IFS= read -r path; do
		rmdir -- "$path" 2>/dev/null || true
	done < <(paths_of directory | tac)
}

uninstall() {
	local path state=${XDG_STATE_HOME:-$HOME/.local/state} cache=${XDG_CACHE_HOME:-$HOME/.cache}
	if [ ! -f "$data/manifest" ]; then
		say "nothing to take back: there is no $data/manifest"
		for path in "${PROGRAMS[@]}"; do
			if exists "$path"; then say "$path was not written by this script, and is left alone"; fi
		done
		return
	fi
	need_lock
	take_back
	say 'aisb is uninstalled. Volumes, images and records of your sandboxes are kept; these commands remove them:'
	say '  podman ps -aq --filter label=aisb.role | xargs -r podman rm -f'
	say '  podman volume ls -q --filter label=aisb.role | xargs -r podman volume rm'
	say '  podman image ls -q --filter label=aisb.role | xargs -r podman rmi -f'
	say "  rm -rf ${state@Q}/ai-sandbox ${cache@Q}/ai-sandbox"
}

# However this ends: no half-made environment, and after a first installation that failed nothing at all.
clean_up() {
	if [ -n "$unfinished" ]; then rm -rf -- "$unfinished"; fi
	if [ -n "$fresh" ]; then take_back; fi
}

need_places() {
	case ${HOME:-} in
	/*) ;;
	*) die $UNAVAILABLE 'HOME is not set to an absolute path' ;;
	esac
	case ${XDG_DATA_HOME:-} in
	/*) data=$XDG_DATA_HOME/ai-sandbox ;;
	*) data=$HOME/.local/share/ai-sandbox ;;
	esac
	if [[ $data$HOME == *$'\n'* ]]; then die $UNAVAILABLE 'HOME or XDG_DATA_HOME holds a line break'; fi
	bin=$HOME/.local/bin
	checkout=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
	readonly data bin checkout PROGRAMS=("$bin/aisb" "$bin/ai-sandbox")
}

main() {
	read_arguments "$@"
	if [ "$(id -u)" -eq 0 ]; then
		if [ -z "$deps" ] || [ -n "$alias_name" ]; then
			die $UNAVAILABLE 'aisb does not run as root: install it as the user who will run it' \
				'(as root, --deps alone installs the packages that it needs)'
		fi
		need_packages
		say 'all that aisb needs is there; now, as an ordinary user: ./install.sh'
		return
	fi
	need_places
	read_manifest
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ -n "$uninstall" ]; then
		uninstall
		return
	fi
	if [ -n "$alias_name" ]; then need_start_file; fi
	need_checkout
	install
}

main "$@"
