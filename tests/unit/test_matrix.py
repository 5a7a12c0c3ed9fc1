"""The matrix of clients in docs/compatibility.md: it says something of each, and nothing that no test measures."""

from __future__ import annotations

from tests.clients.matrix import committed, faults, render
from tests.clients.table import ALL, LOCAL
from tests.e2e.programs import OPENED, REFUSED, SITES, WAYS, WORKS, Said, Told


def told_of(name: str) -> Told:
    """What a program says that does as it should."""
    sites = SITES if name in ALL else SITES[:1]
    calls = {
        (site, way): Said(1, "curl: 403", 0.1) if site == REFUSED else Said(0, f"{WORKS}\n", 0.1)
        for site in sites
        for way in WAYS
        if not (site == OPENED and name in ALL and ALL[name].not_opened)
        and not (site == REFUSED and way == WAYS[0] and ALL[name].hangs)
    }
    return Told("1.0", calls)


def test_the_documentation_has_every_client_and_no_empty_cell() -> None:
    """As `make clients` has written it."""
    assert faults(committed()) == []


def test_a_table_that_lacks_something_is_found() -> None:
    """A client without a line, a line of nobody's, a cell that is empty or says that it does not work."""
    told = {name: told_of(name) for name in (*ALL, *LOCAL)}
    whole = render(told)
    lines = whole.splitlines(keepends=True)
    curl = next(line for line in lines if line.startswith("| curl |"))

    assert faults(whole) == []
    assert faults(whole.replace(curl, "")) == ["curl: no line"]
    assert faults(whole + curl.replace("curl", "ftp")) == ["ftp: no program"]
    assert faults(whole.replace(curl, curl.replace("| works |", "|  |", 1))) != []
    assert faults(whole.replace(curl, curl.replace("works", "exit 1", 1))) != []
    assert faults(whole.replace(curl, curl.replace("`403`", "works", 1))) != []
    assert faults(whole.replace("| client |", "| name |")) == ["it has another head"]
