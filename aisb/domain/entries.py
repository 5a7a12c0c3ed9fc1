"""
Allow entries: one line of text in, one typed and canonical value out, or a UsageError that names the
nearest form that is one.

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
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from aisb.domain.addresses import AddressEntry, Network, carries_v4, is_probe
from aisb.domain.entry_kinds import (
    ADDRESS_FORMS,
    HOST_PORT_FORM,
    PRESET_FORM,
    RULE_FORM,
    Entry,
    HostPortEntry,
    PresetEntry,
    RuleEntry,
)
from aisb.domain.hosts import LONGEST_NAME, canonical_name, parse_port
from aisb.domain.http_rules import METHODS
from aisb.domain.paths import glob_fault
from aisb.domain.places import SEPARATORS, find_place
from aisb.domain.rules import BELOW, EXACT, OWN_SUFFIX, TREE, WEB_PORTS, NameEntry
from aisb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from publicsuffixlist import PublicSuffixList

_PRESET = re.compile(r"@[a-z][a-z0-9-]{0,31}")
_RULE = re.compile(r"(?P<methods>[A-Z]+(?:,[A-Z]+)*) (?P<host>[^ /]+)(?P<path>/[!-~]*)")
# What was probably meant as one: in lower case, with blanks, or with a star for every method.
_LIKE_A_RULE = re.compile(r"(?P<methods>\*|[A-Za-z]+(?: *, *[A-Za-z]+)*) +(?:https?://)?(?P<place>[^ /]+(?:/[^ ]*)?)")
# A place on the web with a path, of which all or only that may have been meant.
_WITH_PATH = re.compile(r"(?:https?://)?(?P<host>[^/?#@:,\s]+)(?P<path>/[^?#\s']+)(?:[?#].*)?")
_A_RULE = "a rule is METHOD,METHOD HOST/PATH"
_HOST_ALONE = "host"
_HOST_PORT = re.compile(r"host:(?P<port>.*)")
_BARE_PORT = re.compile(r"[0-9]{1,5}")
_HOST_BEHIND = re.compile(r"(?![0-9]+$)[^/@:]+(?::[0-9]+)?")
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:/[0-9]{1,3})?)\]|(?P<v4>[0-9.]+(?:/[0-9]{1,2})?))(?::(?P<port>[^\s,/:]*))?"
)
_BARE_V6 = re.compile(r"[0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:/[0-9]{1,3})?")
_V6_NETWORK_AND_PORT = re.compile(r"(?P<network>[0-9a-fA-F:.]+/[0-9]{1,3}):(?P<port>[0-9]+)")
_PREFIXES = (("exact:", EXACT), ("=", EXACT), ("below:", BELOW), ("*.", BELOW))
# A prefix shorter than this holds so much of the internet that the list would say nothing any more.
_SHORTEST_PREFIX = {4: 8, 6: 16}


def split_entries(argument: str) -> list[str]:
    """The entries of one `--allow` argument: commas separate only where it has neither blank nor slash."""
    if " " in argument or "/" in argument:
        return [argument]
    return argument.split(",")


def parse_entries(argument: str) -> list[Entry]:
    """The entries of one `--allow` argument as values. Raises UsageError."""
    texts = split_entries(argument)
    if "" in texts:
        raise _empty(argument)
    for before, text in pairwise(("", *texts)):
        if _BARE_PORT.fullmatch(text):
            raise _refused(text, "a port stands behind its host", f"write: {_with_host(before, text)}")
    return [parse_entry(text) for text in texts]


def _empty(argument: str) -> UsageError:
    why = "one of the entries is empty" if "," in argument else "the entry is empty"
    return _refused(argument, why, "a comma too many, or an empty variable? write: example.com")


def _with_host(before: str, port: str) -> str:
    """The port as an entry of the host that was named just before it, with that one."""
    host, _, last = before.rpartition(":")
    has_port = host != "" and _BARE_PORT.fullmatch(last) is not None
    meant = f"{host if has_port else before}:{port}"
    if not _is_entry(meant):
        return "example.com:8443"
    if not has_port and isinstance(parse_entry(meant), AddressEntry):
        # Without a port it would be open at all of them.
        return meant
    return before if not has_port and int(port) in WEB_PORTS else f"{before},{meant}"


def _is_entry(text: str) -> bool:
    try:
        parse_entry(text)
    except UsageError:
        return False
    return True


def parse_entry(text: str) -> Entry:
    """One entry as a value. Raises UsageError with the entry and the nearest form that is one."""
    if not text:
        raise _empty(text)
    if not text.isprintable() or len(text) > 1024:
        raise _refused(text, "an entry is one line of printable text", "write: example.com")
    if "*" in text and set(text) <= {"*", "."}:
        raise _refused(text, "this is every host", "name the hosts, or have no filter at all: --net full")
    return next((entry for entry in _attempts(text) if entry is not None), None) or _parse_name_entry(text)


def _attempts(text: str) -> Iterator[Entry | None]:
    _refuse_quotes(text)
    yield _parse_preset(text)
    yield _parse_rule(text)
    yield _parse_host_port(text)
    yield _parse_address(text)


def _refuse_quotes(text: str) -> None:
    meant = text.strip("\"'`")
    if meant not in ("", text) and _is_entry(meant):
        raise _refused(text, "quotes are no part of an entry", f"leave them out: {meant}")


def _parse_preset(text: str) -> PresetEntry | None:
    if not text.startswith("@"):
        return None
    if not _PRESET.fullmatch(text):
        raise _refused(text, "a preset is @ and a lower-case name", PRESET_FORM)
    return PresetEntry(text[1:])


def _parse_rule(text: str) -> RuleEntry | None:
    match = _RULE.fullmatch(text)
    if match is None or "://" in text:
        _refuse_what_is_like_a_rule(text)
    if match is None:
        return None
    try:
        host = canonical_name(a_label(match["host"]))
    except ValueError as error:
        if ":" in match["host"]:
            raise _refused(text, "a rule names no port: it holds on 80 and 443", RULE_FORM) from error
        raise _refused(text, f"{match['host']!r} is not a host name", RULE_FORM) from error
    _refuse_what_means_too_much(text, host, EXACT)
    unknown = [method for method in match["methods"].split(",") if method not in METHODS]
    if fault := f"{unknown[0]} is none of {' '.join(METHODS)}" if unknown else glob_fault(match["path"]):
        raise _refused(text, fault, RULE_FORM)
    return RuleEntry(tuple(sorted(set(match["methods"].split(",")))), host, match["path"])


def _refuse_what_is_like_a_rule(text: str) -> None:
    if text in METHODS:
        raise _refused(text, "this is a method without its host (in a list of YAML a rule stands in quotes)", RULE_FORM)
    match = _LIKE_A_RULE.fullmatch(text)
    if match is None:
        return
    methods = ",".join(METHODS) if match["methods"] == "*" else match["methods"].upper().replace(" ", "")
    meant = f"{methods} {match['place']}{'' if '/' in match['place'] else '/**'}"
    if "://" not in meant and _RULE.fullmatch(meant) and _is_entry(meant):
        raise _refused(text, _A_RULE, f"write: '{meant}'")
    if set(methods.split(",")) <= set(METHODS):
        # The host alone would be open to every method.
        raise _refused(text, _A_RULE, RULE_FORM)


def _parse_host_port(text: str) -> HostPortEntry | None:
    match = _HOST_PORT.fullmatch(text)
    return HostPortEntry(_port(text, match["port"], HOST_PORT_FORM)) if match else None


def _parse_address(text: str) -> AddressEntry | None:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        if meant := _V6_NETWORK_AND_PORT.fullmatch(text):
            raise _refused(text, "IPv6 with a port stands in brackets", f"write: [{meant['network']}]:{meant['port']}")
        return _address(text, text, None) if _BARE_V6.fullmatch(text) else None
    port = None if match["port"] is None else _port(text, match["port"], ADDRESS_FORMS)
    return _address(text, match["v6"] or match["v4"], port)


def _address(text: str, address: str, port: int | None) -> AddressEntry:
    try:
        network = ipaddress.ip_network(address, strict=False)
    except ValueError as error:
        raise _refused(text, f"{address} is not an address or a network", ADDRESS_FORMS) from error
    if network.network_address.is_loopback:
        raise _refused(text, "the sandbox has a loopback of its own", HOST_PORT_FORM)
    why = _why_no_destination(network, address)
    if why:
        raise _refused(text, why, ADDRESS_FORMS)
    return AddressEntry(network, port)


def _why_no_destination(network: Network, address: str) -> str:
    """What is wrong with a network as an entry, "" where nothing is."""
    if network.version == 6 and network.subnet_of(ipaddress.IPv6Network("::ffff:0:0/96")):
        return "this is an IPv4 address in IPv6 clothes"
    if network.prefixlen < _SHORTEST_PREFIX[network.version]:
        return f"a network this large (/{network.prefixlen}) is no allowlist"
    if network.is_link_local and network.num_addresses > 1:
        return "link-local networks hold the cloud's metadata service"
    if network.num_addresses > 1 and carries_v4(network):
        return "these are IPv4 addresses in IPv6 clothes"
    if network.is_multicast or network.network_address.is_unspecified:
        return f"{address} is no address to connect to"
    if is_probe(network):
        return "by refusing this address each start proves that it is closed"
    return ""


def _parse_name_entry(text: str) -> NameEntry:
    prefix, rest, match = _kind_of(text)
    name, colon, port = rest.partition(":")
    if name.isidentifier() and _HOST_BEHIND.fullmatch(port):
        raise _refused(text, f"'{name}:' begins no entry", _hint_for_kind(name, port))
    try:
        host = canonical_name(a_label("" if set(rest) & set("/@?#") else name))
    except ValueError as error:
        raise _not_a_name(text, prefix, rest) from error
    _refuse_what_means_too_much(text, host, match)
    ports = (_port(text, port, _hint_for_port(f"{prefix}{host}", port)),) if colon else WEB_PORTS
    return NameEntry(host, match, ports)


def _kind_of(text: str) -> tuple[str, str, str]:
    """The kind of a name entry in its usual spelling, what follows it, and what it means."""
    for prefix, match in _PREFIXES:
        if text.startswith(prefix):
            return f"{match}:", text.removeprefix(prefix), match
    return "", text, TREE


def _hint_for_kind(kind: str, rest: str) -> str:
    from difflib import get_close_matches

    if kind == "preset":
        return PRESET_FORM
    near = get_close_matches(kind.lower(), (EXACT, BELOW), n=1)
    if near and _is_entry(f"{near[0]}:{rest}"):
        return f"write: {near[0]}:{rest}"
    name = rest if _is_entry(rest) else "example.com"
    return f"write: {name}, exact:{name} or below:{name}"


def _hint_for_port(name: str, port: str) -> str:
    meant = f"{name}:{port.lstrip('0')}"
    return f"write: {meant}" if _is_a_port(port.lstrip("0")) else f"write: {name} (ports 80 and 443), or {name}:8443"


def _is_a_port(text: str) -> bool:
    try:
        return parse_port(text) > 0
    except ValueError:
        return False


def _refuse_what_means_too_much(text: str, host: str, match: str) -> None:
    if host == "localhost" or host.endswith(".localhost"):
        raise _refused(text, "the sandbox has a localhost of its own", HOST_PORT_FORM)
    if host == OWN_SUFFIX or host.endswith("." + OWN_SUFFIX):
        raise _refused(text, f"names below {OWN_SUFFIX} are aisb's own", "leave it out")
    if text == _HOST_ALONE:
        raise _refused(text, "this is the machine itself, of which one port is opened", HOST_PORT_FORM)
    if match != EXACT and "." not in host and _is_preset(host):
        raise _refused(text, "this is no host but the name of a preset", f"write: @{host}, or exact:{host} for a host")
    if match != EXACT and _is_public_suffix(host):
        raise _refused(
            text,
            f"everything below {host!r} belongs to many owners",
            f"write: example.{host}, or exact:{host} if you mean that one name",
        )


def _is_preset(name: str) -> bool:
    from aisb.domain.presets import preset_names

    return name in preset_names()


def _is_public_suffix(name: str) -> bool:
    return bool(_public_suffixes().publicsuffix(name) == name)


@cache
def _public_suffixes() -> PublicSuffixList:
    # Loading the list takes 80 ms: only while an entry is parsed, and a warm start does not parse.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def a_label(name: str) -> str:
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


def _port(text: str, port: str, hint: str) -> int:
    try:
        return parse_port(port)
    except ValueError as error:
        raise _refused(text, f"{port!r} is not a port (1 to 65535)", hint) from error


def _not_a_name(text: str, prefix: str, rest: str) -> UsageError:
    """What to say about a text that holds no host name where one belongs."""
    parts = [part for part in SEPARATORS.split(text) if part]
    if len(parts) > 1 and all(map(_is_entry, parts)):
        # Where there is a slash a comma separates nothing: it may be part of a path.
        hint = f"write each for itself: {' and '.join(parts)}" if "/" in text else f"write: {','.join(parts)}"
        return _refused(text, "this is more than one entry", hint)
    if rest.startswith("*."):
        prefix = "below:"
    candidate = find_place(rest)
    if not candidate or candidate == rest:
        return _refused(text, "this is not a host name", "write: example.com")
    if rest.startswith(".") and _is_entry(f"below:{candidate}"):
        hint = f"write: below:{candidate} (only what is below it), or {candidate} (the name too)"
        return _refused(text, "a host name begins with no dot", hint)
    hint = _hint_for_candidate(prefix + candidate)
    return _refused(text, "this is not a host name", hint + _or_its_path(text, candidate))


def _or_its_path(text: str, host: str) -> str:
    """The narrower form of a host with a path: a rule for that path alone."""
    match = _WITH_PATH.fullmatch(text)
    meant = f"GET,HEAD {host}{match['path']}" if match else ""
    return f", or for that path alone '{meant}'" if _RULE.fullmatch(meant) and _is_entry(meant) else ""


def _hint_for_candidate(text: str) -> str:
    """How to write what was probably meant, or why that would be refused too."""
    try:
        entry = parse_entry(text)
    except UsageError as error:
        return error.hint
    return f"write: {entry.text()}"


def _refused(text: str, why: str, hint: str) -> UsageError:
    shown = text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "..."
    return UsageError(f"--allow {shown!r}: {why}", hint=hint)
