"""
Allow entries: one line of text in, one typed and canonical value out, or a UsageError that names the
nearest right form.

    example.com            that name and everything below it, ports 80 and 443
    exact:example.com      exactly that name            (also =example.com)
    below:example.com      only what is below it        (also *.example.com)
    example.com:5432       that TCP port, of the name and below it
    10.20.0.0/16:5432      addresses; TCP; without a port, any
    @npm                   a preset
    host:11434             a port on the host's loopback
    GET,HEAD api.example.com/repos/**    a method and path rule
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from aisb.domain.hosts import LONGEST_NAME, canonical_name, parse_port
from aisb.domain.rules import BELOW, EXACT, OWN_SUFFIX, TREE, WEB_PORTS, NameEntry
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from publicsuffixlist import PublicSuffixList

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PRESET = re.compile(r"@[a-z][a-z0-9-]{0,31}")
_RULE = re.compile(r"(?P<methods>[A-Z]+(?:,[A-Z]+)*) (?P<host>[^ /]+)(?P<path>/[!-~]*)")
_HOST_PORT = re.compile(r"host:(?P<port>[0-9]+)")
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:/[0-9]{1,3})?)\]|(?P<v4>[0-9.]+(?:/[0-9]{1,2})?))(?::(?P<port>[0-9]+))?"
)
_BARE_V6 = re.compile(r"[0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:/[0-9]{1,3})?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?P<rest>[^/?#]*).*", re.IGNORECASE)
_PREFIXES = (("exact:", EXACT), ("=", EXACT), ("below:", BELOW), ("*.", BELOW))
# A prefix shorter than this holds so much of the internet that the list would say nothing any more.
_SHORTEST_PREFIX = {4: 8, 6: 16}


@dataclass(frozen=True, slots=True)
class AddressEntry:
    """A network of addresses and a TCP port, any port without one."""

    network: Network
    port: int | None

    def text(self) -> str:
        """The entry in canonical form."""
        whole = self.network.prefixlen == self.network.max_prefixlen
        address = str(self.network.network_address) if whole else str(self.network)
        if self.port is None:
            return address
        return f"[{address}]:{self.port}" if self.network.version == 6 else f"{address}:{self.port}"


@dataclass(frozen=True, slots=True)
class PresetEntry:
    """A named list of entries."""

    name: str

    def text(self) -> str:
        """The entry in canonical form."""
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class HostPortEntry:
    """A port on the host's loopback."""

    port: int

    def text(self) -> str:
        """The entry in canonical form."""
        return f"host:{self.port}"


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """Methods and a path pattern of one host."""

    methods: tuple[str, ...]
    host: str
    path: str

    def text(self) -> str:
        """The entry in canonical form."""
        return f"{','.join(self.methods)} {self.host}{self.path}"


Entry: TypeAlias = NameEntry | AddressEntry | PresetEntry | HostPortEntry | RuleEntry


def split_entries(argument: str) -> list[str]:
    """The entries of one `--allow` argument: commas separate only where it has neither blank nor slash."""
    if " " in argument or "/" in argument:
        return [argument]
    return argument.split(",")


def parse_entry(text: str) -> Entry:
    """One entry as a value. Raises UsageError with the entry and the nearest right form."""
    if not text or not text.isprintable() or len(text) > 1024:
        raise _refused(text, "an entry is one line of printable text", "api.example.com")
    return next((entry for entry in _attempts(text) if entry is not None), None) or _parse_name_entry(text)


def _attempts(text: str) -> Iterator[Entry | None]:
    yield _parse_preset(text)
    yield _parse_rule(text)
    yield _parse_host_port(text)
    yield _parse_address(text)


def _parse_preset(text: str) -> PresetEntry | None:
    if not text.startswith("@"):
        return None
    if not _PRESET.fullmatch(text):
        raise _refused(text, "a preset is @ and a lower-case name", "@npm")
    return PresetEntry(text[1:])


def _parse_rule(text: str) -> RuleEntry | None:
    match = _RULE.fullmatch(text)
    if match is None:
        return None
    try:
        host = canonical_name(match["host"])
    except ValueError as error:
        raise _refused(text, f"{match['host']!r} is not a host name", "GET api.example.com/repos/**") from error
    return RuleEntry(tuple(sorted(set(match["methods"].split(",")))), host, match["path"])


def _parse_host_port(text: str) -> HostPortEntry | None:
    match = _HOST_PORT.fullmatch(text)
    return HostPortEntry(_port(text, match["port"])) if match else None


def _parse_address(text: str) -> AddressEntry | None:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return _address(text, text, None) if _BARE_V6.fullmatch(text) else None
    port = None if match["port"] is None else _port(text, match["port"])
    return _address(text, match["v6"] or match["v4"], port)


def _address(text: str, address: str, port: int | None) -> AddressEntry:
    try:
        network = ipaddress.ip_network(address, strict=False)
    except ValueError as error:
        raise _refused(text, f"{address} is not an address or a network", "10.20.0.5:5432") from error
    mapped = network.version == 6 and network.subnet_of(ipaddress.IPv6Network("::ffff:0:0/96"))
    if mapped:
        plain = ipaddress.IPv6Address(int(network.network_address)).ipv4_mapped
        raise _refused(text, "this is an IPv4 address in IPv6 clothes", f"{plain}/{max(network.prefixlen - 96, 0)}")
    if network.network_address.is_loopback:
        raise _refused(text, "the sandbox has a loopback of its own", f"host:{port or 'PORT'}")
    if network.prefixlen < _SHORTEST_PREFIX[network.version]:
        raise _refused(text, f"a network this large (/{network.prefixlen}) is no allowlist", "10.0.0.0/8:5432")
    if network.is_link_local and network.num_addresses > 1:
        raise _refused(text, "link-local networks hold the cloud's metadata service", "169.254.10.20:80")
    if network.is_multicast or network.network_address.is_unspecified:
        raise _refused(text, f"{address} is no address to connect to", "10.20.0.5:5432")
    return AddressEntry(network, port)


def _parse_name_entry(text: str) -> NameEntry:
    rest, match = text, TREE
    for prefix, meaning in _PREFIXES:
        if text.startswith(prefix):
            rest, match = text.removeprefix(prefix), meaning
            break
    name, colon, port = rest.partition(":")
    try:
        host = canonical_name(_a_label("" if set(rest) & set("/@?#") else name))
    except ValueError as error:
        raise _refused(text, "this is not a host name", _nearest(rest)) from error
    ports = (_port(text, port),) if colon else WEB_PORTS
    _refuse_what_means_too_much(text, host, match, port)
    return NameEntry(host, match, ports)


def _refuse_what_means_too_much(text: str, host: str, match: str, port: str) -> None:
    if host == "localhost" or host.endswith(".localhost"):
        raise _refused(text, "the sandbox has a localhost of its own; the host's is named", f"host:{port or 'PORT'}")
    if host == OWN_SUFFIX or host.endswith("." + OWN_SUFFIX):
        raise _refused(text, f"names below {OWN_SUFFIX} are aisb's own", "api.example.com")
    if match != EXACT and _is_public_suffix(host):
        raise _refused(
            text,
            f"everything below {host!r} belongs to many owners",
            f"api.{host}, or exact:{host} if you mean that one name",
        )


def _is_public_suffix(name: str) -> bool:
    return bool(_public_suffixes().publicsuffix(name) == name)


@cache
def _public_suffixes() -> PublicSuffixList:
    # Loading the list takes 80 ms: only while an entry is parsed, and a warm start does not parse.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def _a_label(name: str) -> str:
    """A Unicode name as its A-labels (IDNA 2008, so that sharp s stays a letter of its own)."""
    if name.isascii() and "xn--" not in name.lower():
        return name
    import idna

    try:
        unicode_name = idna.decode(name) if name.isascii() else unicodedata.normalize("NFC", name.lower())
        for label in unicode_name.split("."):
            _refuse_mixed_scripts(label)
        return idna.encode(unicode_name).decode("ascii")
    except UnicodeError as error:
        raise ValueError(f"{name!r} is not an international name") from error


def _refuse_mixed_scripts(label: str) -> None:
    scripts = {unicodedata.name(letter, "?").partition(" ")[0] for letter in label if letter.isalpha()}
    if len(scripts & {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}) > 1:
        raise ValueError(f"{label!r} mixes alphabets whose letters look alike")


def _port(text: str, port: str) -> int:
    try:
        return parse_port(port)
    except ValueError as error:
        raise _refused(text, f"{port!r} is not a port (1 to 65535)", "example.com:5432") from error


def _nearest(text: str) -> str:
    """The form that was probably meant, as far as it can be told from the text."""
    url = _SCHEME.fullmatch(text)
    candidate = url["rest"] if url else text
    candidate = candidate.rpartition("@")[2].partition("/")[0].strip().strip(".").removeprefix("*.").lower()
    host, colon, port = candidate.partition(":")
    try:
        host = canonical_name(host)
        return f"{host}:{parse_port(port)}" if colon else host
    except ValueError:
        return "api.example.com"


def _refused(text: str, why: str, nearest: str) -> UsageError:
    shown = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "..."
    return UsageError(f"--allow {shown!r}: {why}", hint=f"write: {nearest}")
