"""Indexes whose files are at another host: what is missing is said, and once it is allowed all is well."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.clients.table import ALL, PACKAGES
from tests.clients.world import all_served, build
from tests.e2e.legs import needs_sinks, requested
from tests.e2e.programs import OPENED, UNREAD, WAYS, WORKS, say

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.lab import Lab

pytestmark = [needs_sinks, pytest.mark.timeout(3600), pytest.mark.parametrize("lab", ["debian13"], indirect=True)]

FILES = f"https://{OPENED}/files"


def move_files(place: Path, elsewhere: Path) -> None:
    """The index stays where it is; wheels, crates and modules are elsewhere, byte for byte."""
    for name in ("pypi", "cargo", "go"):
        shutil.copytree(place / name, elsewhere / name, dirs_exist_ok=True)
    page = place / "pypi/simple/greeting/index.html"
    page.write_text(page.read_text().replace("../../", f"{FILES}/pypi/"))
    (place / "cargo/config.json").write_text(f'{{"dl": "{FILES}/cargo/{{crate}}-{{version}}.crate"}}')
    for archive in (place / "go").rglob("*.zip"):
        archive.with_name(f"{archive.name}.location").write_text(f"{FILES}/go/{archive.relative_to(place / 'go')}")
        archive.unlink()


def test_a_host_of_files_is_named_where_it_is_missing(lab: Lab) -> None:
    """By pip, cargo and go themselves, and with the entry for it at the end; retries come to an end. (B17, B19, B21)"""
    build(lab)
    programs = {name: ALL[name] for name in ("pip", "cargo", "go")}
    with all_served(lab) as places:
        move_files(places[UNREAD], places[OPENED])
        missing, errors = say(lab, f"--install {PACKAGES} --allow {UNREAD}", programs, (UNREAD,), 600)
        before = {line.partition(" ")[0] for line in requested(lab)}
        there, _ = say(lab, f"-q --install {PACKAGES} --allow {UNREAD},{OPENED}", programs, (UNREAD,), 600)

    named = {
        (name, way): OPENED in told.calls[UNREAD, way].text
        and told.calls[UNREAD, way].seconds < programs[name].refusal_seconds
        for name, told in missing.items()
        for way in WAYS
    }
    assert named == dict.fromkeys(named, True), missing
    assert before == {UNREAD}
    (line,) = re.findall(rf"^aisb: denied {OPENED}:443 .*$", errors, re.MULTILINE)
    assert line.endswith(f"to allow it, add: --allow {OPENED}")
    outcomes = {(name, way): told.calls[UNREAD, way].outcome for name, told in there.items() for way in WAYS}
    assert outcomes == dict.fromkeys(named, WORKS)
