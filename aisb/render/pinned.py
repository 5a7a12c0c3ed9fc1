"""The ruleset of a sandbox without a gate, but for the addresses of its names, which a start looks up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.addresses import PRIVATE_V4, PRIVATE_V6
from aisb.domain.net import HOST_V4, HOST_V6
from aisb.render.environment import render
from aisb.render.gate_addresses import GUARDED_V4, GUARDED_V6, accepted, by_family
from aisb.render.sandbox import DNS_PORT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.egress import EgressPolicy


class PinnedView(NamedTuple):
    """What pinned.nft.j2 sees."""

    names: tuple[tuple[str, tuple[int, ...]], ...]
    host_addresses4: tuple[str, ...]
    host_addresses6: tuple[str, ...]
    accepted_alone: tuple[str, ...]
    accepted_networks: tuple[str, ...]
    guarded4: tuple[str, ...] = GUARDED_V4
    guarded6: tuple[str, ...] = GUARDED_V6
    private4: tuple[str, ...] = PRIVATE_V4
    private6: tuple[str, ...] = PRIVATE_V6
    mapped4: tuple[str, ...] = HOST_V4
    mapped6: tuple[str, ...] = HOST_V6
    dns_port: int = DNS_PORT


def pinned_ruleset(egress: EgressPolicy, host_addresses: Iterable[str]) -> str:
    """The ruleset for these entries; `pin_elements` completes it."""
    addresses4, addresses6 = by_family(sorted(set(host_addresses)))
    alone, networks = accepted(egress.addresses)
    return render(
        "pinned.nft.j2",
        PinnedView(
            names=tuple((entry.host, entry.ports) for entry in egress.names),
            host_addresses4=addresses4,
            host_addresses6=addresses6,
            accepted_alone=alone,
            accepted_networks=networks,
        ),
    )
