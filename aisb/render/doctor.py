"""`aisb doctor` in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from aisb.domain.attempts import ATTACK, PASS, WORK
from aisb.domain.attempts import FAIL as FAILED
from aisb.domain.doctor import FAIL, OK, WARN, verdict
from aisb.domain.printing import printable
from aisb.render.argv import LABEL
from aisb.render.images import throw_away_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.domain.attempts import Result
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


_OF_VERDICT = {PASS: _COLOURS[OK], FAILED: _COLOURS[FAIL]}
_HEADINGS = {ATTACK: "tried from inside, and held off:", WORK: "what has to work inside:"}


def attempt_lines(results: Sequence[Result], *, colour: bool) -> list[str]:
    """A line for each attempt with its time, below one that failed what that means, and at the end how many did."""
    if not results:
        return ["nothing was tried: a run would be refused"]
    width = max(len(result.attempt) for result in results)
    lines = []
    for kind, heading in _HEADINGS.items():
        lines += ["", heading]
        for result in (result for result in results if result.kind == kind):
            lines += _lines_of(result, width, colour=colour)
    counts = Counter(result.verdict for result in results)
    of_each = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    return [*lines, "", f"{len(results)} attempts: {of_each}"]


def _lines_of(result: Result, width: int, *, colour: bool) -> list[str]:
    word = f"{result.verdict.upper() if result.verdict == FAILED else result.verdict:<9}"
    shown = f"{_OF_VERDICT.get(result.verdict, '')}{word}{_PLAIN}" if colour else word
    line = f"{shown}  {result.attempt:<{width}}  {result.seconds:5.2f} s  {printable(result.evidence)}"
    return [line, *([f"{'':{width + 22}}-> {printable(result.means)}"] if result.means else [])]


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
