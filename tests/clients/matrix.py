"""The matrix in docs/compatibility.md: a line for each program, with what it said by each way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.clients.table import ALL, LOCAL
from tests.e2e.programs import OPENED, REASON, REFUSED, SITES, WAYS, WORKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.programs import Told

PAGE = Path(__file__).parents[2] / "docs/compatibility.md"
BEGIN, END = "<!-- what `make clients` measured -->\n", "<!-- the end of it -->\n"
STAYS = "stays inside"
COLUMNS = (
    "client", "version", "by name", "by name, no variables", "with rules", "with rules, no variables", "refused: it says",
    "refused, no variables",
)  # fmt: skip
_HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


def render(told: Mapping[str, Told]) -> str:
    """The table of what was told, in the order of the programs."""
    return _HEAD + "".join(_row(name, told[name]) for name in (*ALL, *LOCAL))


def _row(name: str, told: Told) -> str:
    cells = [
        _cell(name, site, told.calls[site, way].outcome if (site, way) in told.calls else "")
        for site in SITES
        for way in WAYS
    ]
    return f"| {' | '.join((name, told.version, *cells))} |\n"


def _cell(name: str, site: str, outcome: str) -> str:
    if outcome:
        return outcome if site != REFUSED else f"`{outcome}`"
    if name in LOCAL:
        return STAYS
    return ALL[name].not_opened if site == OPENED else ALL[name].hangs


def committed() -> str:
    """The table as it stands in the documentation."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def write(table: str) -> None:
    """Put it there."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}")


def faults(table: str) -> list[str]:
    """What is wrong with a table: a program without a line, a line without a program, a cell that says nothing or no."""
    lines = table.splitlines()
    if lines[:2] != _HEAD.splitlines():
        return ["it has another head"]
    rows = {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in lines[2:])}
    names = [*ALL, *LOCAL]
    wrong = [f"{name}: no line" for name in names if name not in rows]
    wrong += [f"{name}: no program" for name in rows if name not in names]
    return wrong + [f"{name}: {cells}" for name, cells in rows.items() if name in names and not _is_right(name, cells)]


def _is_right(name: str, cells: list[str]) -> bool:
    if len(cells) != len(COLUMNS) - 1 or not cells[0].strip():
        return False
    by_name, opened, refused = cells[1:3], cells[3:5], cells[5:7]
    if name in LOCAL:
        return (by_name, opened, refused) == ([WORKS] * 2, [STAYS] * 2, [STAYS] * 2)
    is_refused = all(REASON.fullmatch(cell.strip("`")) for cell in refused if cell != (ALL[name].hangs or None))
    return by_name == [WORKS] * 2 and opened == [ALL[name].not_opened or WORKS] * 2 and is_refused
