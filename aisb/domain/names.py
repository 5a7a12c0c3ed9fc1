"""
Name entries, and the names that are aisb's own.

The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import parents_of

if TYPE_CHECKING:
    from collections.abc import Iterable

TLS_PORT = 443
WEB_PORTS = (80, TLS_PORT)

OWN_SUFFIX = "aisb.internal"
# Answered inside the gate itself: every start proves the way through with it, and no host of the user's is asked.
PROBE_NAME = f"ok.{OWN_SUFFIX}"
# What each start tries to reach and must not (gate/probe.py): in the audit, but nobody's news.
PROBED = ("192.0.2.1", "2001:db8:ffff::1", f"denied.{OWN_SUFFIX}")
# The host's loopback, where an entry opens a port of it; the others are what a program inside may call it too.
HOST_NAME = f"host.{OWN_SUFFIX}"
LOOPBACK = ("localhost", "127.0.0.1", "::1")

TREE = "tree"
EXACT = "exact"
BELOW = "below"
MATCHES = (TREE, EXACT, BELOW)


class NameEntry(NamedTuple):
    """A name that may be reached: itself (`exact`), what is below it (`below`) or both (`tree`)."""

    host: str
    match: str
    ports: tuple[int, ...]

    def text(self) -> str:
        """The entry as a person would write it."""
        prefix = {TREE: "", EXACT: "exact:", BELOW: "below:"}[self.match]
        if self.ports == WEB_PORTS:
            return prefix + self.host
        return ",".join(f"{prefix}{self.host}:{port}" for port in self.ports)

    def covers_name(self, name: str) -> bool:
        """Whether the canonical `name` falls under this entry, on whatever port."""
        if name == self.host:
            return self.match != BELOW
        return self.match != EXACT and name.endswith("." + self.host)


def is_own(name: str) -> bool:
    """Whether a canonical name is one of aisb's own, which no entry can name."""
    return name == OWN_SUFFIX or name.endswith("." + OWN_SUFFIX)


def covering_lines(entries: Iterable[NameEntry]) -> tuple[str, ...]:
    """
    The names of entries as squid lists them; a leading dot means "and everything below".

    squid knows no "only what is below". A name under another one is left out, because squid refuses to start with
    both.
    """
    listed = tuple(entries)
    trees = {entry.host for entry in listed if entry.match != EXACT}
    exact = {entry.host for entry in listed if entry.match == EXACT}
    roots = {host for host in trees if not trees.intersection(parents_of(host))}
    alone = {host for host in exact if host not in roots and not roots.intersection(parents_of(host))}
    return tuple(sorted({f".{host}" for host in roots} | alone))
