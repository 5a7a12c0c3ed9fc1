"""aisb does not go on where Python took code from the current directory or from the project."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.effects.imports import need_own_imports
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

REMEDY = "unset PYTHONPATH, or install aisb by ./install.sh, whose command does not heed it"
CURRENT = "the current directory's code runs outside of the sandbox"
PROJECT = "the project's code runs outside of the sandbox"


@pytest.mark.parametrize(
    ("pythonpath", "path", "message"),
    [
        pytest.param(".", (), f"PYTHONPATH has '.', which is no absolute path: {CURRENT}", id="here"),
        pytest.param("/x:lib", (), f"PYTHONPATH has 'lib', which is no absolute path: {CURRENT}", id="below here"),
        pytest.param(":/x", (), f"PYTHONPATH has an empty element: {CURRENT}", id="an unset variable before it"),
        pytest.param("/x:", (), f"PYTHONPATH has an empty element: {CURRENT}", id="an unset variable behind it"),
        pytest.param("", ("/usr/lib", ""), f"Python imports from .: {PROJECT}", id="python -c"),
        pytest.param("", ("/usr/lib", "/src/p"), f"Python imports from /src/p: {PROJECT}", id="the project"),
        pytest.param("/src/p/lib", ("/src/p/lib",), f"Python imports from /src/p/lib: {PROJECT}", id="in the project"),
    ],
)
def test_a_place_that_an_agent_can_write_is_named(pythonpath: str, path: tuple[str, ...], message: str) -> None:
    environ = {"PYTHONPATH": pythonpath}

    with pytest.raises(Unavailable) as caught:
        need_own_imports(environ, path, "/src/p", isolated=False)
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (message, REMEDY, 69)
    need_own_imports(environ, path, "/src/p", isolated=True)


def test_other_places_are_no_trouble() -> None:
    need_own_imports({"PYTHONPATH": "/opt/lib:/src/p2"}, ("/opt/lib", "/src/p2", "/usr/lib"), "/src/p", isolated=False)
    need_own_imports({}, ("/usr/lib",), "", isolated=False)


def test_a_link_to_the_project_is_the_project(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to("project")

    with pytest.raises(Unavailable, match=PROJECT):
        need_own_imports({}, (f"{tmp_path}/link",), f"{tmp_path}/project", isolated=False)


@pytest.mark.parametrize("words", [["build"], ["--net", "none", "--no-cwd", "--", "true"]], ids=" ".join)
def test_neither_a_run_nor_a_build_goes_on(tmp_path: Path, words: list[str]) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": "."}
    (tmp_path / "empty").mkdir()

    done = subprocess.run(
        [sys.executable, "-c", "import sys; from aisb.__main__ import main; main()", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path / "empty",
        env=environ,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr.decode()) == (
        69,
        b"",
        f"aisb: PYTHONPATH has '.', which is no absolute path: {CURRENT}\naisb:   {REMEDY}\n",
    )
