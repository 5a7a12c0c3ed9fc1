"""What aisb may not read or write is a sentence with a next step and an exit code, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.test_logs_verb import Place, named, place

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["place"]

# root reads what it may not, unless this is taken from it.
WITHOUT_PRIVILEGE = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()
RUNS = ".local/state/ai-sandbox/runs"
RECORD = f"{RUNS}/12345678"


@pytest.fixture(autouse=True)
def closed(place: Place) -> Iterator[list[Path]]:
    """What a test has closed: opened again, so that it can be removed."""
    paths: list[Path] = []
    yield paths
    for path in paths:
        path.chmod(0o700)


def aisb(place: Place, *words: str) -> tuple[int, list[str]]:
    """Exit code of aisb in the project, and what it says."""
    done = subprocess.run(
        [*WITHOUT_PRIVILEGE, sys.executable, "-m", "aisb", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=place.project,
        env=place.environ,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


def close(place: Place, closed: list[Path], what: str, mode: int) -> None:
    path = place.path / what
    path.mkdir(parents=True, exist_ok=True) if not path.exists() else None
    path.chmod(mode)
    closed.append(path)


@pytest.mark.parametrize("words", [("init",), ("allow", "x.test", "--save")])
@pytest.mark.parametrize(
    ("what", "mode", "code", "sentence"),
    [
        ("p", 0o555, 69, ".ai-sandbox could not be made: Permission denied"),
        ("p/.ai-sandbox", 0o555, 69, ".ai-sandbox/allow could not be written: Permission denied"),
        ("p/.ai-sandbox", 0, None, "Permission denied"),
        (".local/state", 0o555, 69, "the record of what was trusted, could not be written: Permission denied"),
        (".local/state", 0, 69, "the record of what was trusted, cannot be read"),
        (".local/state/ai-sandbox/trust", 0o555, 69, "could not be written: Permission denied"),
    ],
)
def test_what_cannot_be_written_is_a_sentence(
    place: Place, closed: list[Path], words: tuple[str, ...], what: str, mode: int, code: int | None, sentence: str
) -> None:
    close(place, closed, what, mode)

    found, lines = aisb(place, *words)

    assert found == code if code else found in (2, 69)
    assert sentence in lines[0]
    assert (len(lines), lines[1][:8]) == (2, "aisb:   ")
    for path in closed:
        path.chmod(0o700)
    assert not (place.path / "p/.ai-sandbox/allow").exists()


@pytest.mark.parametrize("words", [(), ("--summary",), ("12345678",)])
@pytest.mark.parametrize("what", [f"{RECORD}/audit.jsonl", f"{RECORD}/run.json", RECORD, RUNS, ".local/state"])
def test_a_record_that_cannot_be_read_is_not_taken_for_none(
    place: Place, closed: list[Path], words: tuple[str, ...], what: str
) -> None:
    place.ended("12345678", named("a.test"))
    close(place, closed, what, 0)

    code, lines = aisb(place, "logs", *words)

    assert code == 69
    assert "cannot be read: Permission denied" in lines[0]
    assert (len(lines), lines[1][:8]) == (2, "aisb:   ")


@pytest.mark.parametrize("words", [("logs",), ("allow", "x.test"), ("deny", "x.test")])
@pytest.mark.parametrize(
    "what", ["rt/aisb", "rt/aisb/g", "rt/aisb/g/0123456789ab/r", "rt/aisb/g/0123456789ab/r/12345678"]
)
def test_runs_that_cannot_be_looked_at_are_not_taken_for_none(
    place: Place, closed: list[Path], words: tuple[str, ...], what: str
) -> None:
    place.run("12345678", named("a.test"))
    close(place, closed, what, 0)

    code, lines = aisb(place, *words)

    assert code == 69
    assert "cannot be read: Permission denied" in lines[0]
    assert (len(lines), lines[1][:8]) == (2, "aisb:   ")


def test_in_a_directory_that_is_gone_a_run_is_found_by_its_id(place: Place) -> None:
    place.ended("12345678", named("a.test"))
    program = "import os, sys; os.rmdir(os.getcwd()); from aisb.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def logs(*words: str) -> tuple[int, str, str]:
        os.makedirs(place.project, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", program, "logs", *words],
            capture_output=True,
            text=True,
            cwd=place.project,
            env={**place.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    code, _, err = logs()
    assert (code, err.splitlines()[0]) == (2, "aisb: the current directory no longer exists")
    code, out, err = logs("12345678")
    assert (code, "a.test" in out, err) == (0, True, "")
