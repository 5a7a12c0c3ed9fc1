"""What aisb says at the start and at the end of a run: short, and true to the policy."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import show_authority
from aisb.domain.limits import MEMORY, PIDS, TIMEOUT
from aisb.domain.live import CLOSING
from aisb.domain.rules import CLOSED, CUT_OFF, PROBED, SENTENCES, Reason
from aisb.render.cures import cure_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aisb.domain.limits import Limit

_MOST = 20
_HITS = {
    MEMORY: "a program of the sandbox was killed: its memory was used up",
    PIDS: "the sandbox could not start another process: it had all that it may have",
    TIMEOUT: "the command was ended: its time was over",
}
_FULL = "the record of this run is full: what came later is not in it, nor below"


class _Event(NamedTuple):
    """A destination, and the word for what became of it."""

    host: str
    port: int
    what: str
    # The rule that would have allowed it, where a method or a path was refused.
    add: str = ""


class StartView(NamedTuple):
    """What the two start lines are made of. `named` is the project's path as it was given, before its links."""

    project: str
    named: str
    user_home: str
    home_volume: str
    net: str
    names: int
    addresses: int
    host_ports: int
    gate: str
    warm: bool
    learn: bool = False


def start_lines(view: StartView) -> tuple[str, str]:
    """What is mounted, and what may be reached."""
    return _mounted(view), _reachable(view)


def _mounted(view: StartView) -> str:
    if not view.project:
        return f"no project mounted, home {view.home_volume}"
    places = dict.fromkeys((view.named, view.project))
    shown = " -> ".join(_short(place, view.user_home) for place in places)
    return f"{shown} -> /project (rw), home {view.home_volume}"


def _reachable(view: StartView) -> str:
    if view.net == "none":
        return "no network"
    if view.net == "full":
        return (
            "WARNING: --net full: everything but this host's loopback can be reached, nothing is filtered or recorded"
        )
    names = f"{view.names} name" if view.names == 1 else f"{view.names} names"
    addresses = f"{view.addresses} address" if view.addresses == 1 else f"{view.addresses} addresses"
    ports = f", {view.host_ports} {'port' if view.host_ports == 1 else 'ports'} of this host" if view.host_ports else ""
    besides = " and everything public" if view.learn else ""
    return f"allow {names}, {addresses}{ports}{besides}; gate {view.gate} {'warm' if view.warm else 'started'}"


def learn_lines() -> tuple[str, ...]:
    """What is said whenever a run learns, however quiet it is to be."""
    return (
        "WARNING: LEARNING: EVERY PUBLIC HOST IS OPEN to this run on ports 80 and 443",
        "WARNING: whatever it can read, the project too, it can send anywhere; private addresses stay closed",
    )


def _short(path: str, home: str) -> str:
    return "~" + path.removeprefix(home) if home and path.startswith(home + "/") else path


def denial_lines(audit: Iterable[str]) -> list[str]:
    """
    Each destination that was refused, how often and why, with the entry that would allow it.

    Then what was allowed and came to nothing all the same.
    """
    records = [_record(line) for line in audit]
    # Before anything that an agent can make many lines of.
    full = [_FULL] if any(record.get("method") == CUT_OFF for record in records) else []
    denied = Counter(_denial(record) for record in records if _is_denial(record))
    failed = Counter(_place_and(record, "failed") for record in records if record.get("failed"))
    return [*full, *_summed_up(denied, _denial_line), *_summed_up(failed, _failure_line)]


def _summed_up(counts: Counter[_Event], line_of: Callable[[_Event, str], str]) -> list[str]:
    shown = [line_of(event, f" ({count} times)" if count > 1 else "") for event, count in counts.most_common(_MOST)]
    rest = len(counts) - len(shown)
    return [*shown, f"... and {rest} other destinations: aisb logs --summary"] if rest > 0 else shown


def _is_denial(record: dict[str, object]) -> bool:
    """Whether this is a refusal, and not of the start's own probe."""
    if record.get("method") == CUT_OFF:
        return False
    return record.get("decision") == "deny" and record.get("host") not in PROBED


def _place_and(record: dict[str, object], key: str) -> _Event:
    port = record.get("port")
    return _Event(str(record.get("host")), port if isinstance(port, int) else 0, str(record.get(key)))


def _denial(record: dict[str, object]) -> _Event:
    event = _place_and(record, "reason")
    add, rule = record.get("add"), record.get("rule")
    if isinstance(rule, str) and rule.startswith(CLOSING):
        return event._replace(what=CLOSED)
    return event._replace(add=add) if event.what in (Reason.METHOD, Reason.PATH) and isinstance(add, str) else event


def _denial_line(event: _Event, times: str) -> str:
    host, port, reason, add = event
    if reason == CLOSED:
        return f"denied {_where(event)}{times}: {CLOSED}"
    entry = cure_of(host, port, reason, add)
    cure = f"to allow it, add: {quoted(('--allow', entry))}" if entry else "no entry would allow this"
    return f"denied {_where(event) or 'what was no request'}{times}: {SENTENCES.get(reason, reason)}; {cure}"


def _failure_line(event: _Event, times: str) -> str:
    return f"{_where(event)} {SENTENCES.get(event.what, event.what)}{times}"


def _where(event: _Event) -> str:
    return show_authority(event.host, event.port) if event.port else event.host


def _record(line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def limit_lines(hits: Iterable[str], limits: Iterable[Limit], timeout_seconds: int) -> list[str]:
    """What the sandbox ran into of its caps, with the flag that changes each."""
    values = {limit.name: limit.value for limit in limits} | {TIMEOUT: f"{timeout_seconds}s"}
    return [f"{_HITS[name]} (--{name} {values.get(name, '')})" for name in hits if name in _HITS]


def timing_lines(marks: list[tuple[str, float]]) -> list[str]:
    """How many milliseconds each phase took after the one before it."""
    return [f"{name:<8} {1000 * (end - start):7.1f} ms" for (_, start), (name, end) in pairwise(marks)]
