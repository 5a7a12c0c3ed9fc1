"""What an allow entry can be: a value for each kind, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aisb.domain.addresses import AddressEntry
from aisb.domain.names import NameEntry

ADDRESS_FORMS = "write: 10.20.0.5:5432, 10.20.0.0/16:5432 or [2001:db8::5]:443, or any of them without a port"
RULE_FORM = "write: GET,HEAD example.com/path/**, with * for one part of the path and ** for any rest"
PRESET_FORM = "write: @npm, or another of: aisb policy presets"
HOST_PORT_FORM = "write: host:3000 for a server on this machine; one inside the sandbox needs no entry"


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
