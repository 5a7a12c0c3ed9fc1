"""`aisb doctor` in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.domain.doctor import FAIL, OK, WARN, verdict
from aisb.domain.printing import printable
from aisb.render.argv import LABEL
from aisb.render.images import throw_away_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.doctor import Finding

_COLOURS = {OK: "\x1b[32m", WARN: "\x1b[33m", FAIL: "\x1b[31m"}
_PLAIN = "\x1b[0m"
_VERDICTS = {
    OK: "a run will work here and be enforced",
    WARN: "a run will work here and be enforced; see the warnings",
    FAIL: "a run would be refused here",
}


def doctor_lines(findings: Sequence[Finding], *, colour: bool) -> list[str]:
    """A line a check, below it what mends it, and at the end what a run can expect."""
    width = max((len(finding.check) for finding in findings), default=0)
    lines = []
    for finding in findings:
        level = f"{finding.level:<4}"
        shown = f"{_COLOURS[finding.level]}{level}{_PLAIN}" if colour else level
        lines.append(f"{shown}  {finding.check:<{width}}  {printable(finding.evidence)}")
        lines += [f"{'':{width + 6}}  -> {printable(line)}" for line in finding.fix.splitlines()]
    return [*lines, _VERDICTS[verdict(findings)]]


def ownership_argv(podman: str, image: str, directory: str) -> tuple[str, ...]:
    """podman's argv for a throw-away run that makes a file in the directory, as an agent does in a project."""
    return (
        *throw_away_run(podman),
        "--userns", "keep-id:uid=1000,gid=1000",
        "--user", "1000:1000",
        "--security-opt", LABEL,
        f"--mount=type=bind,src={directory},dst=/project",
        "--entrypoint", "/usr/bin/touch",
        image,
        "/project/file",
    )  # fmt: skip


def squid_argv(podman: str, image: str) -> tuple[str, ...]:
    """podman's argv for a throw-away run that asks the gate's squid how it was built."""
    return (*throw_away_run(podman), "--entrypoint", "/usr/sbin/squid", image, "-v")
