"""The policy as sorted `key=value` lines: stable, one a line, made to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.rules import NameEntry

if TYPE_CHECKING:
    from aisb.domain.policy import Policy


def policy_lines(policy: Policy) -> str:
    """All that the policy says, control characters percent-encoded."""
    pairs: dict[str, str] = {
        "base_image": policy.base_image,
        "ca_bundle": policy.ca_bundle,
        "home": policy.home_volume,
        "net": policy.net,
        "project": policy.project,
    }
    for index, item in enumerate(policy.allow):
        pairs[f"allow.{index}"] = item.entry.text()
        pairs[f"allow.{index}.origin"] = item.origin
        if isinstance(item.entry, NameEntry) and item.entry not in policy.names:
            pairs[f"allow.{index}.merged"] = "into another entry"
    for index, name in enumerate(policy.environment):
        pairs[f"env.{index}"] = name
    for index, package in enumerate(policy.install):
        pairs[f"install.{index}"] = package
    return "".join(f"{key}={_one_line(pairs[key])}\n" for key in sorted(pairs, key=_natural))


def _natural(key: str) -> tuple[tuple[int, int, str], ...]:
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in key.split("."))


def _one_line(value: str) -> str:
    return "".join(
        character if character.isprintable() and character != "%" else _percent(character) for character in value
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
