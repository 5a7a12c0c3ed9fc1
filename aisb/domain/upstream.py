"""
The proxy that a gate sends everything through: from text to a value, with the user and password apart.

A password is in no value that is kept, rendered or printed: it goes from a variable to the gate.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aisb.domain.hosts import canonical_name, is_address, parse_port, show_authority
from aisb.errors import UsageError

_URL = re.compile(r"(https?)://(?:\[([^\]]*)\]|([^:/\[\]@]*)):([0-9]+)/?")
# What a URL with a user in it looks like, whatever else is wrong with it.
_WITH_USER = re.compile(r"[^@]*@.*", re.DOTALL)
_FORM = "https://HOST:PORT or http://HOST:PORT"
# squid encodes a longer one beyond the end of its buffer.
LONGEST_LOGIN = 128
# The words of its own that squid looks for at the beginning of what it is told to log in with.
_SQUIDS_WORDS = (b"*", b"NEGOTIATE")


class Upstream(NamedTuple):
    """A proxy: `scheme` is how the gate speaks to it, `host` a name or an address without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def is_tls(self) -> bool:
        """Whether the gate opens TLS to it, and checks its certificate."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Where it listens, in words."""
        return show_authority(self.host, self.port)

    @property
    def url(self) -> str:
        """The one form in which it is written."""
        return f"{self.scheme}://{self.authority}"


def parse_upstream(text: str, named: str) -> Upstream:
    """
    The proxy of a URL. `named` is what an error about it begins with.

    Raises UsageError; what is said of a URL with a password does not repeat it.
    """
    if _WITH_USER.fullmatch(text):
        raise UsageError(
            f"{named}: a user and a password in a URL can be read in the list of processes and in files",
            hint=f"write: --proxy {_without_user(text)} --proxy-auth VAR, where VAR holds user:password",
        )
    match = _URL.fullmatch(text)
    if not match:
        raise UsageError(f"{named} {text!r} is not the URL of a proxy", hint=f"write: {_FORM}")
    scheme, v6, host, port = match.groups()
    try:
        return Upstream(scheme, _host(host or v6 or "", is_v6=v6 is not None), parse_port(port))
    except ValueError as error:
        raise UsageError(f"{named} {text!r}: {error}", hint=f"write: {_FORM}") from error


def _without_user(text: str) -> str:
    scheme = "http" if text.startswith("http://") else "https"
    url = f"{scheme}://{text.rpartition('@')[2].rstrip('/')}"
    return url if _URL.fullmatch(url) else "https://HOST:PORT"


def _host(text: str, *, is_v6: bool) -> str:
    if is_v6 != (":" in text):
        raise ValueError(f"{text!r} is no IPv6 address")
    if not is_address(text):
        return canonical_name(text)
    from ipaddress import ip_address

    return str(ip_address(text))


def need_way_to(upstream: Upstream, addresses: tuple[str, ...], named: str) -> tuple[str, ...]:
    """
    The addresses of the proxy, those of IPv4 first, each group in order.

    Raises UsageError for one that means another machine to the gate than it does here.
    """
    from ipaddress import ip_address

    every = (ip_address(address) for address in addresses)
    # A socket that is told an IPv4 address in this form of IPv6 dials by IPv4, which the ruleset would not know.
    dialled = {getattr(address, "ipv4_mapped", None) or address for address in every}
    found = sorted(dialled, key=lambda one: (one.version, int(one)))
    for address in found:
        if address.is_loopback or address.is_unspecified:
            raise UsageError(
                f"{named} {upstream.url} is {address}, this host's loopback, which its gate does not reach",
                hint="have the proxy listen at an address of the network, and name that one",
            )
        if address.is_multicast or address.is_link_local:
            raise UsageError(f"{named} {upstream.url} is {address}: no proxy can be there", hint=f"write: {_FORM}")
    return tuple(map(str, found))


def encoded_login(value: bytes, named: str) -> str:
    """
    `user:password` as the gate's squid takes it: nothing in it but letters, digits and percent signs.

    Raises UsageError for what cannot be one, without repeating it. `named` is what the error begins with.
    """
    user, colon, _ = value.partition(b":")
    if not colon or not user:
        raise UsageError(f"{named}: this variable does not hold user:password", hint="write: export VAR=user:password")
    if any(byte < 0x20 or byte == 0x7F for byte in value):
        raise UsageError(f"{named}: this variable holds a control character", hint="write: export VAR=user:password")
    if len(value) > LONGEST_LOGIN:
        what = f"{named}: user and password have {len(value)} bytes, and the gate takes {LONGEST_LOGIN}"
        raise UsageError(what, hint="ask for a shorter password")
    if value.startswith(_SQUIDS_WORDS):
        raise UsageError(f"{named}: the gate takes no user that begins with * or NEGOTIATE", hint="use another user")
    return "".join(chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"%{byte:02X}" for byte in value)
