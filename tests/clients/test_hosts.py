"""Hosts besides the one that was asked for: which is missing is said, and once it is allowed it is reached."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.clients.servers import MODULE, MODULE_VERSION, PYTHON
from tests.clients.table import ALL, PACKAGES
from tests.clients.world import all_served, build
from tests.e2e.legs import arrived, curl, needs_sinks, outside, requested
from tests.e2e.programs import OPENED, REASON, UNREAD, WAYS, WORKS, Program, say

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


ELSEWHERE = "198.51.100.30"
GO_GET = ALL["go get, a checksum database"]
OWN_HOSTS = {
    "go": Program(
        script=f"go get {MODULE}@{MODULE_VERSION}",
        files={**GO_GET.files, "~/.config/go/env": ALL["go"].files["~/.config/go/env"]},
    ),
    "uv": Program(
        script=f"$TOOLS/uv-python/bin/uv python install {PYTHON}",
        prepare=ALL["uv python install"].prepare,
        refusal_seconds=30,
    ),
}
"""As they come: the database of checksums, and the Pythons, are where no file of the project says."""
NOT_ASKED = Program(script=f"GONOSUMDB={MODULE} {GO_GET.script}", files=OWN_HOSTS["go"].files)


def test_a_host_that_only_the_tool_knows_is_named_by_it(lab: Lab) -> None:
    """Go's database of checksums, and whence uv has its Pythons: refused in seconds, and reached with an entry. (B18, B21)"""
    build(lab)
    options = f"--install {PACKAGES} --allow {UNREAD}"
    with all_served(lab):
        learnt, _ = say(lab, f"-q {options}", OWN_HOSTS, (UNREAD,), 600)
        hosts = {
            name: re.findall(r"https://([^/]+)/", told.calls[UNREAD, WAYS[0]].text)[-1] for name, told in learnt.items()
        }
        lab.more_names("".join(f"{host} A {ELSEWHERE}\n" for host in hosts.values()))
        open_to_all = outside(lab, {name: curl(f"https://{host}/") for name, host in hosts.items()})
        missing, errors = say(lab, options, {**OWN_HOSTS, "go, not asked": NOT_ASKED}, (UNREAD,), 600)
        before = set(arrived(lab))
        say(lab, f"-q {options},{','.join(hosts.values())}", OWN_HOSTS, (UNREAD,), 600)
        reached = {item["sni"] for item in lab.sinks("hello", sink="elsewhere")}

    assert open_to_all == dict.fromkeys(hosts, "hello from elsewhere")
    assert {told.outcome for told in missing.pop("go, not asked").calls.values()} == {WORKS}
    named = {
        (name, way): hosts[name] in told.calls[UNREAD, way].text
        and REASON.fullmatch(told.calls[UNREAD, way].outcome) is not None
        and told.calls[UNREAD, way].seconds < OWN_HOSTS[name].refusal_seconds
        for name, told in missing.items()
        for way in WAYS
    }
    assert named == dict.fromkeys(named, True), missing
    assert before == {f"{UNREAD} 443"}
    told = set(re.findall(r"^aisb: denied (\S+):443\b.* to allow it, add: --allow (\S+)$", errors, re.MULTILINE))
    assert told >= {(host, host) for host in hosts.values()}
    assert reached == set(hosts.values())
