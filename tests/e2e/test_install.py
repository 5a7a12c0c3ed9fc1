"""install.sh and the wheel for real: virtual environments, pip, and what an agent could put in their way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aisb import __version__
from tests.e2e.lab import HERE, LABORATORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.lab import Lab

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = ("install.sh", "aisb", "gate", "templates", "config", "pyproject.toml", "README.md", "LICENSE")
# A home with a blank on one of the hosts: there the command is a script of sh.
HOMES = {"debian12": "a home", "debian13": "home", HERE: "home"}
SECONDS = 300
NOW = f"aisb {__version__}\n"

# An agent owns its project, and a user may have set any of these: none of it is imported.
PLANTED = """
mkdir planted && cd planted
for name in aisb jinja2 idna sitecustomize; do echo 'raise SystemExit("planted")' >"$name.py"; done
PYTHONPATH=$PWD PYTHONSTARTUP=$PWD/aisb.py aisb --allow example.com --no-cwd --print-policy | head -n 2
cd .. && rm -r planted
"""
# Everything in the home: kind, mode, path, link, and the hash of each file. Python adds caches of its own as it runs.
SNAPSHOT = r"""
find "$HOME" -name __pycache__ -prune -o -printf '%y %m %p %l\n' | LC_ALL=C sort
find "$HOME" -name __pycache__ -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum
"""

OURS_AND_THEIRS = """
for name in ours theirs; do
    case $name in ours) label=aisb.role=x ;; theirs) label=role=aisb.role ;; esac
    tar -c checkout/LICENSE | podman import -q --change "LABEL $label" - localhost/$name
    podman volume create --label $label $name
    podman create --label $label --name $name localhost/$name /x
done
"""
WHAT_IS_THERE = """
podman ps -a --format '{{.Names}}' | sort; podman volume ls -q | sort; podman image ls --format '{{.Repository}}' | sort
"""


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class User:
    """Somebody with an empty home and a checkout on one host, who reaches the package index as the machine does."""

    def __init__(self, host: str, directory: str) -> None:
        self._host = host
        self._directory = directory
        self._setup = (
            f'export PIP_CONFIG_FILE="${{PIP_CONFIG_FILE:-$HOME/.config/pip/pip.conf}}"; cd {directory}; '
            f"export HOME='{directory}/{HOMES[host]}'; "
            'export PATH="$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin" SHELL=/bin/bash; '
            "unset XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_CONFIG_HOME\n"
        )

    def run(self, command: str, stdin: bytes = b"") -> Ended:
        """Run a text by sh."""
        return run_on(self._host, self._setup + command, stdin)

    def snapshot(self) -> list[str]:
        """All that is in the home."""
        return self.run(SNAPSHOT).stdout.splitlines()


def run_on(host: str, command: str, stdin: bytes = b"") -> Ended:
    """Run a text by sh on a host that reaches what the machine reaches."""
    where = () if host == HERE else (f"{LABORATORY}/host", host, "--")
    done = subprocess.run((*where, "sh", "-c", command), input=stdin, capture_output=True, timeout=SECONDS, check=False)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def user(lab: Lab) -> Iterator[User]:
    """On each host, with the tree as it is now."""
    directory = run_on(lab.name, "mktemp -d").stdout.strip()
    tree = subprocess.run(
        ("tar", "-c", "--exclude=__pycache__", *PARTS), cwd=CHECKOUT, capture_output=True, check=True
    ).stdout
    user = User(lab.name, directory)
    made = user.run('mkdir "$HOME" checkout && tar -x --no-same-owner -C checkout', stdin=tree)
    assert made == (0, "", "")
    yield user
    # What podman has stored there belongs to the account's other ids.
    run_on(lab.name, f"podman unshare rm -rf {directory}")


@pytest.mark.timeout(4 * SECONDS)
def test_from_the_first_installation_to_the_last_trace(user: User) -> None:
    """A user's whole way: install, use, install again, fail to upgrade, upgrade, uninstall."""
    user.run("printf 'export A=1' >~/.bashrc")
    before = user.snapshot()

    first = user.run("checkout/install.sh --alias sandboxed && mv checkout elsewhere")
    assert (first.code, first.stderr) == (0, "")
    assert user.run("aisb --version && ai-sandbox --version") == (0, f"{NOW}{NOW}", "")
    assert user.run("aisb --help | head -n 1").stdout.startswith("Run a coding agent in a rootless sandbox")
    assert user.run(PLANTED) == (0, "allow.0=example.com\nallow.0.origin=--allow\n", "")
    assert user.run("bash -ic 'type sandboxed' 2>/dev/null").stdout == "sandboxed is aliased to `aisb run'\n"

    installed = user.snapshot()
    again = user.run("mv elsewhere checkout && checkout/install.sh --alias sandboxed")
    assert (again.code, again.stdout.splitlines()) == (
        0,
        [
            f"nothing to do for aisb {__version__}: it was installed from this very checkout",
            first.stdout.splitlines()[-1],
        ],
    )
    assert user.snapshot() == installed

    user.run("sed -i 's/^__version__ = .*/__version__ = \"99.0\"/' checkout/aisb/__init__.py")
    failed = user.run("PIP_NO_INDEX=1 PIP_FIND_LINKS= checkout/install.sh")
    assert (failed.code, failed.stderr) == (69, "install.sh: pip could not install aisb; see above\n")
    assert user.snapshot() == installed
    assert user.run("aisb --version").stdout == NOW

    assert user.run("checkout/install.sh").code == 0
    assert user.run("aisb --version; ls ~/.local/share/ai-sandbox/venvs | wc -l").stdout == "aisb 99.0\n1\n"

    gone = user.run("checkout/install.sh --uninstall")
    assert (gone.code, gone.stderr) == (0, "")
    assert user.snapshot() == before


def test_what_is_missing_is_said_before_anything_is_made(user: User) -> None:
    """The real tools of the host, without podman."""
    before = user.snapshot()

    ended = user.run(
        "mkdir bin && ln -s /usr/bin/* bin/ && rm bin/podman && PATH=$PWD/bin checkout/install.sh --alias sandboxed"
    )

    said, advice, command = ended.stderr.splitlines()
    assert (ended.code, said, advice) == (
        69,
        "install.sh: podman was not found",
        "install.sh: install what is missing, and try again:",
    )
    assert re.fullmatch(
        r"install.sh:   sudo (apt-get install --yes|(dnf|zypper) install|pacman -S --needed) podman", command
    )
    assert user.snapshot() == before


def test_the_commands_that_remove_what_is_kept_remove_nothing_else(user: User) -> None:
    """The uninstallation prints them. In a store of their own: a container, a volume and an image of ours go."""
    with open(f"{CHECKOUT}/install.sh", encoding="utf-8") as file:
        commands = re.findall(r"say '  (podman .*)'$", file.read(), re.MULTILINE)

    user.run(OURS_AND_THEIRS)
    before = user.run(WHAT_IS_THERE)
    removed = user.run("\n".join(commands))
    after = user.run(WHAT_IS_THERE)

    assert len(commands) == 3
    assert before.stdout.split() == ["ours", "theirs", "ours", "theirs", "localhost/ours", "localhost/theirs"]
    assert removed.code == 0
    assert after.stdout.split() == ["theirs", "theirs", "localhost/theirs"]


# uv does not read what pip is told, and where pip's index is elsewhere uv is told so too. Each has a home of its own.
BY_TOOLS = """
"$PYTHON" -m venv tools && tools/bin/pip install --quiet pipx uv
index=${PIP_INDEX_URL:-$(tools/bin/pip config get global.index-url 2>/dev/null || true)}
if [ -n "$index" ]; then export UV_DEFAULT_INDEX="$index"; fi
mkdir pipx uv
HOME=$PWD/pipx tools/bin/pipx install --quiet "$CHECKOUT" >pipx/said 2>&1 || cat pipx/said
HOME=$PWD/uv tools/bin/uv tool install --quiet "$CHECKOUT" >uv/said 2>&1 || cat uv/said
for tool in pipx uv; do
    for name in aisb ai-sandbox; do "$tool/.local/bin/$name" --version; done
    HOME=$PWD/$tool $tool/.local/bin/aisb --help | head -n 1
    HOME=$PWD/$tool $tool/.local/bin/aisb --allow example.com --no-cwd --print-nft | grep 'table inet aisb'
done
"""


@pytest.mark.timeout(2 * SECONDS)
def test_pipx_and_uv_install_it(tmp_path: Path) -> None:
    """Each as it comes from the package index. Templates and gate come out of the package, not from a checkout."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "XDG_", "PIPX_", "UV_TOOL"))
    }
    pip_file = os.environ.get("PIP_CONFIG_FILE", os.path.expanduser("~/.config/pip/pip.conf"))
    environment |= {"PYTHON": sys.executable, "CHECKOUT": CHECKOUT, "PIP_CONFIG_FILE": pip_file}

    done = subprocess.run(("sh", "-euc", BY_TOOLS), cwd=tmp_path, env=environment, capture_output=True, text=True)

    said = f"{NOW}{NOW}Run a coding agent in a rootless sandbox whose network is an explicit allowlist.\n"
    assert (done.returncode, done.stdout) == (0, f"{said}table inet aisb {{\n" * 2)
