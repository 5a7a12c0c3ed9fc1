"""
Hints for a command line, and warnings of variables, that may not mean what they say. They change nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisb.cli.request import variable_of
from aisb.cli.splitter import first_unknown_flag
from aisb.domain.net import ALLOW
from aisb.domain.options import BY_FLAG, FLAG, OPTIONS, SHORT_FLAGS
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.cli.splitter import Split

# Programs of the image, which a host need not have.
_INSIDE = ("bash", "curl", "fd", "gcc", "git", "jq", "make", "node", "npm", "npx", "python3", "rg", "sh", "wget")
# What other tools of this kind call such verbs, and what that is here; not those of the agents, which are theirs.
_LATER_VERBS = {
    "down": "what ends here is a run (aisb stop) or a gate (aisb gate down)",
    "status": "what runs is listed by: aisb ps; the gates by: aisb gate status",
    "up": "aisb starts by itself what a run needs; a gate beforehand: aisb gate up",
}
# What other tools of this kind call what we have, and what they need and we do not.
_ELSEWHERE = {"-v": "--mount", "--volume": "--mount", "-e": "--env", "--network": "--net", "--workdir": "--project"}
_NOT_NEEDED = {
    **dict.fromkeys(("-it", "-ti", "--interactive", "--tty"), "a command has this terminal as it is"),
    "--name": "a run is named by its id: aisb ps",
    "--rm": "nothing of a sandbox is left after its run",
}
# A value of `-e` and of `-v` there; the agents have such flags of their own.
_VALUE_OF = {"-e": re.compile(r"[A-Z_][A-Z0-9_]*(=.*)?", re.DOTALL), "-v": re.compile(r"[^:]+:.+", re.DOTALL)}
# Flags of the agents that are spelt much like one of ours.
_AGENTS_OWN = frozenset({"--mcp-config", "--mode", "--model", "--print", "--session"})
# A second word that nobody would give an agent as a prompt, with its verb.
_SECOND_WORDS = {"presets": "policy"}
# A word for help, and other tools' short form of --version.
_WORDS = {"help": "--help", "-V": "--version", "-v": "--version"}
# Variables of that form that set no flag, and those of the checkout's own scripts.
_NO_SETTINGS = (
    "AISB_BASE_AUTO_UPDATE",
    "AISB_BASE_TTL_DAYS",
    "AISB_DEMO_",
    "AISB_LAB_",
    "AISB_NODE_MIRROR",
    "AISB_REGISTRY_MIRROR",
)


def _mistyped_verb(word: str, verbs: frozenset[str]) -> tuple[str, ...]:
    if word in _SECOND_WORDS and _SECOND_WORDS[word] in verbs:
        return _SECOND_WORDS[word], word
    return next(((verb,) for verb in sorted(verbs) if word not in verbs and _is_one_edit_away(word.lower(), verb)), ())


def _is_one_edit_away(word: str, known: str) -> bool:
    """Whether the two are the same, but for a letter too many, missing or wrong, or two that changed places."""
    if abs(len(word) - len(known)) > 1:
        return False
    start = next((at for at, (one, other) in enumerate(zip(word, known, strict=False)) if one != other), None)
    if start is None:
        return True
    ours, theirs = word[start:], known[start:]
    return (
        ours[1:] == theirs[1:]
        or ours[1:] == theirs
        or ours == theirs[1:]
        or (ours[:2] == theirs[1::-1] and ours[2:] == theirs[2:])
    )


def line_of(*words: str) -> str:
    """The words as a line to paste, in which nothing reaches the terminal that it would obey."""
    import shlex

    return shlex.join(word if word.isprintable() else "..." for word in words)


def hints_for(split: Split, verbs: frozenset[str], net: str) -> list[str]:
    """
    What a person who typed this may want to know, under this mode of the network.

    After a `run` that was said no other verb is guessed: agents have verbs of their own.
    """
    if not split.harness:
        return []
    hints = (
        _other_word(split),
        _close_flag(split),
        _late_flag(split),
        _close_verb(split, verbs),
        _a_command(split, net),
    )
    return [hint for hint in hints if hint]


def refuse_a_near_miss(split: Split, verbs: frozenset[str], harness: str) -> None:
    """
    Raises UsageError for a misspelt flag or verb of ours before a `--`: a command was meant, and with a protection.

    Without the `--` all of it may be the agent's.
    """
    if "--" not in split.harness[1:]:
        return
    word, *rest = split.harness
    if word.startswith("-"):
        meant = "" if word in _AGENTS_OWN else _meant_flag(split)
    else:
        meant = _verb_before_a_command(split, verbs)
    needless = _NOT_NEEDED.get(word.partition("=")[0], "")
    if not meant and not needless:
        return
    flags = [other for flag in split.flags for other in words_of(*flag)]
    to_the_agent = line_of("aisb", *flags, "--", harness, word, *rest)
    first = f"did you mean {meant}?" if meant else f"leave it out: {needless}"
    hint = f"{first}\nto hand it to the agent all the same: {to_the_agent}"
    if word.startswith("-"):
        raise UsageError(f"aisb has no flag {_shown(word)}", hint=hint)
    if word in verbs:
        raise UsageError(f"{word} comes after a flag", hint=hint)
    raise UsageError(f"aisb has no verb {_shown(word)}", hint=hint)


def _shown(word: str) -> str:
    return word if word.isprintable() else repr(word)


def _verb_before_a_command(split: Split, verbs: frozenset[str]) -> str:
    """The verb that was probably meant, as it is typed; "" where the word is the agent's."""
    word = split.harness[0]
    if split.said_run:
        return ""
    meant = (word,) if word in verbs else _mistyped_verb(word, verbs)
    if not meant and (near := nearest_word(word.lower(), [*sorted(verbs), *sorted(_LATER_VERBS)])):
        meant = ("gate", near) if near in _LATER_VERBS else (near,)
    return line_of("aisb", *meant) if meant else ""


def _other_word(split: Split) -> str | None:
    word = split.harness[0]
    # Two words: with more it is a sentence.
    if word == "help" and len(split.harness) == 2 and not split.said_run:
        return f"help goes to the agent as a prompt; aisb has no verb {_shown(split.harness[1])}: aisb --help"
    if word not in _WORDS or len(split.harness) > 1 or split.said_run:
        return None
    return f"{word} goes to the agent; aisb's own flag is {_WORDS[word]}"


def _close_flag(split: Split) -> str | None:
    flag = first_unknown_flag(split.harness)
    nearest = flag and not _other_word(split) and _meant_flag(split)
    return f"{flag} goes to the agent; aisb's own flag is {nearest}" if nearest else None


def _meant_flag(split: Split) -> str | None:
    """The flag of ours that was probably meant; where the agents have such a one too, by its value."""
    flag, *rest = split.harness
    if flag in _VALUE_OF and not _VALUE_OF[flag].fullmatch((rest or [""])[0]):
        return None
    return nearest_flag(flag)


def nearest_flag(flag: str) -> str | None:
    """The flag of ours that was probably meant, or None."""
    if flag.partition("=")[0] in _ELSEWHERE:
        return _ELSEWHERE[flag.partition("=")[0]]
    if flag.partition("=")[0] in _NOT_NEEDED:
        return None
    return nearest_word(flag.partition("=")[0], BY_FLAG)


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """The one that was probably meant, or None."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.75)), None)


def _late_flag(split: Split) -> str | None:
    late = next((word for word in split.harness[1:] if word.partition("=")[0] in BY_FLAG), None)
    return (
        f"{late} comes after the agent's arguments began, so it goes to the agent; aisb's flags come first"
        if late
        else None
    )


def _close_verb(split: Split, verbs: frozenset[str]) -> str | None:
    word, *rest = split.harness
    # One letter from a verb it may be an ordinary word as well (`built`), and which of the two nobody can tell.
    if not (split.said_run or split.flags) and (meant := _mistyped_verb(word, verbs)):
        return f"{word} goes to the agent as a prompt; aisb's verb is: {line_of('aisb', *meant, *rest)}"
    # Another word behind it makes a sentence of it, unless flags follow.
    is_sentence = rest and not any(other.startswith("-") for other in rest[:2])
    if word.startswith("-") or " " in word or is_sentence:
        return None
    if split.said_run:
        hint = f"{word} comes after run, so it goes to the agent; aisb's verb is: aisb {word}"
        return hint if word in verbs else None
    if word in _LATER_VERBS:
        return f"{word} goes to the agent as a prompt; {_LATER_VERBS[word]}"
    if word in verbs:
        return f"{word} comes after a flag, so it goes to the agent; a verb comes first: aisb {word}"
    nearest = nearest_word(word, [*sorted(verbs), *_LATER_VERBS])
    if nearest is None:
        return None
    way = _LATER_VERBS.get(nearest, f"aisb's verb is: aisb {nearest}")
    return f"{word} goes to the agent as a prompt; {way}"


def _a_command(split: Split, net: str) -> str | None:
    import shutil

    word = split.harness[0]
    if word.startswith("-") or " " in word or not (word in _INSIDE or shutil.which(word)):
        return None
    hint = f"this goes to the agent as a prompt; to run {word} itself: "
    if net == ALLOW and not split.has("allow"):
        # As it was typed it would be refused: nothing is allowed.
        return f"{hint}{_as_command(split, 'none')} (or --allow HOST in the place of --net none)"
    return hint + _as_command(split)


def _as_command(split: Split, net: str = "") -> str:
    """The same line with the agent's part as a command, ready to paste; under `net` where that is named."""
    import shlex

    flags = [flag for flag in split.flags if not (net and flag[0] == "net")] + ([("net", net)] if net else [])
    return shlex.join(["aisb", *(word for flag in flags for word in words_of(*flag)), "--", *split.harness])


def words_of(name: str, value: str) -> tuple[str, ...]:
    """A flag as it is typed."""
    flag = f"--{name}"
    if BY_FLAG[flag].kind == FLAG:
        return (next((short for short, meant in SHORT_FLAGS.items() if meant == name), flag),)
    return (f"{flag}={value}",) if value.startswith("--") else (flag, value)


def strange_variables(names: Iterable[str]) -> list[str]:
    """A warning of each AISB_* variable that nothing reads, with the one that was probably meant."""
    known = [variable_of(option.name) for option in OPTIONS if "env" in option.layers]
    ours = (name for name in sorted(names) if name.startswith("AISB_") and not name.startswith(_NO_SETTINGS))
    # A line break in a name would begin a line that looks like one of ours.
    return [_strange(name if name.isprintable() else repr(name), known) for name in ours if name not in known]


def _strange(name: str, known: list[str]) -> str:
    flag = next((flag for flag, option in BY_FLAG.items() if variable_of(option.name) == name), None)
    if flag:
        return f"{name} is not read; give the flag: {flag}"
    nearest = nearest_word(name, known)
    return f"{name} is not read; {f'the nearest setting is {nearest}' if nearest else 'see: aisb run --help'}"
