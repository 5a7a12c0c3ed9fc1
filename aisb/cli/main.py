"""Verbs, and the one place that prints errors and exits."""

from __future__ import annotations

import os
import sys

from aisb import __version__
from aisb.cli.output import answer, say
from aisb.errors import AisbError, Unwritable

VERBS = frozenset(
    {
        "run",
        "allow",
        "build",
        "clean",
        "deny",
        "doctor",
        "exec",
        "gate",
        "init",
        "inspect",
        "learn",
        "logs",
        "policy",
        "ps",
        "serve",
        "stop",
        "trust",
        "update",
        "version",
    }
)


# A list of nothing but ids.
_IDS = ({"--quiet"}, {"--quiet", "--all"})
# The words below a verb.
BELOW = {"gate": ("status", "up", "down", "logs"), "policy": ("check", "show", "presets")}


def main(arguments: list[str]) -> int:
    """Run aisb and return its exit code."""
    try:
        return _dispatch(arguments)
    except AisbError as error:
        if isinstance(error, Unwritable):
            _forget_what_is_left()
        return _say(error)
    except KeyboardInterrupt as interrupt:
        from aisb.effects.signals import number_of

        return 128 + number_of(interrupt)
    except BrokenPipeError:
        _forget_what_is_left()
        return 141
    except OSError as error:
        from aisb.effects.room import no_room

        if (told := no_room(error, os.environ)) is None:
            raise
        return _say(told)


def _say(error: AisbError) -> int:
    say(error.message)
    for line in error.hint.split("\n") if error.hint else ():
        say(f"  {line}")
    return error.exit_code


def _forget_what_is_left() -> None:
    """What is still in stdout's buffer goes nowhere, instead of failing once more at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    from aisb.cli.splitter import split

    if (asked := _asked_for_help(arguments)) is not None:
        return _dispatch([*asked, "--help"])
    taken = split(arguments, VERBS)
    if taken.has("version"):
        return _version(as_json=taken.harness == ("--json",))
    if taken.has("help"):
        from aisb.cli.help import print_help

        return print_help(arguments[:1])
    if taken.verb == "learn":
        from aisb.cli.learn import learn

        return learn(taken, VERBS)
    if taken.verb == "serve":
        from aisb.cli.serve import serve

        return serve(taken, VERBS)
    if taken.verb == "exec":
        from aisb.cli.runs import exec_verb

        return exec_verb(taken.rest)
    if taken.verb == "run":
        from aisb.cli.run import run

        return run(taken, VERBS)
    if taken.verb == "ps" and set(taken.rest) in _IDS:
        # What a shell asks for at each TAB need not wait for what carries the verbs.
        from aisb.cli.ids import ids_verb

        ids_verb(everything="--all" in taken.rest)
        return 0
    return _verb(taken.verb, taken.rest)


def _asked_for_help(arguments: list[str]) -> list[str] | None:
    """The verb that `help` is asked about, none for aisb itself; None where more words make it a prompt."""
    first, *words = arguments or [""]
    if first != "help":
        return None
    verb, *below = words or [""]
    is_verb = verb in VERBS and (not below or (len(below) == 1 and below[0] in BELOW.get(verb, ())))
    return words if is_verb or not words else None


def _version(*, as_json: bool) -> int:
    if as_json:
        from aisb.domain.answers import answer_text

        answer(answer_text({"aisb": __version__}))
    else:
        answer(f"aisb {__version__}\n")
    return 0


def _verb(verb: str, words: tuple[str, ...]) -> int:
    from aisb.cli.verbs import run_verb

    return run_verb(verb, list(words))
