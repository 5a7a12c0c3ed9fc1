"""
Completion files for bash, zsh and fish, from the tables of options.

They are static: a shell that completes starts no aisb, but for the ids of runs, which only `aisb ps` knows. Gates are
found by their directories, and homes by podman.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.options import DIRECTORY, FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOTE = "# Generated from aisb's tables of options by `make completions`: what is changed here is lost."
# Values of which there are few, by the name of the flag.
CHOICES = {
    "allow": ("@anthropic", "@apt", "@github", "@npm", "@openai", "@pi", "@pypi"),
    "harness": ("claude", "pi"),
    "net": ("allow", "full", "none"),
    "node": ("22", "24"),
    "node-source": ("npm", "tarball"),
    "pull": ("missing", "never"),
}
# What asks for the ids of runs, those that go on or those too that are on record; for gates; and for homes.
_IDS = {
    "runs": "aisb ps --quiet 2>/dev/null",
    "records": "aisb ps --all --quiet 2>/dev/null",
    "gates": 'command ls "$XDG_RUNTIME_DIR/aisb/g" 2>/dev/null',
    "homes": "podman volume ls --quiet --filter label=aisb.role=home 2>/dev/null",
}
# What the value of a flag is asked for by.
_ASKED = {"run": "runs", "volume": "homes"}
# A path comes first in it.
_PATHS = (DIRECTORY, FILE, "PATH", "SRC[:DST][:ro|rw]")


class Flag(NamedTuple):
    """A flag without its dashes, what its value is called ("" for none), and its help."""

    name: str
    metavar: str
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """Its values, where there are few."""
        return CHOICES.get(self.name, ())

    @property
    def is_path(self) -> bool:
        """Whether its value begins with a path."""
        return self.metavar in _PATHS

    @property
    def asked(self) -> str:
        """By which of `_IDS` its values are asked for, "" for none."""
        return _ASKED.get(self.name, "")


class Verb(NamedTuple):
    """
    A verb, or one with the word below it, as it is typed: `policy check`. It takes `files`, `runs` that go on,
    `records` of runs, `gates`, or "" for nothing that is known.
    """

    words: str
    help: str
    flags: tuple[Flag, ...]
    takes: str = ""


# It is no verb: with one behind it, it prints what is known of that.
_HELP = Verb("help", "the help of aisb, or of a verb", ())


def bash(verbs: Iterable[Verb]) -> str:
    """The file for bash."""
    known = list(verbs)
    flags = "\n".join(f"\t{quote(verb.words)}) echo {_all(verb.flags)} ;;" for verb in known)
    below = "\n".join(f"\t{quote(verb)}) echo {' '.join(words)} ;;" for verb, words in _below(known).items())
    return f"""\
{_NOTE}
# shellcheck shell=bash

# The words that come first: verbs, or those below the verb $1.
_aisb_words() {{
	case $1 in
	'') echo {" ".join(sorted([*_firsts(known), _HELP.words]))} ;;
	help) echo {" ".join(_firsts(known))} ;;
{below}
	esac
}}

# The flags of the verb $1.
_aisb_flags() {{
	case $1 in
{flags}
	esac
}}

# What is to come behind the verb $1: `files`, the ids of runs, or gates.
_aisb_arguments() {{
	case $1 in
{_arguments(known)}
	esac
}}

# What the flag $1 takes: `=files`, `=runs`, `=homes`, `=any`, or its few values; nothing for one without a value.
_aisb_values() {{
	case $1 in
{_values(known)}
	esac
}}

_aisb() {{
	local verb=run at=1 values arguments
	local -a words=("${{COMP_WORDS[@]:0:COMP_CWORD+1}}")
	# bash takes words apart at `=` and `@`.
	if [ "$COMP_CWORD" -gt 1 ] && [[ ${{words[-2]}} == @ || ${{words[-2]}} == =@ ]]; then
		words=("${{words[@]:0:COMP_CWORD-1}}" "${{words[-2]%@}}" "@${{words[-1]}}")
		[ -n "${{words[-2]}}" ] || words=("${{words[@]:0:${{#words[@]}}-2}}" "${{words[-1]}}")
	fi
	[[ ${{words[-1]}} != =@ ]] || words=("${{words[@]:0:${{#words[@]}}-1}}" '=' @)
	[[ ${{words[-1]}} != = ]] || words+=('')
	local current=${{words[-1]}} before=${{words[-2]}}
	[ "$before" != = ] || before=${{words[-3]}}
	COMPREPLY=()
	if [ "$COMP_CWORD" -gt 1 ] && [[ " $(_aisb_words '') " == *" ${{COMP_WORDS[1]}} "* ]]; then
		verb=${{COMP_WORDS[1]}} at=2
		if [ "$COMP_CWORD" -gt 2 ] && [[ " $(_aisb_words "$verb") " == *" ${{COMP_WORDS[2]}} "* ]]; then
			verb+=" ${{COMP_WORDS[2]}}" at=3
		fi
	fi
	local word
	for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
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
		mapfile -t COMPREPLY < <(compgen -W "$({_IDS["runs"]})" -- "$current")
		return
		;;
	=homes)
		mapfile -t COMPREPLY < <(compgen -W "$({_IDS["homes"]})" -- "$current")
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
		3) values+=" $(_aisb_words "${{verb#help }}")" ;;
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
}}

complete -F _aisb aisb ai-sandbox
"""


def _arguments(verbs: Iterable[Verb]) -> str:
    takes = {"files": "echo =files", **_IDS}
    lines = {what: "|".join(quote(verb.words) for verb in verbs if verb.takes == what) for what in takes}
    return "\n".join(f"\t{words}) {takes[what]} ;;" for what, words in lines.items() if words)


def zsh(verbs: Iterable[Verb]) -> str:
    """The file for zsh."""
    known = list(verbs)
    cases = "\n".join(
        f"\t{quote(verb.words)}) flags=(\n" + "\n".join(f"\t\t{_zsh_flag(flag)}" for flag in verb.flags) + "\n\t) ;;"
        for verb in known
    )
    below = "\n".join(f"\t{quote(verb)}) words_below=({' '.join(words)}) ;;" for verb, words in _below(known).items())
    described = "\n".join(f"\t\t{quote(f'{verb.words}:{verb.help}')}" for verb in known if " " not in verb.words)
    groups = "\n".join(f"\t\t{quote(f'{verb}:{_NO_HELP}')}" for verb in _below(known))
    runs = "\n".join(
        f"\t{quote(verb.words)}) flags+=('1:run:_aisb_{verb.takes}') ;;" for verb in known if verb.takes in _IDS
    )
    return f"""\
#compdef aisb ai-sandbox
{_NOTE}

_aisb_runs() {{
	compadd ${{(f)"$({_IDS["runs"]})"}}
}}

_aisb_records() {{
	compadd ${{(f)"$({_IDS["records"]})"}}
}}

_aisb_gates() {{
	compadd ${{(f)"$({_IDS["gates"]})"}}
}}

_aisb_homes() {{
	compadd ${{(f)"$({_IDS["homes"]})"}}
}}

_aisb() {{
	local verb=run skip=0
	local -a verbs flags words_below
	verbs=(
{described}
{groups}
		{quote(f"{_HELP.words}:{_HELP.help}")}
	)
	if [[ $words[2] == help ]] && (( CURRENT > 3 )); then
		# As if the verb that is asked about stood alone.
		shift words
		(( CURRENT-- ))
	fi
	if (( CURRENT > 2 )) && [[ -n ${{verbs[(r)${{words[2]}}:*]}} ]]; then
		verb=$words[2] skip=1
	fi
	case $verb in
	help) words_below=({" ".join(_firsts(known))}) ;;
{below}
	esac
	if (( skip && ${{#words_below}} )); then
		if (( CURRENT == 3 )); then
			_values word $words_below
			return
		fi
		verb="$verb $words[3]" skip=2
	fi
	case $verb in
{cases}
	esac
	case $verb in
{runs}
	esac
	if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
		_describe verb verbs
		return
	fi
	shift $skip words
	(( CURRENT -= skip ))
	_arguments -S : $flags '*::: :_normal'
}}

_aisb "$@"
"""


def fish(verbs: Iterable[Verb]) -> str:
    """The file for fish."""
    known = list(verbs)
    others = " ".join(first for first in _firsts(known) if first != "run")
    lines = [_NOTE, "", "complete -c ai-sandbox -w aisb"]
    lines += [
        f"complete -c aisb -n 'test (count (commandline -opc)) -eq 1' -f -a {verb.words} -d {_fish(verb.help)}"
        for verb in known
        if " " not in verb.words
    ]
    for first, words in _below(known).items():
        lines.append(f"complete -c aisb -n 'test (count (commandline -opc)) -eq 1' -f -a {first} -d {_fish(_NO_HELP)}")
        condition = f"test (count (commandline -opc)) -eq 2; and __fish_seen_subcommand_from {first}"
        lines.append(f"complete -c aisb -n '{condition}' -f -a '{' '.join(words)}'")
    lines.append(f"complete -c aisb -n 'test (count (commandline -opc)) -eq 1' -f -a help -d {_fish(_HELP.help)}")
    asked = "test (count (commandline -opc)) -eq 2; and __fish_seen_subcommand_from help"
    lines.append(f"complete -c aisb -n '{asked}' -f -a '{' '.join(_firsts(known))}'")
    for verb in known:
        when = _fish(_fish_when(verb, others))
        lines += [f"complete -c aisb -n {when} {_fish_flag(flag)}" for flag in verb.flags]
        lines += [f"complete -c aisb -n {when} -f -a '({_IDS[verb.takes]})'"] if verb.takes in _IDS else []
    return "\n".join(lines) + "\n"


_NO_HELP = "see its words"


def _firsts(verbs: Iterable[Verb]) -> list[str]:
    return sorted({verb.words.partition(" ")[0] for verb in verbs})


def _below(verbs: Iterable[Verb]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for first, _, word in (verb.words.partition(" ") for verb in verbs):
        if word:
            found.setdefault(first, []).append(word)
    return found


def _all(flags: Iterable[Flag]) -> str:
    return " ".join(f"--{flag.name}" for flag in flags)


def _values(verbs: Iterable[Verb]) -> str:
    lines: dict[str, list[str]] = {}
    for flag in sorted({flag._replace(help="") for verb in verbs for flag in verb.flags if flag.metavar}):
        other = "'=files'" if flag.is_path else f"'={flag.asked}'" if flag.asked else "'=any'"
        takes = f"'{' '.join(flag.choices)}'" if flag.choices else other
        lines.setdefault(takes, [])
        if f"--{flag.name}" not in lines[takes]:
            lines[takes].append(f"--{flag.name}")
    return "\n".join(f"\t{' | '.join(names)}) echo {takes} ;;" for takes, names in lines.items())


def _zsh_flag(flag: Flag) -> str:
    text = flag.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    if not flag.metavar:
        return quote(f"*--{flag.name}[{text}]")
    other = "_files" if flag.is_path else f"_aisb_{flag.asked}" if flag.asked else " "
    values = f"({' '.join(flag.choices)})" if flag.choices else other
    named = flag.metavar.replace("[", "").replace("]", "").replace(":", "\\:")
    return quote(f"*--{flag.name}=[{text}]:{named}:{values}")


def _fish_when(verb: Verb, others: str) -> str:
    first, _, word = verb.words.partition(" ")
    if first == "run":
        return f"not __fish_seen_subcommand_from {others}"
    seen = f"__fish_seen_subcommand_from {first}"
    return f"{seen}; and __fish_seen_subcommand_from {word}" if word else seen


def _fish_flag(flag: Flag) -> str:
    value = ""
    if flag.metavar:
        other = " -r -F" if flag.is_path else f" -x -a '({_IDS[flag.asked]})'" if flag.asked else " -x"
        value = f" -x -a '{' '.join(flag.choices)}'" if flag.choices else other
    return f"-l {flag.name}{value} -d {_fish(flag.help)}"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
