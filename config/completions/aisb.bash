# Generated from aisb's tables of options by `make completions`: what is changed here is lost.
# shellcheck shell=bash

# The words that come first: verbs, or those below the verb $1.
_aisb_words() {
	case $1 in
	'') echo allow build clean deny doctor exec gate help init inspect learn logs policy ps run serve stop trust update version ;;
	help) echo allow build clean deny doctor exec gate init inspect learn logs policy ps run serve stop trust update version ;;
	gate) echo down logs status up ;;
	policy) echo check presets show ;;
	esac
}

# The flags of the verb $1.
_aisb_flags() {
	case $1 in
	allow) echo --for --run --save --project --help ;;
	build) echo --base-image --install --customize --node --node-source --ca-bundle --pull --refresh-base --no-cache --why --harness --json --trace --quiet --help ;;
	clean) echo --all --volumes --volume --dry-run --json --trace --help ;;
	deny) echo --run --project --help ;;
	doctor) echo --json --strict --deep --help ;;
	exec) echo --tty --cwd --env --help ;;
	'gate down') echo --all --help ;;
	'gate logs') echo --all --json --help ;;
	'gate status') echo --all --json --help ;;
	'gate up') echo --allow --policy --gate-idle --base-image --install --harness --project --trust-once --json --quiet --help ;;
	init) echo --project --json --help ;;
	inspect) echo --packages --base-image --install --customize --harness --node --node-source --json --trace --help ;;
	learn) echo --output --save --yes --allow --policy --net --gate-network --proxy --proxy-auth --no-gate --publish --gate-idle --env --env-file --inject --no-pi-config --pi-token-env --no-pi-token-env --pi-inject --no-git-identity --install --harness --base-image --customize --pull --node --node-source --ca-bundle --project --trust-once --mount --protect --unprotect --mask --no-default-masks --no-cwd --shared-home --ephemeral-home --read-only --shell --memory --cpus --pids-limit --shm-size --ulimit --timeout --require-limits --detach --keep-runs --keep-days --strict-args --dry-run --print-policy --print-entrypoint --print-containerfile --print-nft --print-squid --print-gate-nft --print-gate-containerfile --print-seccomp --timings --trace --quiet --help ;;
	logs) echo --follow --denied --json --summary --markdown --since --project --help ;;
	'policy check') echo --allow --policy --inject --net --no-gate --project --trust-once --json --help ;;
	'policy presets') echo --base-image --install --harness --json --help ;;
	'policy show') echo --allow --policy --inject --net --no-gate --project --trust-once --json --help ;;
	ps) echo --all --json --quiet --help ;;
	run) echo --allow --policy --net --gate-network --proxy --proxy-auth --no-gate --publish --gate-idle --env --env-file --inject --no-pi-config --pi-token-env --no-pi-token-env --pi-inject --no-git-identity --install --harness --base-image --customize --pull --node --node-source --ca-bundle --project --trust-once --mount --protect --unprotect --mask --no-default-masks --no-cwd --shared-home --ephemeral-home --read-only --shell --memory --cpus --pids-limit --shm-size --ulimit --timeout --require-limits --detach --keep-runs --keep-days --strict-args --dry-run --print-policy --print-entrypoint --print-containerfile --print-nft --print-squid --print-gate-nft --print-gate-containerfile --print-seccomp --timings --trace --quiet --help --version ;;
	serve) echo --allow --policy --net --gate-network --proxy --proxy-auth --no-gate --publish --gate-idle --env --env-file --inject --no-pi-config --pi-token-env --no-pi-token-env --pi-inject --no-git-identity --install --harness --base-image --customize --pull --node --node-source --ca-bundle --project --trust-once --mount --protect --unprotect --mask --no-default-masks --no-cwd --shared-home --ephemeral-home --read-only --shell --memory --cpus --pids-limit --shm-size --ulimit --timeout --require-limits --detach --keep-runs --keep-days --strict-args --dry-run --print-policy --print-entrypoint --print-containerfile --print-nft --print-squid --print-gate-nft --print-gate-containerfile --print-seccomp --timings --trace --quiet --help --version ;;
	stop) echo --project --help ;;
	trust) echo --project --show --json --revoke --env-file --help ;;
	update) echo --check --json --rollback --base-image --install --customize --harness --node --node-source --ca-bundle --pull --trace --quiet --help ;;
	version) echo --json --help ;;
	esac
}

# What is to come behind the verb $1: `files`, the ids of runs, or gates.
_aisb_arguments() {
	case $1 in
	trust) echo =files ;;
	exec|stop) aisb ps --quiet 2>/dev/null ;;
	inspect|logs) aisb ps --all --quiet 2>/dev/null ;;
	'gate down'|'gate logs'|'gate status') command ls "$XDG_RUNTIME_DIR/aisb/g" 2>/dev/null ;;
	esac
}

# What the flag $1 takes: `=files`, `=runs`, `=homes`, `=any`, or its few values; nothing for one without a value.
_aisb_values() {
	case $1 in
	--allow) echo '@anthropic @apt @github @npm @openai @pi @pypi' ;;
	--base-image | --cpus | --env | --for | --gate-idle | --gate-network | --inject | --install | --keep-days | --keep-runs | --mask | --memory | --pi-token-env | --pids-limit | --proxy | --proxy-auth | --publish | --shm-size | --since | --timeout | --trust-once | --ulimit) echo '=any' ;;
	--ca-bundle | --customize | --cwd | --env-file | --mount | --output | --policy | --project | --protect | --unprotect) echo '=files' ;;
	--harness) echo 'claude pi' ;;
	--net) echo 'allow full none' ;;
	--node) echo '22 24' ;;
	--node-source) echo 'npm tarball' ;;
	--pull) echo 'missing never' ;;
	--run) echo '=runs' ;;
	--volume) echo '=homes' ;;
	esac
}

_aisb() {
	local verb=run at=1 values arguments
	local -a words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
	# bash takes words apart at `=` and `@`.
	if [ "$COMP_CWORD" -gt 1 ] && [[ ${words[-2]} == @ || ${words[-2]} == =@ ]]; then
		words=("${words[@]:0:COMP_CWORD-1}" "${words[-2]%@}" "@${words[-1]}")
		[ -n "${words[-2]}" ] || words=("${words[@]:0:${#words[@]}-2}" "${words[-1]}")
	fi
	[[ ${words[-1]} != =@ ]] || words=("${words[@]:0:${#words[@]}-1}" '=' @)
	[[ ${words[-1]} != = ]] || words+=('')
	local current=${words[-1]} before=${words[-2]}
	[ "$before" != = ] || before=${words[-3]}
	COMPREPLY=()
	if [ "$COMP_CWORD" -gt 1 ] && [[ " $(_aisb_words '') " == *" ${COMP_WORDS[1]} "* ]]; then
		verb=${COMP_WORDS[1]} at=2
		if [ "$COMP_CWORD" -gt 2 ] && [[ " $(_aisb_words "$verb") " == *" ${COMP_WORDS[2]} "* ]]; then
			verb+=" ${COMP_WORDS[2]}" at=3
		fi
	fi
	local word
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		# The command's own.
		if [ "$word" = -- ]; then
			compopt -o default
			return
		fi
	done
	values=$(_aisb_values "$before")
	case $values in
	'') ;;
	=files)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	=runs)
		mapfile -t COMPREPLY < <(compgen -W "$(aisb ps --quiet 2>/dev/null)" -- "$current")
		return
		;;
	=homes)
		mapfile -t COMPREPLY < <(compgen -W "$(podman volume ls --quiet --filter label=aisb.role=home 2>/dev/null)" -- "$current")
		return
		;;
	=any) return ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
		return
		;;
	esac
	values=$(_aisb_flags "$verb")
	if [ "$at" = "$COMP_CWORD" ] && [[ $current != -* ]]; then
		case $at in
		1) values+=" $(_aisb_words '')" ;;
		2) values+=" $(_aisb_words "$verb")" ;;
		3) values+=" $(_aisb_words "${verb#help }")" ;;
		esac
	fi
	if [[ $current != -* ]]; then
		arguments=$(_aisb_arguments "$verb")
		if [ "$arguments" = =files ]; then
			compopt -o default
		elif [ -n "$arguments" ]; then
			values=$arguments
		fi
	fi
	mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
}

complete -F _aisb aisb ai-sandbox
