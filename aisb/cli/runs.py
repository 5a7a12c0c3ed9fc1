"""`aisb ps`, `aisb exec`, `aisb inspect RUN` and `aisb stop`: the runs that go on."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.cli.hints import line_of, nearest_flag, nearest_word
from aisb.cli.output import answer, say
from aisb.domain.answers import answer_text
from aisb.domain.layers import Setting
from aisb.domain.printing import printable
from aisb.domain.run_record import ended_words
from aisb.domain.variables import parse_variable, values_in_sight, values_of
from aisb.effects.decisions import denied_meanwhile
from aisb.effects.host import need_host
from aisb.effects.live import find_run, has_lost_its_gate, is_of
from aisb.effects.process import SystemRunner
from aisb.effects.sealed import sealed, sealed_by
from aisb.effects.session import PASTED, every_orphan, living, owner_of
from aisb.effects.situation import resolve_project
from aisb.effects.state import directories, read_if_there
from aisb.effects.stop import stop
from aisb.effects.supervise import run_beside
from aisb.errors import AisbError, Unavailable, Unprotected, UsageError
from aisb.render.argv import HOME_TARGET, PROJECT_TARGET, exec_argv, in_directory
from aisb.render.denials import denial_lines
from aisb.render.identity import environment_block, parse_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aisb.effects.session import Session
    from aisb.effects.state import Directories
    from aisb.effects.supervise import Outcome

_USAGE = "write: aisb exec RUN [--tty] [--cwd DIR] [--env NAME] -- COMMAND ARG..."


class _Wish(NamedTuple):
    """A line of `aisb exec`."""

    run: str
    terminal: bool
    directory: str
    env: tuple[str, ...]
    command: tuple[str, ...]


def exec_verb(words: tuple[str, ...]) -> int:
    """Run one more command in a sandbox that runs, as any command of it; its exit code."""
    if {"--help", "-h"} & set(words[: words.index("--")] if "--" in words else words):
        from aisb.cli.help import print_help

        return print_help(["exec"])
    wish = _parsed(list(words))
    where = directories(os.environ)
    session = _need(where, wish.run, ".", lambda other: line_of("aisb", "exec", other, *_rest(words, wish.run)))
    asked = [parse_variable(Setting(text, "--env")) for text in wish.env]
    given = values_of(asked, os.environb)
    for note in values_in_sight(asked, "what is passed on by its name is private: --env NAME"):
        say(f"note: {note}")
    host = need_host(where.cache, SystemRunner(), os.environ.get("PATH", ""), "")
    variables = sealed(environment_block(_environment(session, given, terminal=wish.terminal)))
    home = _home_of(session)
    place = posixpath.normpath(posixpath.join(home, wish.directory)) if wish.directory else ""
    command = in_directory(place, wish.command) if place else wish.command
    os.chdir("/")
    argv = exec_argv(host.podman, session.run, home, command, terminal=wish.terminal)
    with denied_meanwhile(session) as lines:
        code = _code_of(run_beside(argv, variables), session)
    for line in denial_lines(lines):
        say(line)
    return code


def _code_of(outcome: Outcome, session: Session) -> int:
    """The command's exit code. Raises as that does, and says so where it is because the run's gate has ended."""
    try:
        return outcome.exit_code()
    except Unprotected as refusal:
        if not has_lost_its_gate(session):
            raise
        hint = f"the gate of this run has ended: end the run, and start a new one: aisb stop {session.run}"
        raise Unprotected(refusal.message, hint) from refusal


def _rest(words: tuple[str, ...], run: str) -> list[str]:
    """A line of `aisb exec` without its run."""
    rest = list(words)
    if run in rest:
        rest.remove(run)
    return rest


def _parsed(words: list[str]) -> _Wish:
    """Flags may stand before the run and behind it; what follows `--` is the command."""
    if "--" not in words or words[-1:] == ["--"]:
        raise UsageError("aisb exec takes a command after --", hint=_USAGE)
    cut = words.index("--")
    ours, command = words[:cut], words[cut + 1 :]
    found: dict[str, list[str]] = {"--cwd": [], "--env": [], "--tty": []}
    runs = []
    while ours:
        name, equals, value = ours.pop(0).partition("=")
        if name == "--tty" and not equals:
            found[name].append("")
        elif name in ("--cwd", "--env"):
            if not equals and not ours:
                raise UsageError(f"aisb exec: {name} needs a value", hint=_USAGE)
            found[name].append(value if equals else ours.pop(0))
        elif name.startswith("-"):
            raise UsageError(f"aisb exec has no flag {printable(name)}", hint=_near_flag(name, found) or _USAGE)
        else:
            runs.append(name + equals + value)
    if len(runs) != 1 or not runs[0]:
        raise UsageError("aisb exec takes one run before --", hint=_USAGE)
    run = "" if runs[0] == "." else runs[0]
    return _Wish(run, bool(found["--tty"]), (found["--cwd"] or [""])[-1], tuple(found["--env"]), tuple(command))


def _near_flag(name: str, known: Iterable[str]) -> str:
    """The flag that was probably meant, as a question; "" without one."""
    # As podman's exec has it.
    words = "--tty" if name in ("-it", "-ti", "-t") else nearest_word(name, known) or nearest_flag(name) or ""
    return f"did you mean {words}?" if words in known else ""


def _need(where: Directories, run: str, project: str, line: Callable[[str], str]) -> Session:
    """
    The run that is meant, where it goes on. `line` is the command line with another run in its place.

    Raises UsageError for one that has ended, with how, and for none; what is proposed is of this project.
    """
    if run and not any(session.run.startswith(run) for session in living(where.runtime)):
        own = [session.run for session in living(where.runtime) if is_of(session, _project_here(where, project))]
        hint = f"this project's run: {line(own[-1])}" if own else "see what ran, and how it ended: aisb ps --all"
        why = _why_not(where, run)
        if any(session.run.startswith(run) for session in every_orphan(where.runtime)):
            hint = f"take away what it has left: aisb clean\n{hint}"
        raise UsageError(why, hint=hint)
    resolved = "" if run else _project_meant(where, project)
    session = find_run(where.runtime, resolved, run, "run")
    if session is None:
        raise UsageError(f"no sandbox of {resolved} is running", hint="see what runs: aisb ps")
    return session


def _project_meant(where: Directories, project: str) -> str:
    """The project. Raises UsageError where this is none: nothing can be running in it."""
    try:
        return resolve_project(project, os.environ, where)
    except UsageError as refusal:
        if not os.path.isdir(project):
            raise
        what = f"no sandbox is running in {os.path.realpath(project)}, which is no project"
        raise UsageError(what, hint="see what runs, and name it: aisb ps") from refusal


def _project_here(where: Directories, project: str) -> str:
    """The project; "" where this is none, which a run that is named by its id need not be in."""
    try:
        return resolve_project(project, os.environ, where)
    except AisbError:
        return ""


def _why_not(where: Directories, run: str) -> str:
    """Why a run that is named so does not go on."""
    from aisb.effects.run_list import ended_run

    try:
        over = ended_run(where, run)
    except UsageError:
        # Several that have ended.
        over = None
    if over is None:
        return f"no run whose id begins with {run} goes on"
    return f"run {over['run']} has ended: {_how_it_ended(over)}"


def _how_it_ended(over: dict[str, Any]) -> str:
    reason = printable(over["reason"])
    how = ended_words(over)
    return f"{how}, {reason}" if reason and over["exit"] != 0 else how


def _home_of(session: Session) -> str:
    """Where its commands begin: in its project, or at home without one."""
    if not read_if_there(f"{session.files}/project"):
        return HOME_TARGET
    return _text(session, "project-target").removesuffix("\n") or PROJECT_TARGET


def _environment(session: Session, given: dict[bytes, bytes], *, terminal: bool) -> dict[bytes, bytes]:
    """What the run's own command has, what it was given included; of a terminal this one's name. What is given wins."""
    lent = read_if_there(session.variables)
    if lent is None and session.run == PASTED:
        said = f"run {session.run} came from pasted lines (--dry-run): no command can be added to it"
        raise Unavailable(said, hint="end it, and start it by aisb, without --dry-run")
    number = (lent or b"-1").decode("ascii", "replace").strip()
    block = sealed_by(owner_of(session), int(number) if number.isdigit() else -1)
    name = os.environb.get(b"TERM", b"") if terminal else b""
    return parse_block(block) | ({b"TERM": name} if name else {}) | given


def _text(session: Session, name: str) -> str:
    return (read_if_there(f"{session.files}/{name}") or b"").decode("utf-8", "surrogateescape")


def ps_verb(*, everything: bool, as_json: bool) -> None:
    """A line for each run that goes on, or for every one that is on record."""
    from aisb.effects.run_list import list_runs
    from aisb.render.runs import run_lines

    found = list_runs(directories(os.environ), everything=everything)
    if not found and not as_json:
        # Not on stdout: what reads the list finds no run in it.
        say("no run is on record" if everything else "no sandbox is running; what ran before: aisb ps --all")
    lines = run_lines(found, everything=everything)
    answer(answer_text({"runs": found}) if as_json else "".join(f"{line}\n" for line in lines))


def inspect_run_verb(run: str, *, packages: bool) -> None:
    """Print what a run is, or was and how it ended, as one JSON object."""
    from aisb.effects.run_list import ended_run
    from aisb.effects.run_state import state_of

    if packages:
        raise UsageError("--packages is of the images", hint="aisb inspect --packages, without a run")
    where = directories(os.environ)
    if run != "." and (over := ended_run(where, run)):
        answer(answer_text(over))
        return
    session = _need(where, "" if run == "." else run, ".", lambda other: f"aisb inspect {other}")
    host = need_host(where.cache, SystemRunner(), os.environ.get("PATH", ""), "")
    answer(answer_text(state_of(session, host.podman, SystemRunner())))


def stop_verb(runs: Sequence[str], project: str) -> int:
    """Have them end as by SIGTERM, and wait for that. Where one of them is not known, none is told."""
    here = [] if project == "." else ["--project", project]
    where = directories(os.environ)

    def line(run: str) -> Callable[[str], str]:
        return lambda other: line_of("aisb", "stop", *_with(runs or [run], run, other), *here)

    found = [_need(where, "" if run == "." else run, project, line(run)) for run in runs or ["."]]
    sessions = list(dict.fromkeys(found))
    stop(sessions)
    for session in sessions:
        say(f"run {session.run} has ended")
    return 0


def _with(runs: Sequence[str], unknown: str, other: str) -> list[str]:
    """The runs of a line with another in the place of one, and once."""
    return [other if run == unknown else run for run in runs if run == unknown or not other.startswith(run)]
