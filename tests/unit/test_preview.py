"""What is shown before a run: by which files and settings it would be, and nobody is asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aisb.cli.main import VERBS
from aisb.cli.preview import settings_in_force
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.options import PREVIEWS
from aisb.render.describe import dry_run_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONFIG = "memory: 16g\nallow: [a.test]\nproxy: http://proxy.invalid:3128\n"


@pytest.fixture
def home() -> Iterator[Path]:
    """A user with a configuration, and a project."""
    with tempfile.TemporaryDirectory(prefix="home-") as made:
        home = Path(made)
        (home / ".config/ai-sandbox").mkdir(parents=True)
        (home / ".config/ai-sandbox/config.yaml").write_text(CONFIG)
        (home / "v.env").write_text("A=1\n")
        (home / "v.env").chmod(0o600)
        (home / "p").mkdir()
        yield home


def aisb(home: Path, *words: str, **environ: str) -> tuple[int, list[str], str]:
    """Exit code, lines and stderr, in the project."""
    done = subprocess.run(
        [sys.executable, "-m", "aisb", *words],
        cwd=home / "p",
        env={"HOME": str(home), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(home), "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


BY_NAME = "aisb: note: a run looks up where the proxy proxy.invalid is; here its name stands for its addresses\n"


def test_a_dry_run_says_by_which_files_and_settings(home: Path) -> None:
    """What one counts of, with where it was written; what adds up is in the printed policy."""
    words = ("--pids-limit=100", "--read-only", "--env-file", "../v.env", "--dry-run", "--", "true")

    code, lines, said = aisb(home, *words, AISB_TIMEOUT="2h")

    assert (code, said) == (0, BY_NAME)
    assert lines[:8] == [
        "# read: ~/.config/ai-sandbox/config.yaml",
        "# read: ../v.env",
        "# in force: memory 16g (~/.config/ai-sandbox/config.yaml:1)",
        "# in force: pids-limit 100 (--pids-limit)",
        "# in force: proxy http://proxy.invalid:3128 (~/.config/ai-sandbox/config.yaml:3)",
        "# in force: read-only on (--read-only)",
        "# in force: timeout 2h (AISB_TIMEOUT)",
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
    ]


def test_what_a_project_may_not_have_is_not_in_force() -> None:
    """It is cut down, and that is what is shown; what a line of a file holds stays in its line."""
    layers = [
        Layer(USER, {"memory": Setting("2g", "c:1"), "timeout": Setting("1h", "c:2")}, {}),
        Layer(PROJECT, {"memory": Setting("64g", "p:1"), "timeout": Setting("9h", "p:2")}, {}),
    ]

    found = list(settings_in_force(read_request(split(["--net", "none"], VERBS), {}, layers)))

    assert found == ["memory 2g (c:1)", "net none (--net)", "timeout 1h (c:2)"]
    lines = dry_run_lines(
        files=(), gate=(), sandbox=("true",), variables=(), read=["a\nrm b"], settings=["x 1\nrm c (f:1)"]
    )
    assert lines[:2] == ["# read: a\\nrm b", "# in force: x 1\\nrm c (f:1)"]


@pytest.mark.parametrize("what", ["dry-run", *(f"print-{what}" for what in PREVIEWS if what != "seccomp")])
def test_no_name_server_is_asked_where_the_proxy_is(home: Path, what: str) -> None:
    """One that nobody could look up is shown by its name."""
    code, lines, said = aisb(home, f"--{what}", "--", "true")

    shows_it = what in ("dry-run", "print-squid", "print-gate-nft")
    assert (code, said) == (0, BY_NAME if shows_it else "")
    assert lines


def test_the_gates_own_texts_are_shown(home: Path) -> None:
    """By the list, and by the image; where there is no gate there are no rules of one."""
    here = ("--allow", "10.1.2.3:5432")
    (home / ".config/ai-sandbox/config.yaml").unlink()

    _, rules, _ = aisb(home, *here, "--print-gate-nft")
    _, built, _ = aisb(home, "--print-gate-containerfile")
    without = aisb(home, "--net", "none", "--print-gate-nft")

    assert "ip daddr 10.1.2.3 tcp dport 5432 accept" in "\n".join(rules)
    assert (
        built[0]
        == "# The gate's image, on the same base as the sandbox's: squid, nft, Python, and the programs that decide."
    )
    assert (without[0], without[2]) == (
        2,
        "aisb: --print-gate-nft: there is no gate under --net none\naisb:   leave one of the two out\n",
    )
