"""
A user without anything, for install.sh: a home, a checkout, and a PATH on which only stand-ins and plain tools are.

The stand-in for Python makes in a moment what stands for a virtual environment; the real ones are for the
end-to-end test. As root the script runs as another account, because it refuses root.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "install.sh")
NOBODY = 65534
TOOLS = (
    "bash", "sh", "env", "id", "cat", "cp", "mv", "ln", "rm", "mkdir", "rmdir", "mktemp", "chmod", "dirname",
    "readlink", "sha256sum", "head", "tail", "tac", "cut", "sort", "tr", "sed", "grep", "find", "xargs", "flock",
    "getent", "wc",
)  # fmt: skip

PYTHON = """\
#!/bin/sh
# An environment made by this holds a copy of it, which answers as the aisb that pip put there.
for last; do :; done
here=$(dirname -- "$0")
case "$*" in
"-I -c import sys; sys.exit("*) exit 0 ;;
"-I -c import ensurepip"*) exit 0 ;;
"-I -c import sys; print("*) echo "3.12.1 /usr" ;;
"--version") echo "Python 3.12.1" ;;
"-I -m venv "*) mkdir "$last/bin" && cp "$0" "$last/bin/python" ;;
"-I -m pip "*)
    # exec: between two programs dash takes an INT for itself and goes on.
    if [ -e "$last/waits" ]; then exec cat "$last/says" "$last/waits"; fi
    if [ -e "$last/broken" ]; then echo "no network" >&2; exit 1; fi
    if [ -e "$last/dumb" ]; then exit 0; fi
    echo "collecting" && cp "$last/aisb/version" "$here/../version"
    ;;
"-I -c from aisb"*"--version") echo "aisb $(cat "$here/../version")" && [ -e "$here/../version" ] ;;
"-I -c from aisb"*) shift 3; printf '<%s>' "$@" ;;
"-I "*) shift 2; printf '<%s>' "$@" ;;
*) echo "python stand-in: $*" >&2; exit 99 ;;
esac
"""
PROGRAMS = {
    "python3": PYTHON,
    "podman": "#!/bin/sh\necho podman version 4.9.3\n",
    "newuidmap": "#!/bin/sh\n",
    "newgidmap": "#!/bin/sh\n",
    "pasta": "#!/bin/sh\n",
}


class Ended(NamedTuple):
    """How a call of install.sh ended."""

    code: int
    stdout: str
    stderr: str


class Box:
    """One user on one machine. What is given as a path is below the home."""

    def __init__(self, directory: str, home: str) -> None:
        self.home = f"{directory}/{home}"
        self.checkout = f"{directory}/checkout"
        self.path = f"{directory}/bin"
        self.environment = {"HOME": self.home, "PATH": f"{self.path}:{self.home}/.local/bin", "SHELL": "/bin/bash"}
        os.mkdir(self.home)
        os.mkdir(self.path)
        for tool in TOOLS:
            found = shutil.which(tool, path=os.defpath)
            assert found, tool
            os.symlink(found, f"{self.path}/{tool}")
        for name, text in PROGRAMS.items():
            self.program(name, text)
        self._check_out()
        self.give_home()

    def _check_out(self) -> None:
        for part in ("aisb", "gate", "templates", "config"):
            os.makedirs(f"{self.checkout}/{part}")
        for part in ("pyproject.toml", "README.md", "LICENSE"):
            self.change(part, "")
        self.change("aisb/version", "1.0\n")
        shutil.copy(SCRIPT, f"{self.checkout}/install.sh")
        os.chmod(f"{self.checkout}/install.sh", 0o755)

    def change(self, path: str, text: str) -> None:
        """Write a file of the checkout."""
        with open(f"{self.checkout}/{path}", "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, name: str, text: str) -> None:
        """Put a program on the PATH."""
        with open(f"{self.path}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.path}/{name}", 0o755)

    def without(self, *names: str) -> None:
        """Take programs off the PATH."""
        for name in names:
            os.unlink(f"{self.path}/{name}")

    def write(self, path: str, data: bytes | str) -> None:
        """Write a file of the home."""
        full = f"{self.home}/{path}"
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        self.give_home()

    def read(self, path: str) -> str:
        """A file of the home."""
        with open(f"{self.home}/{path}", encoding="utf-8") as file:
            return file.read()

    def give_home(self) -> None:
        """Let the home be the account's."""
        if os.geteuid() == 0:
            subprocess.run(("chown", "-hR", f"{NOBODY}:{NOBODY}", self.home), check=True)

    def argv(self, *command: str) -> tuple[str, ...]:
        """The command as the account's."""
        if os.geteuid() != 0:
            return command
        return ("/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", *command)

    def run(self, *command: str, environment: Mapping[str, str] | None = None, umask: int = 0o022) -> Ended:
        """Run a command as the user, in the home."""
        done = subprocess.run(
            self.argv(*command),
            env=self.environment | dict(environment or {}),
            cwd=self.home,
            umask=umask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def install(self, *arguments: str, environment: Mapping[str, str] | None = None, umask: int = 0o022) -> Ended:
        """Run the checkout's install.sh."""
        return self.run(f"{self.checkout}/install.sh", *arguments, environment=environment, umask=umask)

    def tree(self) -> dict[str, str]:
        """All that is in the home: of each path its mode, and what it holds or points to."""
        return {path: _describe(f"{self.home}/{path}") for path in sorted(self._paths())}

    def _paths(self) -> Iterator[str]:
        for directory, directories, files in os.walk(self.home):
            for name in (*directories, *files):
                yield os.path.relpath(f"{directory}/{name}", self.home)


def _describe(path: str) -> str:
    status = os.lstat(path)
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISLNK(status.st_mode):
        return f"-> {os.readlink(path)}"
    if stat.S_ISDIR(status.st_mode):
        return f"{mode} directory"
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return f"{mode} {file.read()}"


def make_box(home: str = "home") -> Iterator[Box]:
    """A box, gone afterwards. Not below pytest's own directory, which the account cannot enter."""
    # Nor what we write there, by a umask of ours that is tighter than most.
    before = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory(prefix="aisb-install-") as directory:
            os.chmod(directory, 0o755)
            yield Box(directory, home)
    finally:
        os.umask(before)
