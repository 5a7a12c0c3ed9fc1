"""What a start says of an agent that no configuration of the host goes along with: its key, its models, its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.entries import parse_entry
from aisb.domain.names import TLS_PORT, NameEntry
from aisb.domain.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from aisb.domain.harnesses import Harness


def agent_lines(
    agent: Harness, passed: Collection[str], *, has_key_here: bool, opened: Callable[[tuple[str, int]], bool]
) -> Iterator[str]:
    """
    A note of a key that stays out, and one of hosts that are closed.

    `passed` are the names of variables that go in; `opened` says whether a host and port may be reached.
    """
    # Where it is sent elsewhere nobody knows but who sends it.
    hosts = [] if agent.endpoint in passed else _hosts(agent)
    if agent.token not in passed and has_key_here:
        yield (
            f"note: {agent.token} is set here and stays out; to leave it in the gate: "
            f"--inject {agent.token}@{hosts[0] if hosts else 'HOST'}:{agent.header}"
        )
    closed = [host for host in hosts if not opened((host, TLS_PORT))]
    if closed:
        named = " and ".join(closed)
        yield f"note: {agent.name} speaks to {named}, which nothing allows; to allow it: --allow @{agent.preset}"


def model_lines(passed: Collection[str]) -> tuple[str, ...]:
    """What to say of pi where this machine has no models for it; a key that goes in is one for models of its own."""
    if any(name.endswith(("_API_KEY", "_TOKEN")) for name in passed):
        return ()
    where = "~/.pi/agent"
    make = f"mkdir -p {where} && cp config/examples/models.json {where}"
    return (f"note: this machine has no {where}/models.json, so pi has no model; in the checkout: {make}, and edit it",)


def _hosts(agent: Harness) -> list[str]:
    entries = (parse_entry(item.entry) for item in PRESETS[agent.preset])
    return [entry.host for entry in entries if isinstance(entry, NameEntry)]
