"""The laboratory's hosts as a fixture: each test that asks for `lab` runs on both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.e2e.lab import HERE, HOSTS, LABORATORY, Lab, locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# As root the tests make hosts of their own; an ordinary user's machine is a host already.
NAMES = ("debian13", "debian12") if os.geteuid() == 0 else (HERE,)


class ByHost(LoadScopeScheduling):
    """A worker for each host: two on one host would wait for each other, within the time of a test."""

    def _split_scope(self, nodeid: str) -> str:
        found = re.search(rf"\[(?:.*-)?({'|'.join(NAMES)})(?:-.*)?\]$", nodeid)
        return found[1] if found else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """In place of xdist's own loadgroup, which marks tests in a field that pytest 9.2 does not read any more."""
    return ByHost(config, log) if config.getvalue("dist") == "loadgroup" else None


LEFT_OVER = "podman ps -aq --filter name=aisb-run | xargs -r podman rm --force --time 0"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take away the sandboxes of a session that was killed: tests look for what is left of their own."""
    is_worker = hasattr(session.config, "workerinput")
    if HERE in NAMES or is_worker or session.config.option.collectonly:
        return
    for name in NAMES:
        with locked(HOSTS[name].use):
            argv = (f"{LABORATORY}/host", name, "--", "sh", "-c", LEFT_OVER)
            held = os.environ | {"LAB_HELD": "yes"}
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=held, check=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Bring the hosts up before the first test: no test's time limit covers a build."""
    wanted = any("lab" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and HERE not in NAMES and not session.config.option.collectonly:
        done = subprocess.run((f"{LABORATORY}/up", *NAMES), stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
        if done.returncode not in {0, 1}:
            pytest.exit("the laboratory did not come up; see above", done.returncode)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in NAMES])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """One host, held for the length of the test: what reaches its sinks is the test's own."""
    if request.param == HERE:
        if shutil.which("podman") is None:
            pytest.skip("there is no podman on this machine")
        yield Lab(HERE, str(tmp_path))
        return
    host = HOSTS[request.param]
    with locked(host.use):
        yield Lab(host.name, str(tmp_path))
        (host.cache / "names").unlink(missing_ok=True)
