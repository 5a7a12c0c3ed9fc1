"""
The fake internet's name server: authoritative for every name there is, and each question is recorded.
"""

from __future__ import annotations

import ipaddress
import itertools
import struct
from typing import TYPE_CHECKING

from laboratory.settings import SITES

if TYPE_CHECKING:
    from pathlib import Path

    from laboratory.internet.record import Log

_TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 64: "SVCB",
          65: "HTTPS", 255: "ANY"}  # fmt: skip
_NO_ERROR, _SERVFAIL, _NXDOMAIN = 0, 2, 3
_TTL_SECONDS = 60

# The reverse name of evil.test's address claims to be below an allowed name.
_LIES = {"203.0.113.11": "x.allowed.test", "2001:db8::11": "x.allowed.test"}

Zone = dict[str, dict[str, list[list[str]]]]
"""Name -> type -> the answers of successive questions, each a list of values."""


def built_in_zone() -> Zone:
    zone: Zone = {}
    for name, addresses in SITES.items():
        for address in addresses:
            parsed = ipaddress.ip_address(address)
            for owner in (name, f"*.{name}") if "." in name else ():
                zone.setdefault(owner, {}).setdefault("A" if parsed.version == 4 else "AAAA", []).append([address])
            zone[parsed.reverse_pointer] = {"PTR": [[_LIES.get(address, name)]]}
    return zone


def read_zone(text: str) -> Zone:
    """
    Lines `NAME TYPE VALUE...`, where `|` divides the answers of successive questions (the last one stays).

    A value may be `drop` (no answer at all) or `servfail`.
    """
    zone: Zone = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, kind, values = line.split(None, 2)
            zone.setdefault(name.lower(), {})[kind] = [part.split() for part in values.split("|")]
    return zone


class NameServer:
    """
    Answers questions from the built-in zone and from a file that is read again when it changes.
    """

    def __init__(self, log: Log, names: Path) -> None:
        self._log = log
        self._names = names
        self._built_in = built_in_zone()
        self._text = ""
        self._extra: Zone = {}
        self._asked: dict[tuple[str, str], itertools.count[int]] = {}

    def answer(self, query: bytes, source: str, proto: str) -> bytes | None:
        """
        The reply to a query, None where none is due.
        """
        try:
            number, flags, questions = struct.unpack_from("!HHH", query)
            name, end = _read_name(query, 12)
            kind = struct.unpack_from("!H", query, end)[0]
        except (struct.error, IndexError, UnicodeDecodeError):
            return None
        if questions != 1 or flags & 0x8000:
            return None
        type_name = _TYPES.get(kind, str(kind))
        self._log.add("question", sink="dns", port=53, proto=proto, source=source, name=name, type=type_name)
        code, values = self._look_up(name.lower(), type_name)
        if values == ["drop"]:
            return None
        if values == ["servfail"]:
            code, values = _SERVFAIL, []
        records = b"".join(_record(type_name, kind, value) for value in values)
        header = struct.pack("!HHHHHH", number, 0x8400 | flags & 0x0100 | code, 1, len(values), 0, 0)
        return header + query[12 : end + 4] + records

    def _look_up(self, name: str, kind: str) -> tuple[int, list[str]]:
        self._refresh()
        for zone in (self._extra, self._built_in):
            for owner in _owners(name):
                if (found := zone.get(owner)) is not None:
                    answers = found.get(kind, [[]])
                    turn = next(self._asked.setdefault((name, kind), itertools.count()))
                    return _NO_ERROR, answers[min(turn, len(answers) - 1)]
        return _NXDOMAIN, []

    def _refresh(self) -> None:
        text = self._names.read_text() if self._names.exists() else ""
        if text != self._text:
            self._text, self._extra, self._asked = text, read_zone(text), {}


def _owners(name: str) -> list[str]:
    """
    Under which owners a name may be found: itself, then the wildcards above it.
    """
    labels = name.split(".")
    return [name, *(".".join(("*", *labels[cut:])) for cut in range(1, len(labels)))]


def _read_name(message: bytes, offset: int) -> tuple[str, int]:
    labels = []
    while length := message[offset]:
        labels.append(message[offset + 1 : offset + 1 + length].decode("ascii"))
        offset += 1 + length
    return ".".join(labels), offset + 1


def _record(type_name: str, kind: int, value: str) -> bytes:
    if type_name in {"A", "AAAA"}:
        data = ipaddress.ip_address(value).packed
    elif type_name in {"PTR", "CNAME", "NS"}:
        data = b"".join(bytes([len(label)]) + label.encode() for label in value.split(".")) + b"\0"
    else:
        data = bytes([len(value)]) + value.encode()
    return struct.pack("!HHHIH", 0xC00C, kind, 1, _TTL_SECONDS, len(data)) + data
