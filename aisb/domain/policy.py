"""
The policy: one frozen object from which everything else is rendered.

Every value in it went through its door already; each allow item remembers where it came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import ip_interface
from typing import TYPE_CHECKING

from aisb.domain.entries import parse_entries
from aisb.domain.entry_kinds import Entry, HostPortEntry, PresetEntry
from aisb.domain.gather import gather
from aisb.domain.net import ALLOW, PINNED
from aisb.domain.no_gate import closed_parts, kept_alone, refuse_rules
from aisb.domain.presets import expanded, items_of, need_preset, nothing_of
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aisb.domain.egress import EgressPolicy
    from aisb.domain.gather import Gathered, SourcedHost
    from aisb.domain.inject_flag import Injected
    from aisb.domain.layers import Setting
    from aisb.domain.limits import Limit
    from aisb.domain.names import NameEntry
    from aisb.domain.presets import Registries
    from aisb.domain.publish import Published

_FLAG = "--allow"
_PROXY = "--proxy"
HOSTS_HINT = "write: aisb --allow llm.example.com, or --net none for no network at all"
_NETWORK = re.compile(r"\[?([0-9a-fA-F:.]+/[0-9]+)")


@dataclass(frozen=True, slots=True)
class AllowItem:
    """An entry and where it was written: a flag, or file:line."""

    entry: Entry
    origin: str


@dataclass(frozen=True, kw_only=True)
class Policy:
    """
    What a run may do. `learn`: everything public besides, to find out what it needs.

    `origins` are those of `net`, `base_image` and `ca_bundle`, where somebody wrote them; `notes` what may not be what
    was meant.
    """

    net: str
    allow: tuple[AllowItem, ...]
    hosts: tuple[SourcedHost, ...] = ()
    environment: tuple[Setting, ...]
    base_image: str
    install: tuple[Setting, ...]
    project: str
    home_volume: str
    ca_bundle: str
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()
    learn: bool = False
    limits: tuple[Limit, ...] = ()
    injections: tuple[Injected, ...] = ()
    # The URL of the proxy that everything goes through, and the variable with its user and password; "" without.
    proxy: str = ""
    proxy_auth: str = ""
    # Names are pinned to addresses, and nobody reads what goes there.
    no_gate: bool = False
    # What of the sandbox can be reached from this machine. Its gate knows nothing of it.
    publish: tuple[Published, ...] = ()

    @property
    def mode(self) -> str:
        """How the sandbox is closed: as `net` says, or without its gate."""
        return PINNED if self.net == ALLOW and self.no_gate else self.net

    @cached_property
    def gathered(self) -> Gathered:
        """What may be reached, and where each rule of it was written."""
        return gather(((item.entry, item.origin) for item in self.allow), self.hosts)

    @property
    def egress(self) -> EgressPolicy:
        """What may be reached, reduced to the fewest entries that mean the same."""
        injections = tuple(sorted(item.injection for item in self.injections))
        return self.gathered.policy._replace(learn=self.learn, injections=injections)

    @property
    def names(self) -> tuple[NameEntry, ...]:
        """The reduced name entries."""
        return self.egress.names


def parse_allow(net: str, sourced: Iterable[tuple[str, str]]) -> tuple[AllowItem, ...]:
    """
    The allow items of (text, origin) pairs, sorted. Raises UsageError for a preset that is none.

    Under another mode nothing is listed. Whoever gives the flag there has to be told; what a file says for every run
    is not meant for this one.
    """
    items = {AllowItem(entry, origin) for argument, origin in sourced for entry in _parse_sourced(argument, origin)}
    ordered = _ordered(items)
    for item in ordered:
        if isinstance(item.entry, PresetEntry):
            need_preset(item.entry.name, _shown(item))
    if net == ALLOW:
        return ordered
    if any(item.origin == _FLAG for item in items):
        raise UsageError(f"--allow has no meaning under --net {net}", hint="leave one of the two out")
    return ()


def with_presets(policy: Policy, registries: Callable[[], Registries]) -> Policy:
    """The policy with the entries of presets in their places. `registries` is asked only where one is a registry's."""
    if not any(isinstance(item.entry, PresetEntry) for item in policy.allow):
        return without_gate(policy)
    pairs = expanded(((item.entry, item.origin) for item in policy.allow), registries)
    items = {AllowItem(entry, origin) for entry, origin in pairs}
    names = sorted({item.entry.name for item in policy.allow if isinstance(item.entry, PresetEntry)})
    notes = (nothing_of(name) for name in names if not items_of(name, registries))
    return without_gate(replace(policy, allow=_ordered(items), notes=(*policy.notes, *notes)))


def without_gate(policy: Policy) -> Policy:
    """The policy as it can be kept: where it is to be without a gate, UsageError for what takes one."""
    if policy.mode != PINNED:
        return policy
    refuse_rules(policy.hosts)
    items = {AllowItem(kept_alone(item.entry, _shown(item)), item.origin) for item in policy.allow}
    allow = _ordered(items)
    notes = (*policy.notes, *closed_parts(item.entry for item in allow))
    return replace(policy, allow=allow, notes=tuple(dict.fromkeys(notes)))


def _ordered(items: Iterable[AllowItem]) -> tuple[AllowItem, ...]:
    return tuple(sorted(items, key=lambda item: (item.entry.text(), item.origin)))


def host_bits_notes(sourced: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """What to say of networks that were written as an address in them: what is allowed is all of the network."""
    found = ((text, origin, _NETWORK.match(text)) for text, origin in sourced if "/" in text)
    pairs = ((text, origin, ip_interface(match[1])) for text, origin, match in found if match)
    return tuple(
        f"{origin}{' ' if origin == _FLAG else ': '}{text} means all of {address.network}"
        for text, origin, address in pairs
        if address.ip != address.network.network_address
    )


def _shown(item: AllowItem) -> str:
    return f"{item.origin} {item.entry.text()!r}" if item.origin == _FLAG else f"{item.origin}: {item.entry.text()!r}"


def _parse_sourced(argument: str, origin: str) -> list[Entry]:
    """The entries; what is wrong with one is said of where it stands."""
    try:
        return parse_entries(argument)
    except UsageError as error:
        if origin == _FLAG:
            raise
        raise UsageError(f"{origin}: {error.message.removeprefix(_FLAG).strip()}", error.hint) from error


def _refuse_a_circle(policy: Policy) -> None:
    """A port inside that leads to this machine is no server's: a client of it would come back, again and again."""
    for item in policy.publish:
        for allowed in policy.allow:
            if isinstance(allowed.entry, HostPortEntry) and allowed.entry.port == item.port:
                what = f"--publish {item.text()}: port {item.port} inside leads to this machine ({_shown(allowed)})"
                raise UsageError(what, hint="leave one of the two out, or have the server inside take another port")


def need_entries(policy: Policy) -> Policy:
    """The policy. An empty list under `allow` is an error: it would be a sandbox that nobody asked for."""
    need_sound(policy)
    if policy.net != ALLOW or policy.allow or policy.hosts or policy.learn:
        return policy
    if policy.notes:
        raise UsageError(f"nothing is allowed yet: {'; '.join(policy.notes)}", hint=HOSTS_HINT)
    raise UsageError("nothing is allowed yet: name the hosts that the agent may reach", hint=HOSTS_HINT)


def need_sound(policy: Policy) -> Policy:
    """
    The policy, which may allow nothing yet. An error is what cannot be meant by it.

    So are rules behind a proxy that is spoken to in TLS: squid opens no TLS inside of TLS. And so is a port that would
    lead in and out again.
    """
    _refuse_a_circle(policy)
    if policy.proxy.startswith("https://") and policy.egress.rules:
        raise UsageError(
            f"{policy.origins.get('proxy', _PROXY)} {policy.proxy}: the gate cannot read the requests to "
            f"{policy.egress.rules[0].host} through a proxy that it speaks TLS to",
            hint="give the proxy as http://HOST:PORT, or allow the host without methods and paths",
        )
    return policy
