"""What `aisb doctor` finds: one line a check, with the evidence and the one command that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

OK, WARN, FAIL = LEVELS = ("ok", "warn", "fail")


class Finding(NamedTuple):
    """What a check says: its level, what was seen, and what to do; nothing is to be done where all is well."""

    check: str
    level: str
    evidence: str
    fix: str = ""


def verdict(findings: Sequence[Finding]) -> str:
    """The worst level of them."""
    return max((finding.level for finding in findings), key=LEVELS.index, default=OK)


def exit_code(findings: Sequence[Finding], *, strict: bool) -> int:
    """0 where a run will work and be enforced, 69 where it would be refused; with `strict` warnings count too."""
    worst = verdict(findings)
    return 69 if worst == FAIL or (strict and worst == WARN) else 0


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "verdict": verdict(findings),
        "checks": [finding._asdict() for finding in findings],
    }
