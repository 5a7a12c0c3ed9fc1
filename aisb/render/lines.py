"""What aisb says at the start and at the end of a run: short, and true to the policy."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import canonical_name, show_authority
from aisb.domain.rules import PROBED, SENTENCES, WEB_PORTS, Reason, narrowest_entry_for

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_DENIALS = 20
_CURABLE = (Reason.NOT_LISTED, Reason.PORT, Reason.DNS)


class StartView(NamedTuple):
    """What the two start lines are made of."""

    project: str
    user_home: str
    home_volume: str
    net: str
    names: int
    gate: str
    warm: bool


def start_lines(view: StartView) -> tuple[str, str]:
    """What is mounted, and what may be reached."""
    return _mounted(view), _reachable(view)


def _mounted(view: StartView) -> str:
    if not view.project:
        return f"no project mounted, home {view.home_volume}"
    return f"{_short(view.project, view.user_home)} -> /project (rw), home {view.home_volume}"


def _reachable(view: StartView) -> str:
    if view.net == "none":
        return "no network"
    if view.net == "full":
        return (
            "WARNING: --net full: everything but this host's loopback can be reached, nothing is filtered or recorded"
        )
    names = f"{view.names} name" if view.names == 1 else f"{view.names} names"
    return f"allow {names}, 0 addresses; gate {view.gate} {'warm' if view.warm else 'started'}"


def _short(path: str, home: str) -> str:
    return "~" + path.removeprefix(home) if home and path.startswith(home + "/") else path


def denial_lines(audit: Iterable[str]) -> list[str]:
    """Each destination that was refused, how often and why, with the narrowest entry that would allow it."""
    counts = Counter(denial for denial in (_denial_in(line) for line in audit) if denial)
    lines = [_denial_line(*denial, count) for denial, count in counts.most_common(_MOST_DENIALS)]
    rest = len(counts) - len(lines)
    return [*lines, f"... and {rest} other destinations"] if rest > 0 else lines


def _denial_in(line: str) -> tuple[str, int, str] | None:
    """Host, port and reason of a refusal, unless it was the start's own probe."""
    record = _record(line)
    host, port = str(record.get("host")), record.get("port")
    if record.get("decision") != "deny" or host in PROBED:
        return None
    return host, port if isinstance(port, int) else 0, str(record.get("reason"))


def _denial_line(host: str, port: int, reason: str, count: int) -> str:
    where = show_authority(host, port) if port else host or "what was no request"
    times = f" ({count} times)" if count > 1 else ""
    entry = narrowest_entry_for(host, port or WEB_PORTS[0]) if reason in _CURABLE and _is_name(host) else ""
    cure = f"to allow it, add: --allow {entry}" if entry else "no entry would allow this"
    return f"denied {where}{times}: {SENTENCES.get(reason, reason)}; {cure}"


def _is_name(host: str) -> bool:
    """Whether the host is a name in canonical form: what is proposed may be pasted into a shell."""
    try:
        return canonical_name(host) == host
    except ValueError:
        return False


def _record(line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def timing_lines(marks: list[tuple[str, float]]) -> list[str]:
    """How many milliseconds each phase took after the one before it."""
    return [f"{name:<8} {1000 * (end - start):7.1f} ms" for (_, start), (name, end) in pairwise(marks)]
