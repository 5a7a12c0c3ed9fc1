"""
What may be reached, as one value, and its canonical JSON: the same meaning gives the same bytes.

aisb writes it, the gate reads it, and a sandbox may look at it: there are no origins and no paths of the host in it.
The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any, NamedTuple

from aisb.domain.addresses import AddressEntry
from aisb.domain.hosts import canonical_name
from aisb.domain.http_rules import HostPolicy, parse_rule
from aisb.domain.injection import Injection, header_form
from aisb.domain.names import EXACT, MATCHES, WEB_PORTS, NameEntry

VERSION = 4
_DOCUMENT = ("version", "names", "addresses", "host_ports", "rules", "learn", "injections")


class EgressPolicy(NamedTuple):
    """
    Entries of each kind, reduced and sorted, and the rules of hosts. `host_ports` are of the host's loopback.

    `learn` opens everything public on ports 80 and 443 as well, to find out what a command needs. `injections` open
    nothing: they say where secrets go, and hold none.
    """

    names: tuple[NameEntry, ...] = ()
    addresses: tuple[AddressEntry, ...] = ()
    host_ports: tuple[int, ...] = ()
    rules: tuple[HostPolicy, ...] = ()
    learn: bool = False
    injections: tuple[Injection, ...] = ()

    @property
    def bumped(self) -> tuple[str, ...]:
        """The hosts to which TLS is opened, sorted: those with rules, and those into whose requests a secret goes."""
        return tuple(sorted({host.host for host in self.rules} | {item.host for item in self.injections}))

    @property
    def listed_names(self) -> tuple[NameEntry, ...]:
        """Every name that may be asked for at all: what bounds squid from outside."""
        return (*self.names, *(NameEntry(policy.host, EXACT, WEB_PORTS) for policy in self.rules))


def policy_json(policy: EgressPolicy) -> str:
    """The canonical JSON of a reduced policy."""
    document = {
        "addresses": [{"network": str(address.network), "port": address.port} for address in policy.addresses],
        "host_ports": list(policy.host_ports),
        "injections": [item._asdict() for item in policy.injections],
        "learn": policy.learn,
        "names": [name._asdict() for name in policy.names],
        "rules": [{"host": host.host, "rules": [rule._asdict() for rule in host.rules]} for host in policy.rules],
        "version": VERSION,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"


def read_policy(text: str) -> EgressPolicy:
    """The policy in canonical JSON. Raises ValueError for anything that `policy_json` does not write."""
    try:
        version, names, addresses, host_ports, rules, learn, injections = _fields(json.loads(text), *_DOCUMENT)
        if version != VERSION:
            raise ValueError(f"this policy is not of version {VERSION}")
        policy = EgressPolicy(
            names=tuple(map(_name, names)),
            addresses=tuple(map(_address, addresses)),
            host_ports=tuple(map(_port, host_ports)),
            rules=tuple(map(_host_policy, rules)),
            learn=_flag(learn),
            injections=tuple(map(_injection, injections)),
        )
        # What is twice or in another order is not written again.
        if policy_json(policy) == text:
            return policy
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError("this policy is not in canonical form") from error
    raise ValueError("this policy is not in canonical form")


def _fields(item: object, *names: str) -> list[Any]:
    if not isinstance(item, dict) or set(item) != set(names):
        raise ValueError(f"in its canonical form this has the fields {' '.join(names)}")
    return [item[name] for name in names]


def _name(item: object) -> NameEntry:
    host, match, ports = _fields(item, "host", "match", "ports")
    if canonical_name(host) != host or match not in MATCHES:
        raise ValueError("a name entry is not in canonical form")
    return NameEntry(host, match, tuple(map(_port, ports)))


def _address(item: object) -> AddressEntry:
    network, port = _fields(item, "network", "port")
    # A number would be read as an address too.
    if not isinstance(network, str):
        raise TypeError("a network is text")
    return AddressEntry(ip_network(network), None if port is None else _port(port))


def _injection(item: object) -> Injection:
    host, header = _fields(item, "host", "header")
    if canonical_name(host) != host or header_form(header) != header:
        raise ValueError("an injection is not in canonical form")
    return Injection(host, header)


def _flag(item: object) -> bool:
    if not isinstance(item, bool):
        raise TypeError("a flag is true or false")
    return item


def _port(item: object) -> int:
    if type(item) is not int or not 1 <= item <= 65535:
        raise ValueError("a port is a number from 1 to 65535, in canonical form")
    return item


def _host_policy(item: object) -> HostPolicy:
    host, rules = _fields(item, "host", "rules")
    if canonical_name(host) != host:
        raise ValueError("a host with rules is not in canonical form")
    return HostPolicy(host, tuple(parse_rule(*_fields(rule, "action", "method", "path")) for rule in rules))
