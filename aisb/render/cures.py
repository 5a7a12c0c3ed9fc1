"""The entry that would allow what was refused, for a person to paste: one that the parser takes, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.hosts import canonical_host
from aisb.domain.names import WEB_PORTS
from aisb.domain.proposals import entry_for
from aisb.domain.verdict import Reason
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_BY_PLACE = (Reason.NOT_LISTED, Reason.PORT, Reason.DNS, Reason.DIRECT_ADDRESS)
# What was asked for there is in the record alone.
_BY_RECORD = (Reason.METHOD, Reason.PATH)


def cure_of(host: str, port: int, reason: str, add: str) -> str:
    """The entry; "" where none would help. `add` is what the record proposes."""
    if reason in _BY_PLACE and _is_host(host):
        entry = entry_for(host, port or WEB_PORTS[0])
    elif reason in _BY_RECORD and add.isascii() and add.isprintable():
        entry = add
    else:
        entry = ""
    return entry if entry and _is_taken(entry) else ""


def quoted(words: Iterable[str]) -> str:
    """The words as a shell takes them."""
    # Only here: the module costs a start some milliseconds.
    from shlex import join

    return join(words)


def _is_host(host: str) -> bool:
    """Whether this is a name or an address in canonical form: what is proposed may be pasted into a shell."""
    try:
        return canonical_host(host) == host
    except ValueError:
        return False


def _is_taken(entry: str) -> bool:
    # Loading the list of names below which are many owners takes a while: only where there is an entry to propose.
    from aisb.domain.entries import parse_entry

    try:
        parse_entry(entry)
    except UsageError:
        return False
    return True
