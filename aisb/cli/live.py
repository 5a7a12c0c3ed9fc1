"""`aisb allow` and `aisb deny`: what a sandbox that runs may reach from now on."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.cli.output import say
from aisb.domain.addresses import AddressEntry
from aisb.domain.duration import parse_duration
from aisb.domain.live import ADDRESS, ALLOW, DENY, live_entry
from aisb.domain.names import NameEntry
from aisb.domain.net import ALLOW as NET_ALLOW
from aisb.domain.policy import parse_allow
from aisb.domain.trust import ALLOW_FILE, PROJECT_DIRECTORY
from aisb.effects.guard import runs_that_can_replace
from aisb.effects.live import find_run, has_lost_its_gate, is_of, need_gate_of, save_entry, say_to_gate
from aisb.effects.situation import resolve_project
from aisb.effects.state import directories
from aisb.errors import AisbError, Unavailable, UsageError

if TYPE_CHECKING:
    from aisb.domain.entry_kinds import Entry
    from aisb.domain.live import LiveEntry
    from aisb.effects.session import Session
    from aisb.effects.state import Directories


class _Target(NamedTuple):
    """Where something is said: aisb's directories, the project here, and the run, None without one."""

    where: Directories
    project: str
    session: Session | None


# What a client's session is started with.
_SERVE = "aisb serve"


def allow_verb(text: str, *, period: str, run: str, save: bool, project: str) -> int:
    """Allow it in a running sandbox, and for later runs too if `save`."""
    entries = _parsed(ALLOW, text)
    seconds = parse_duration(period, "--for") if period else 0
    if seconds and save:
        raise UsageError(
            "--for and --save exclude each other: what is saved does not end", hint="leave one of them out"
        )
    target = _target(run, project)
    session = target.session
    if session is None and not save:
        raise UsageError(
            f"no sandbox of {target.project} is running",
            hint=f"for later runs: aisb allow {quote(text)} --save; for one: aisb --allow {quote(text)}",
        )
    if session is not None:
        if save and not is_of(session, target.project):
            raise UsageError(f"run {session.run} is of another project than {target.project}", hint="say it there")
        said = _live(ALLOW, text, entries)
        _say(session, said, seconds)
        _say_what_is_allowed(session, said, period)
    if save:
        _save(target, entries)
    return 0


def deny_verb(text: str, *, run: str, project: str) -> int:
    """Deny it in a running sandbox, and end the connections that go there."""
    entries = _live(DENY, text, _parsed(DENY, text))
    target = _target(run, project)
    if target.session is None:
        raise UsageError(
            f"no sandbox of {target.project} is running", hint=f"what later runs may reach is in {ALLOW_FILE}"
        )
    closed = _say(target.session, entries, 0)
    ended = "1 connection was ended" if closed == 1 else f"{closed} connections were ended"
    say(f"run {target.session.run}: {text} is denied until the run ends; {ended}")
    if any(entry.match == ADDRESS for entry in entries):
        say("note: that is by address: an allowed name that leads there stays open, until: aisb deny NAME")
    return 0


def checked_entry(session: Session, action: str, text: str) -> dict[str, object]:
    """What the entry would be, and nothing else happens. Raises UsageError for what no running sandbox can have."""
    entries = _live(action, text, _parsed(action, text))
    try:
        need_gate_of(session, entries, _SERVE)
    except UsageError as error:
        return {**_answer(action, [], f"nothing is opened by that: {error.message}; {error.hint}"), **_named(entries)}
    addresses = _addresses(entries)
    return _answer(action, entries, _opens_nothing(addresses) if addresses else "")


def say_entry(session: Session, action: str, text: str, seconds: int) -> dict[str, object]:
    """Put an entry in force for a run, for so long (0: to its end); what that is, and how many connections it ended."""
    entries = _live(action, text, _parsed(action, text))
    closed = _say(session, entries, seconds, _SERVE)
    answer = _answer(action, entries, _taken_back(_addresses(entries), f"{seconds} s" if seconds else ""))
    return {**answer, **({"closed": closed} if action == DENY else {})}


def _answer(action: str, entries: list[LiveEntry], note: str) -> dict[str, object]:
    """For a client: the entries, and of an allowance which of them open something, with what is so of the others."""
    found = _named(entries)
    if action == DENY:
        return found
    return {**found, "opened": _names(entries), **({"note": note} if note else {})}


def _named(entries: list[LiveEntry]) -> dict[str, object]:
    return {"entries": [entry.text() for entry in entries]}


def _say_what_is_allowed(session: Session, entries: list[LiveEntry], period: str) -> None:
    if note := _taken_back(_addresses(entries), period):
        say(f"run {session.run}: {note}")
    if names := _names(entries):
        say(f"run {session.run}: {','.join(names)} is allowed {f'for {period}' if period else 'until the run ends'}")


def _addresses(entries: list[LiveEntry]) -> list[str]:
    return [entry.text() for entry in entries if entry.match == ADDRESS]


def _names(entries: list[LiveEntry]) -> list[str]:
    return [entry.text() for entry in entries if entry.match != ADDRESS]


def _taken_back(addresses: list[str], period: str) -> str:
    """What an allowance of addresses has done; "" where there are none."""
    if not addresses:
        return ""
    lasting = f"for {period}" if period else "any more"
    return f"{','.join(addresses)}: not denied {lasting}; {_opens_nothing(addresses)}"


def _opens_nothing(addresses: list[str]) -> str:
    # No word opens an address: all that one can do is to take a denial back.
    flags = " ".join(f"--allow {quote(text)}" for text in addresses)
    return f"nothing is opened by that: what is open by address is what a run begins with: aisb {flags}"


def _parsed(action: str, text: str) -> list[Entry]:
    return [item.entry for item in parse_allow(NET_ALLOW, [(text, f"aisb {action}")])]


def _live(action: str, text: str, entries: list[Entry]) -> list[LiveEntry]:
    """The entries as a gate takes them. Raises UsageError for kinds that a run has from its start or not at all."""
    found = [live_entry(action, entry) for entry in entries if isinstance(entry, NameEntry | AddressEntry)]
    if len(found) != len(entries):
        raise UsageError(
            f"aisb {action} {text}: while a sandbox runs, only names and addresses change",
            hint="end that run, and start one without it"
            if action == DENY
            else f"start a new run for it: aisb --allow {quote(text)}",
        )
    return found


def _target(run: str, project: str) -> _Target:
    where = directories(os.environ)
    resolved = resolve_project(project, os.environ, where)
    return _Target(where, resolved, find_run(where.runtime, resolved, run))


def written_beside(project: str, runtime: str) -> list[str]:
    """What to say where `.ai-sandbox` was made while runs go on that can write there: so long a new one is refused."""
    return [
        f"note: run {run} began without {PROJECT_DIRECTORY} and can write there: the next run here is refused until it "
        f"ends, by itself or by: aisb stop {run}"
        for run in runs_that_can_replace(f"{project}/{PROJECT_DIRECTORY}", runtime)
    ]


def _say(session: Session, entries: list[LiveEntry], seconds: int, start: str = "aisb") -> int:
    try:
        return say_to_gate(session, entries, seconds, start)
    except Unavailable as error:
        if has_lost_its_gate(session):
            raise Unavailable(
                f"the gate of run {session.run} has ended: nothing outside is reached from it any more",
                hint=f"end that run, and start a new one: aisb stop {session.run}",
            ) from error
        if entries[0].allows:
            what = f"{entries[0].text()} is not allowed in run {session.run}"
            hint = f"try again, or start a new run with: {start} --allow {quote(entries[0].text())}"
        else:
            what = f"that {entries[0].text()} is denied in run {session.run} could not be proved"
            hint = "try again, or end that run"
        raise Unavailable(f"{what}: {error.message}", hint) from error


def _save(target: _Target, entries: list[Entry]) -> None:
    for entry in entries:
        try:
            is_added = save_entry(target.project, target.where.state, entry.text())
        except AisbError as error:
            raise type(error)(f"{entry.text()} was not saved for later runs: {error.message}", error.hint) from error
        done = "added, and trusted" if is_added else "there already"
        say(f"{target.project}/{ALLOW_FILE}: {entry.text()}: {done}")
    for line in written_beside(target.project, target.where.runtime):
        say(line)
