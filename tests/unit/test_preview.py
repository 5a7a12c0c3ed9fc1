"""What is shown before a run: by which files and settings it would be, and nobody is asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from aisb.cli.main import VERBS
from aisb.cli.preview import settings_in_force
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.options import PREVIEWS
from aisb.render.describe import _ASK, Prepared, Shown, ShownGate, dry_run_lines

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


def test_no_value_that_was_given_is_printed(home: Path) -> None:
    """Neither one of the command line nor one of a file, also under a name that the sandbox has a value of its own for."""
    words = ("--env", "LANG=hunter2", "--env", "B=@C", "--env-file", "../v.env", "-q", "--dry-run", "--", "true")
    (home / "v.env").write_text("A=hunter2\nPATH=/hunter2\n")

    code, lines, _ = aisb(home, *words, C="hunter2")

    (given,) = (line for line in lines if line.startswith("(umask 077;"))
    assert (code, "hunter2" in "".join(lines)) == (0, False)
    assert [
        word in given for word in ('"A=${A}"', '"B=${C}"', '"LANG=${LANG}"', '"PATH=${PATH}"', "HOME=/home/sandbox")
    ] == 5 * [True]


def test_what_a_project_may_not_have_is_not_in_force() -> None:
    """It is cut down, and that is what is shown; what a line of a file holds stays in its line."""
    layers = [
        Layer(USER, {"memory": Setting("2g", "c:1"), "timeout": Setting("1h", "c:2")}, {}),
        Layer(PROJECT, {"memory": Setting("64g", "p:1"), "timeout": Setting("9h", "p:2")}, {}),
    ]

    found = list(settings_in_force(read_request(split(["--net", "none"], VERBS), {}, layers)))

    assert found == ["memory 2g (c:1)", "net none (--net)", "timeout 1h (c:2)"]
    lines = dry_run_lines(Shown((), sandbox=("true",), read=("a\nrm b",), settings=("x 1\nrm c (f:1)",)))
    assert lines[:2] == ["# read: a\\nrm b", "# in force: x 1\\nrm c (f:1)"]


def test_the_lines_that_prepare_for_a_run_are_ready_to_paste() -> None:
    """Each text is one word of a shell's, and no private value is in any."""
    prepared = Prepared(
        (("/r/a b", 0o711),), (("/r/f", "it's $x\n"),), ("/r/s.json",), (("/p/.pi", "/project/.pi"),), "/r/c"
    )
    variables = (("A", "B", True), ("HOME", "/h", False))
    run = Shown(variables, "/r", prepared, ("podman", "run", "x y"), ("podman", "volume", "create", "v"))

    assert dry_run_lines(run, ShownGate("/g", ("podman", "run", "gate"), "aisb-gate-0", "0000000a", ("login",)))[
        1:
    ] == [
        "umask 022",
        "mkdir -p -m 711 '/r/a b'",
        """printf %s 'it'"'"'s $x\n' >/r/f""",
        "aisb --no-cwd --net none --print-seccomp >/r/s.json",
        "mkdir -p /p/.pi && printf '%s %s\\n' \"$(stat -c '%d %i' /p/.pi)\" /project/.pi >>/r/c",
        "podman volume exists v || podman volume create v >/dev/null",
        "# values of yours are left out, and taken from this shell: A",
        """(umask 077; printf '%s\\0' "A=${B}" HOME=/h >/r/given)""",
        "# a file of yours, with what the gate alone is told: /g/login",
        "podman container exists aisb-gate-0 || podman run gate >/dev/null 3>/g/ready 4</g/login",
        f'ask_gate() {{ python3 -c {quote(_ASK)} /g/ctl.sock "$1"; }}',
        """ask_gate '{"op": "open", "run": "0000000a"}'""",
        "(flock -s 9; podman run 'x y' 3</r/given 4>/r/phases) 9>>/g/lock",
        """# afterwards: ask_gate '{"op": "close", "run": "0000000a"}'""",
        "# afterwards: rm -r /r",
        "# afterwards: rmdir /p/.pi",
    ]


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
