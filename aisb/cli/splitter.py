"""
Where aisb's part of the command line ends.

    aisb [run] FLAG* ( -- COMMAND ARG* | HARNESS-ARG* )
    aisb learn FLAG* ( -- COMMAND ARG* )
    aisb serve FLAG*

The first word that is not one of our flags ends our part: it and all that follows belong to the
harness, byte for byte. A parser that read on would let an argument of the harness widen the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.options import BY_FLAG, DIRECTORY, FILE, FLAG, LEARN_BY_FLAG, SHORT_FLAGS
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aisb.domain.options import Option

LEARN = "learn"
SERVE = "serve"


class Split(NamedTuple):
    """
    A command line taken apart.

    `flags` are (name, value) pairs in order, a plain flag's value is "". Exactly one of `command`
    (after `--`) and `harness` (everything else) is not None, unless both are absent: then `harness` is ().
    `said_run` is whether the line began with `run`. `own_flags` are those that the verb has besides a run's.
    """

    verb: str
    flags: tuple[tuple[str, str], ...]
    command: tuple[str, ...] | None
    harness: tuple[str, ...]
    rest: tuple[str, ...] = ()
    said_run: bool = False
    own_flags: tuple[tuple[str, str], ...] = ()

    def has(self, name: str) -> bool:
        """Whether the flag was given."""
        return any(flag == name for flag, _ in self.flags)

    def values(self, name: str) -> tuple[str, ...]:
        """All values of the flag, in order."""
        return tuple(value for flag, value in self.flags if flag == name)

    def own(self, name: str) -> tuple[str, ...]:
        """All values of a flag that the verb has besides those of a run; of a plain flag one for each time."""
        return tuple(value for flag, value in self.own_flags if flag == name)


def split(arguments: list[str], verbs: frozenset[str]) -> Split:
    """Take the command line apart. Raises UsageError for a flag of ours that cannot be read."""
    words = list(arguments)
    if words[:1] == [LEARN] and LEARN in verbs:
        return _split_learn(words[1:])
    if words[:1] == [SERVE] and SERVE in verbs:
        return _split_serve(words[1:])
    if words and words[0] in verbs and words[0] != "run":
        return Split(words[0], (), None, (), tuple(words[1:]))
    said_run = words[:1] == ["run"]
    if said_run:
        del words[0]
    flags: list[tuple[str, str]] = []
    while words:
        if words[0] == "--":
            return Split("run", tuple(flags), _command(words[1:]), (), said_run=said_run)
        flag = _take_flag(words)
        if flag is None:
            break
        flags.append(flag)
    return Split("run", tuple(flags), None, tuple(words), said_run=said_run)


def _split_learn(words: list[str]) -> Split:
    """The flags of a run and its own; what follows them is a command."""
    flags: list[tuple[str, str]] = []
    while words and words[0] != "--":
        flag = _take_flag(words, BY_FLAG | LEARN_BY_FLAG)
        if flag is None:
            raise _no_flag_of_learn(flags, words)
        flags.append(flag)
    command = _command(words[1:], LEARN) if words else None
    own = tuple(flag for flag in flags if f"--{flag[0]}" in LEARN_BY_FLAG)
    return Split(LEARN, tuple(flag for flag in flags if flag not in own), command, (), own_flags=own)


def _split_serve(words: list[str]) -> Split:
    """The flags of a run, and nothing else."""
    flags: list[tuple[str, str]] = []
    while words:
        flag = _take_flag(words)
        if flag is None:
            shown = words[0] if words[0].isprintable() else "what follows"
            hint = _did_you_mean(words[0], BY_FLAG) or "write: aisb serve FLAG..."
            raise UsageError(f"aisb serve takes flags alone, and {shown} is none", hint=hint)
        flags.append(flag)
    return Split(SERVE, tuple(flags), None, ())


def _no_flag_of_learn(flags: list[tuple[str, str]], words: list[str]) -> UsageError:
    if words[0].startswith("-") or not words[0].isprintable():
        hint = _did_you_mean(words[0], BY_FLAG | LEARN_BY_FLAG) or "write: aisb learn FLAG... -- COMMAND ARG..."
        return UsageError(f"aisb learn has no flag {words[0]}", hint=hint)
    from shlex import join

    between = " FLAG..." if flags else ""
    return UsageError("aisb learn takes a command after --", hint=f"write: aisb learn{between} -- {join(words)}")


def _did_you_mean(word: str, known: Mapping[str, Option]) -> str:
    """The flag that was probably meant, as a question; "" without one."""
    from aisb.cli.hints import nearest_flag, nearest_word

    name = word.partition("=")[0]
    near = name.startswith("-") and (nearest_word(name, known.keys() - BY_FLAG.keys()) or nearest_flag(name))
    return f"did you mean {near}?" if near else ""


def _take_flag(words: list[str], known: Mapping[str, Option] = BY_FLAG) -> tuple[str, str] | None:
    """Remove one of our flags, with its value, from the front of `words`; None where the harness begins."""
    if words[0] in SHORT_FLAGS:
        return SHORT_FLAGS[words.pop(0)], ""
    name, equals, value = words[0].partition("=")
    option = known.get(name)
    if option is None:
        return None
    del words[0]
    if option.kind == FLAG:
        if equals:
            raise UsageError(f"{name} takes no value", hint=f"write: {name}")
        return option.name, ""
    if equals:
        return option.name, value
    if not words or words[0].startswith("--"):
        raise UsageError(f"{name} needs a value", hint=_how_to_give(option, words))
    return option.name, words.pop(0)


def _how_to_give(option: Option, words: list[str]) -> str:
    hint = f"write: --{option.name} {option.metavar}"
    # Of our values only a path may begin so.
    if words and words[0] != "--" and option.metavar in (DIRECTORY, FILE):
        hint += f", or --{option.name}={words[0]}"
    return hint


def _command(words: list[str], verb: str = "") -> tuple[str, ...]:
    if not words:
        line = f"aisb {verb} -- COMMAND" if verb else "aisb -- COMMAND ARG..."
        raise UsageError("there is no command after --", hint=f"write: {line}")
    return tuple(words)


def first_unknown_flag(harness: tuple[str, ...]) -> str | None:
    """The word that ended our part, where it looks like a flag."""
    return harness[0] if harness and harness[0].startswith("-") and harness[0] != "-" else None
