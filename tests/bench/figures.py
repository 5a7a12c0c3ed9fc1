"""
What the bench finds, as values: statistics, targets, tables, the document. Nothing here measures, and nothing is asked of the
machine.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SCHEMA = 1
"""Of the document. Another number where a field is gone or means something else."""

STAGES = {
    "python": ("python",),
    "policy": ("host", "plan"),
    "gate": ("gate",),
    "podman": ("begun",),
    "entrypoint": ("checked",),
    "nft": ("rules",),
    "launcher": ("launcher",),
    "relay": ("relay",),
    "probe": ("proved",),
    "command": ("exec", "command"),
    "clean-up": ("clean-up",),
}
"""The stages of a start, in their order, and the lines of `--timings` that each is made of."""

FORMS = {"ms": "{:.1f} ms", "us": "{:.0f} µs", "s": "{:.2f} s", "x": "{:.2f}x", "%": "{:.0%}", "MB": "{:.1f} MB", "MB/s": "{:.0f} MB/s",
         "/s": "{:,.0f}/s", "": "{:,.0f}"}  # fmt: skip


class Target(NamedTuple):
    """What a figure has to be: at least the bound, or at most."""

    bound: float
    least: bool

    def is_met(self, value: float) -> bool:
        """Whether the figure is on the right side."""
        return value >= self.bound if self.least else value <= self.bound


def least(bound: float) -> Target:
    """At least that."""
    return Target(bound, least=True)


def most(bound: float) -> Target:
    """At most that."""
    return Target(bound, least=False)


class Figure(NamedTuple):
    """
    A figure: its name, in words what it is, its unit (one of FORMS) and value, and what it was made of.

    `rounds` has the samples of each side, one a round. `wish` is the target for when all others are met.
    """

    key: str
    words: str
    unit: str
    value: float
    target: Target | None = None
    rounds: dict[str, list[float]] = {}  # noqa: RUF012  # a NamedTuple's default, and nobody writes into it
    wish: Target | None = None

    @property
    def is_met(self) -> bool:
        """Whether its target is met; one without a target is."""
        return self.target is None or self.target.is_met(self.value)

    def as_json(self) -> dict[str, Any]:
        """For the document."""
        found: dict[str, Any] = {"key": self.key, "words": self.words, "unit": self.unit, "value": rounded(self.value)}
        for name, target in (("target", self.target), ("wish", self.wish)):
            if target:
                found[name] = {"at_least" if target.least else "at_most": target.bound}
        if self.target:
            found["met"] = self.is_met
        if self.rounds:
            found["rounds"] = {side: [rounded(value) for value in values] for side, values in self.rounds.items()}
        return found

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> Figure:
        """Of the document."""
        targets = {
            name: Target(next(iter(bound.values())), least="at_least" in bound)
            for name in ("target", "wish")
            if (bound := found.get(name))
        }
        return cls(
            found["key"], found["words"], found["unit"], found["value"], rounds=found.get("rounds", {}), **targets
        )


def rounded(value: float) -> float:
    """Five digits: more says nothing."""
    return float(f"{value:.5g}")


def percentile(values: Iterable[float], share: float) -> float:
    """The least of the values that so large a share of them does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("there are no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(key: str, words: str, unit: str, values: Sequence[float], target: Target | None = None) -> Figure:
    """The median of one side."""
    return Figure(key, words, unit, statistics.median(values), target, {"aisb": list(values)})


def ratio(
    key: str,
    words: str,
    sides: dict[str, list[float]],
    target: Target | None = None,
    *,
    unit: str = "x",
    wish: Target | None = None,
) -> Figure:
    """The median of how many times the first side is the second one, round by round."""
    return _paired(key, words, unit, sides, lambda one, other: one / other, target, wish)


def difference(
    key: str,
    words: str,
    unit: str,
    sides: dict[str, list[float]],
    target: Target | None = None,
    *,
    wish: Target | None = None,
) -> Figure:
    """The median of what the first side is over the second one, round by round."""
    return _paired(key, words, unit, sides, lambda one, other: one - other, target, wish)


def _paired(
    key: str, words: str, unit: str, sides: dict[str, list[float]], join: Callable[[float, float], float],
    target: Target | None, wish: Target | None,
) -> Figure:  # fmt: skip
    ones, others = sides.values()
    value = statistics.median(join(one, other) for one, other in zip(ones, others, strict=True))
    return Figure(key, words, unit, value, target, sides, wish)


def parse_timings(stderr: str) -> dict[str, float]:
    """Milliseconds by stage, of what `aisb --timings` prints. Raises ValueError for a phase that no stage has."""
    stages = {mark: stage for stage, marks in STAGES.items() for mark in marks}
    found = dict.fromkeys(STAGES, 0.0)
    for line in stderr.splitlines():
        words = line.removeprefix("aisb: ").split()
        if len(words) == 3 and words[2] == "ms":
            if words[0] not in stages:
                raise ValueError(f"no stage has the phase {words[0]!r}")
            found[stages[words[0]]] += float(words[1])
    if not found["command"]:
        raise ValueError(f"these are no timings of a whole run: {stderr!r}")
    return found


def shown(value: float, unit: str) -> str:
    """A value as a person reads it."""
    return FORMS[unit].format(value)


def verdict(figure: Figure) -> str:
    """What the target is, and whether it is met; "" without one."""
    if figure.target is None:
        return ""
    bound = f"{'at least' if figure.target.least else 'at most'} {shown(figure.target.bound, figure.unit)}"
    return f"{bound}: {'met' if figure.is_met else 'MISSED'}"


def sides(figure: Figure) -> str:
    """The medians of both sides, where there are two, in the unit of what was measured."""
    if len(figure.rounds) < 2:
        return ""
    return ", ".join(f"{name} {statistics.median(values):.4g}" for name, values in figure.rounds.items())


def lines(figures: Iterable[Figure]) -> list[str]:
    """A table for a terminal."""
    rows = [(figure.words, shown(figure.value, figure.unit), sides(figure), verdict(figure)) for figure in figures]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    return [
        f"  {words:<{widths[0]}}  {value:>{widths[1]}}  {beside:<{widths[2]}}  {said}".rstrip()
        for words, value, beside, said in rows
    ]


def figures_of(document: dict[str, Any], host: str) -> list[Figure]:
    """All figures of a host, in their order."""
    return [Figure.of_json(found) for part in document["hosts"][host]["parts"].values() for found in part["figures"]]


def unmet(document: dict[str, Any]) -> list[str]:
    """What has to be looked at: figures that miss their target, parts and peers without figures."""
    found = []
    for name, host in document["hosts"].items():
        found += [f"{name}: {figure.words}" for figure in figures_of(document, name) if not figure.is_met]
        found += [
            f"{name}: {part}: {part_found['fault']}"
            for part, part_found in host["parts"].items()
            if part_found.get("fault")
        ]
        found += [f"{name}: {peer}: {fault}" for peer, fault in host.get("absent", {}).items()]
    return found


def markdown(document: dict[str, Any]) -> list[str]:
    """The figures as a table of a page: a row a figure, a column a host."""
    hosts = list(document["hosts"])
    by_host = {host: {figure.key: figure for figure in figures_of(document, host)} for host in hosts}
    keys = list(dict.fromkeys(key for figures in by_host.values() for key in figures))
    rows = [f"| figure | target | {' | '.join(hosts)} |", f"|---|---|{'---|' * len(hosts)}"]
    for key in keys:
        found = [by_host[host].get(key) for host in hosts]
        first = next(figure for figure in found if figure)
        rows.append(f"| {first.words} | {_bound(first)} | {' | '.join(map(_cell, found))} |")
    return rows


def _bound(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.target.least else '≤'} {shown(figure.target.bound, figure.unit)}"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "not measured"
    value = shown(figure.value, figure.unit)
    return value if figure.is_met else f"**{value}: missed**"


def growth(values: dict[int, float]) -> float:
    """The largest growth of a step, each as a share of what is linear: at most 1 where growth is linear or better."""
    ordered = sorted(values.items())
    return max((more / less) / (many / few) for (few, less), (many, more) in pairwise(ordered))
