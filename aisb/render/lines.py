"""What aisb says at the start of a run, short and true to the policy, and how long each part of it took."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.limits import MEMORY, PIDS, TIMEOUT
from aisb.domain.net import PINNED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.limits import Limit
    from aisb.domain.publish import Published

_HITS = {
    MEMORY: "a program of the sandbox was killed: its memory was used up",
    PIDS: "the sandbox could not start another process: it had all that it may have",
    TIMEOUT: "the command was ended: its time was over",
}
# A home without a name.
EPHEMERAL = "that is gone after the run"


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
        return f"no project mounted, home {view.home_volume or EPHEMERAL}"
    places = dict.fromkeys((view.named, view.project))
    shown = " -> ".join(_short(place, view.user_home) for place in places)
    return f"{shown} -> /project (rw), home {view.home_volume or EPHEMERAL}"


def _reachable(view: StartView) -> str:
    if view.net == "none":
        return "no network"
    if view.net == "full":
        return (
            "WARNING: --net full: everything but this host's loopback can be reached, nothing is filtered or recorded"
        )
    if view.net == PINNED:
        return f"WARNING: --no-gate: allow {_counted(view)}; nothing is judged by name, and nothing is recorded"
    ports = f", {view.host_ports} {'port' if view.host_ports == 1 else 'ports'} of this host" if view.host_ports else ""
    besides = " and everything public" if view.learn else ""
    return f"allow {_counted(view)}{ports}{besides}; gate {view.gate} {'warm' if view.warm else 'started'}"


def _counted(view: StartView) -> str:
    names = f"{view.names} name" if view.names == 1 else f"{view.names} names"
    addresses = f"{view.addresses} address" if view.addresses == 1 else f"{view.addresses} addresses"
    return f"{names}, {addresses}"


def no_gate_lines() -> tuple[str, ...]:
    """What is said whenever a run has no gate, however quiet it is to be."""
    return (
        "WARNING: each name was looked up once and means itself alone; no other name resolves, nor what is below it",
        "WARNING: any site at their addresses is open (of a CDN, all of it), TLS or not; a name that moves is lost",
    )


def published_lines(publish: Iterable[Published]) -> tuple[str, ...]:
    """What of the sandbox can be reached from this machine."""
    return tuple(f"127.0.0.1:{item.host} of this machine leads to port {item.port} inside" for item in publish)


def learn_lines(*, proxied: bool = False) -> tuple[str, ...]:
    """What is said whenever a run learns, however quiet it is to be. `proxied`: somebody else resolves the names."""
    private = "its proxy decides about private addresses" if proxied else "private addresses stay closed"
    return (
        "WARNING: LEARNING: EVERY PUBLIC HOST IS OPEN to this run on ports 80 and 443",
        f"WARNING: whatever it can read, the project too, it can send anywhere; {private}",
    )


def _short(path: str, home: str) -> str:
    return "~" + path.removeprefix(home) if home and path.startswith(home + "/") else path


def limit_lines(hits: Iterable[str], limits: Iterable[Limit], timeout_seconds: int) -> list[str]:
    """What the sandbox ran into of its caps, with the flag that changes each."""
    values = {limit.name: limit.value for limit in limits} | {TIMEOUT: f"{timeout_seconds}s"}
    return [f"{_HITS[name]} (--{name} {values.get(name, '')})" for name in hits if name in _HITS]


def timing_lines(marks: list[tuple[str, float]]) -> list[str]:
    """How many milliseconds each phase took after the one before it."""
    return [f"{name:<8} {1000 * (end - start):7.1f} ms" for (_, start), (name, end) in pairwise(marks)]
