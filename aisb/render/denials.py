"""What aisb says at the end of a run: what was refused, and what came to nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import show_authority
from aisb.domain.live import CLOSING
from aisb.domain.names import PROBED, WEB_PORTS
from aisb.domain.verdict import CLOSED, CUT_OFF, SENTENCES, Failure, Reason
from aisb.render.cures import cure_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MOST = 20
_FULL = "the record of this run is full: what came later is not in it, nor below"
_STALE = "the name servers of this machine have changed since this run began: a new run asks the new ones"


class _Event(NamedTuple):
    """A destination, and the word for what became of it."""

    host: str
    port: int
    what: str
    # The rule that would have allowed it, where a method or a path was refused.
    add: str = ""


def denial_lines(audit: Iterable[str], *, new_resolvers: bool = False) -> list[str]:
    """
    Each destination that was refused, how often and why, with the entry that would allow it.

    Then what was allowed and came to nothing all the same; `new_resolvers`: this host asks others for names by now.
    """
    records = [_record(line) for line in audit]
    # Before anything that an agent can make many lines of.
    full = [_FULL] if any(record.get("method") == CUT_OFF for record in records) else []
    denied = Counter(_denial(record) for record in records if _is_denial(record))
    failed = Counter(_place_and(record, "failed") for record in records if record.get("failed"))
    is_stale = new_resolvers and any(event.what == Failure.UNRESOLVED for event in failed)
    stale = [_STALE] if is_stale else []
    return [*full, *_summed_up(denied, _denial_line), *_summed_up(failed, _failure_line), *stale]


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
    cure = f"to allow it, add: {quoted(('--allow', entry))}" if entry else "no entry is proposed for this"
    if reason == Reason.DNS and not port and entry == host:
        cure += f" (it opens {WEB_PORTS[0]} and {WEB_PORTS[1]}; for another port: {host}:PORT)"
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
