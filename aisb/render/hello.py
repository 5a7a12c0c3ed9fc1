"""What the client of a session is told of its sandbox (docs/session-protocol.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb import __version__
from aisb.domain.exchange import PROTOCOL
from aisb.render.argv import HOME_TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.protected import Cover

_MOST_PATHS = 1000


def hello(
    *,
    image: str,
    user: str,
    project: str,
    cwd: str,
    mounts: Iterable[tuple[str, str, bool]],
    covers: Iterable[Cover],
    policy_directory: str,
    net: str,
    policy_lines: str,
    gate: str,
    limits: Iterable[tuple[str, str]],
) -> dict[str, object]:
    """All of it but the run's own id."""
    kept = [cover for cover in covers if cover.read_only]
    protected = [*([policy_directory] if policy_directory else []), *(item.target for item in kept if not item.shown)]
    return {
        "protocol": PROTOCOL,
        "aisb": __version__,
        "image": image,
        "user": user,
        "home": HOME_TARGET,
        "cwd": cwd,
        "project": project or None,
        "mounts": [{"source": source, "target": target, "readOnly": only} for source, target, only in mounts],
        "protected": protected[:_MOST_PATHS],
        "masked": [item.target for item in kept if item.shown][:_MOST_PATHS],
        "policy": {
            "net": net,
            "allow": numbered(policy_lines, "allow"),
            "rules": numbered(policy_lines, "rule"),
            "gate": gate or None,
        },
        "limits": dict(limits),
    }


def numbered(policy_lines: str, name: str) -> list[str]:
    """The items of that name in a printed policy: those of its lines `NAME.NUMBER=ITEM`."""
    found = []
    for line in policy_lines.splitlines():
        key, _, value = line.partition("=")
        number = key.removeprefix(f"{name}.")
        if number.isdigit():
            found.append((int(number), value))
    return [value for _, value in sorted(found)]
