#!/usr/bin/env -S python3 -B
"""
The plots and the table of docs/performance.md, from the document of a run of the bench.

    tests/bench/plot.py [FILE]

FILE is docs/performance/figures.json where none is named. Writes docs/performance/stages.svg and paths.svg, and the page's block between its two
marks. What is drawn depends on the document alone.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.figures import STAGES, Figure, figures_of, markdown, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/performance.md"
FOLDER = ROOT / "docs/performance"
BEGIN, END = "<!-- measured: written by tests/bench/plot.py -->", "<!-- end of what was measured -->"
COLOURS = ("#2f6f9f", "#c9782c")
GREY, INK, FAINT = "#9aa0a6", "#202124", "#dadce0"
WIDTH, LEFT, RIGHT, ROW, TITLE = 900, 230, 90, 20, 26
PANELS = {"kept-rate": "requests a second, kept connections", "new-rate": "requests a second, new connections", "bulk": "bulk, MB a second"}  # fmt: skip
PATHS = {
    "direct": "direct", "passed-on-unread": "passed on unread", "with-rules": "with rules", "with-a-secret": "with a secret",
    "mitmproxy": "mitmproxy", "mitmproxy-with-a-secret": "mitmproxy, with a secret",
}  # fmt: skip


class Bar(NamedTuple):
    """A bar of a panel: its label, where it begins and how long it is, and its colour. `words` stand at its end."""

    label: str
    begin: float
    length: float
    colour: str
    words: str


def panel(title: str, bars: list[Bar], top: float) -> tuple[list[str], float]:
    """Bars below each other, on one scale that begins at 0; and where the next panel begins."""
    most = max((bar.begin + bar.length for bar in bars), default=0) or 1
    scale = (WIDTH - LEFT - RIGHT) / most
    found = [f'<text x="0" y="{top + 14:.1f}" font-weight="bold">{escape(title)}</text>']
    y = top + TITLE
    for bar in bars:
        x, width = LEFT + bar.begin * scale, max(bar.length * scale, 1)
        found += [
            f'<text x="{LEFT - 8}" y="{y + 13:.1f}" text-anchor="end">{escape(bar.label)}</text>',
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + ROW:.1f}" y2="{y + ROW:.1f}" stroke="{FAINT}" stroke-width="0.5"/>',
            f'<rect x="{x:.1f}" y="{y + 3:.1f}" width="{width:.1f}" height="{ROW - 6}" fill="{bar.colour}"/>',
            f'<text x="{x + width + 4:.1f}" y="{y + 13:.1f}">{escape(bar.words)}</text>',
        ]
        y += ROW
    return found, y + 14


def drawing(panels: Iterable[tuple[str, list[Bar]]]) -> str:
    """Panels below each other, as an SVG."""
    body: list[str] = []
    top = 8.0
    for title, bars in panels:
        lines, top = panel(title, bars, top)
        body += lines
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 0 {WIDTH + 10} {top:.0f}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}">'
    )
    return "\n".join(
        [head, f'<rect x="-10" width="{WIDTH + 10}" height="{top:.0f}" fill="white"/>', *body, "</svg>", ""]
    )


def stages_drawing(document: dict[str, Any]) -> str:
    """What a warm start is made of, one after the other, on each host; below it what others take."""
    panels = []
    for number, host in enumerate(document["hosts"]):
        figures = {figure.key: figure for figure in figures_of(document, host)}
        begin, bars = 0.0, []
        for stage in STAGES:
            if figure := figures.get(f"stage.{stage}"):
                words = shown(figure.value, "ms")
                bars.append(Bar(stage, begin, figure.value, COLOURS[number % len(COLOURS)], words))
                begin += figure.value
        bars += [Bar(label, 0, value, GREY, shown(value, "ms")) for label, value in others(figures)]
        panels.append((f"{host}: a warm start", bars))
    return drawing(panels)


def others(figures: dict[str, Figure]) -> list[tuple[str, float]]:
    """What a start is compared with, and itself as a whole."""
    sides = {}
    for key in ("start.warm", "start.cold", "start.srt"):
        if figure := figures.get(key):
            sides |= figure.rounds
    names = {"aisb": "all of it", "cold": "with a cold gate", "podman": "podman run alone", "srt": "srt true"}
    return [(label, statistics.median(sides[side])) for side, label in names.items() if sides.get(side)]


def paths_drawing(document: dict[str, Any]) -> str:
    """Requests and bytes a second by path, a panel each, the hosts beside each other."""
    hosts = list(document["hosts"])
    by_host = [{figure.key: figure for figure in figures_of(document, host)} for host in hosts]
    panels = []
    for what, title in PANELS.items():
        bars = []
        for path, label in PATHS.items():
            for number, (host, figures) in enumerate(zip(hosts, by_host, strict=True)):
                if figure := figures.get(f"path.{path}.{what}"):
                    bars.append(
                        Bar(f"{label}, {host}", 0, figure.value, COLOURS[number % len(COLOURS)], f"{figure.value:,.0f}")
                    )
        panels.append((title, bars))
    return drawing(panels)


def block(document: dict[str, Any]) -> str:
    """What the page says of the run: when, on what, under which load, with what, and all figures."""
    machine = document["machine"]
    found = [
        f"Measured on {document['date'][:10]} at {document['date'][11:16]} UTC, on {machine['cores']} cores of {machine['processor']}, "
        f"{machine['memory_mb'] / 1024:.0f} GB, kernel {machine['kernel']}.",
        "",
        *(f"- {host}: {with_what(found)}; {under_load(found)}." for host, found in document["hosts"].items()),
        "",
        *markdown(document),
    ]
    for host, here in document["hosts"].items():
        found += [
            f"\n{host}: {peer} could not be measured: {reason}" for peer, reason in here.get("absent", {}).items()
        ]
    return "\n".join(found)


def with_what(host: dict[str, Any]) -> str:
    """The versions of a host, in one line."""
    return ", ".join(f"{name} {version_of(line)}" for name, version in host["versions"].items() if (line := version))


def version_of(line: str) -> str:
    """The word of a line that says a version: the first that has a digit."""
    return next((word for word in line.split() if any(map(str.isdigit, word))), line)


def under_load(host: dict[str, Any]) -> str:
    """The least and the greatest load of all parts."""
    loads = [load for part in host["parts"].values() for load in part.get("load", ())]
    return f"load {min(loads):.1f} to {max(loads):.1f}" if loads else "nothing was measured"


def with_block(page: str, text: str) -> str:
    """The page with another block between its marks. Raises ValueError where they are not there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has not both marks: {BEGIN} and {END}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> None:
    """See the module."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "figures.json"
    document = json.loads(source.read_text())
    (FOLDER / "stages.svg").write_text(stages_drawing(document))
    (FOLDER / "paths.svg").write_text(paths_drawing(document))
    PAGE.write_text(with_block(PAGE.read_text(), block(document)))


if __name__ == "__main__":
    main()
