"""
Host names and ports as they come from the wire: text in, one canonical form out, or ValueError.

The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_LAST_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LAST_LABEL}")
# The last label decides whether a resolver reads the whole as an address: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_V4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}")
_V6 = re.compile(r"(?=.*:)[0-9a-f:]{2,39}(?:\.[0-9]{1,3}){0,3}")

LONGEST_NAME = 253
# The names of a request are said several times in it, and again in the next one. What is refused is not kept.
_REMEMBERED = 1024


@lru_cache(maxsize=_REMEMBERED)
def canonical_name(text: str) -> str:
    """
    `text` as a lower-case A-label name without its trailing dot.

    Raises ValueError for everything else: addresses in any spelling, blanks, brackets, Unicode,
    empty labels, and names longer than 253 characters.
    """
    name = text.lower() if text.isascii() else ""
    name = name.removesuffix(".")
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise ValueError(f"{text[:300]!r} is not a host name")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        raise ValueError(f"{text[:300]!r} reads as an address, not as a host name")
    return name


def parents_of(name: str) -> Iterator[str]:
    """The names that `name` is below of, the nearest first."""
    parent = name.partition(".")[2]
    while parent:
        yield parent
        parent = parent.partition(".")[2]


@lru_cache(maxsize=_REMEMBERED)
def is_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address in the usual spelling, without brackets."""
    if _V4.fullmatch(text):
        return True
    if not _V6.fullmatch(text.lower()):
        return False
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def parse_port(text: str) -> int:
    """`text` as a port: 1 to 65535, without sign, blank or leading zero."""
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError(f"{text[:20]!r} is not a port: 1 to 65535")
    return int(text)


def parse_authority(text: str) -> tuple[str, int]:
    """
    The host and port of a CONNECT target: `name:port`, `1.2.3.4:port` or `[v6]:port`.

    The host comes back canonical. Raises ValueError for every other form, a missing port included.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(f"{text[:300]!r} has no port")
    return parse_host(host), parse_port(port)


def parse_host(text: str) -> str:
    """A host as it stands in a URL: a canonical name, an IPv4 address, or an IPv6 address out of its brackets."""
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].lower()
        if ":" not in inner or not is_address(inner):
            raise ValueError(f"{text[:300]!r} is not an address")
        return inner
    if _V4.fullmatch(text):
        return text
    return canonical_name(text)


@lru_cache(maxsize=_REMEMBERED)
def canonical_host(text: str) -> str:
    """A host in its one canonical form: a name, or an address out of its brackets and in its shortest spelling."""
    # Brackets belong around an IPv6 address only; parse_host refuses any others.
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") and ":" in text else text
    if not is_address(bare):
        return parse_host(text)
    from ipaddress import ip_address

    return str(ip_address(bare))


def show_authority(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
