"""Ways to files that are not the sandbox's, to what the host runs, and to a value that must not be inside."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from typing import TYPE_CHECKING, Any

from gate.attempts_kernel import attempt, same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Given = Mapping[str, Any]

GATE = "/run/aisb/gate"
_TREES = (
    "/run",
    "/etc",
    "/home",
    "/root",
    "/project",
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/opt",
    "/srv",
    "/mnt",
    "/media",
)
_OF_A_PROCESS = ("environ", "cmdline", "mountinfo", "maps")
_LARGEST = 1 << 20
_MOST_FILES = 20000
# Of the secret's form, and of its placeholder's; each beginning counts.
_OF_ITS_FORM = re.compile(rb"(?=([0-9a-f]{40}))")


def _gates_socket(_given: Given) -> str:
    def bind() -> None:
        with socket.socket(socket.AF_UNIX) as mine:
            mine.bind(f"{GATE}/other.sock")

    path = f"{GATE}/gate.sock"
    return same(
        (
            attempt(bind),
            attempt(lambda: os.rename(path, f"{GATE}/old")),
            attempt(lambda: os.symlink("/tmp/x", f"{GATE}/x")),
            attempt(lambda: os.chmod(path, 0)),
            attempt(lambda: os.unlink(f"{GATE}/nothing") if not os.path.exists(path) else os.unlink(path)),
        )
    )


def _own_files(_given: Given) -> str:
    paths = ("/run/aisb/policy.json", "/run/aisb/sandbox.nft", "/etc/resolv.conf", "/etc/passwd", "/etc/hosts")
    made = ("/usr/libexec/aisb/x", "/usr/bin/x", "/run/aisb/x")
    opened = (attempt(lambda path=path: os.close(os.open(path, os.O_WRONLY))) for path in paths)  # type: ignore[misc]  # mypy infers no lambda with defaults
    flags = os.O_CREAT | os.O_WRONLY
    created = (attempt(lambda path=path: os.close(os.open(path, flags))) for path in made)  # type: ignore[misc]  # mypy infers no lambda with defaults
    return same((*opened, *created))


def _hooks(_given: Given) -> str:
    paths = ("hooks/pre-commit", "hooks/new", "config", "info/attributes")
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
    return same(attempt(lambda path=path: os.close(os.open(f".git/{path}", flags, 0o755))) for path in paths)  # type: ignore[misc]  # mypy infers no lambda with defaults


def _parents(_given: Given) -> str:
    moves = ((".git", ".moved"), (".git/hooks", ".git/moved"), (".git/config", ".git/moved"))
    return same(attempt(lambda move=move: os.rename(*move)) for move in moves)  # type: ignore[misc]  # mypy infers no lambda with defaults


def _links(given: Given) -> str:
    """By a link that lies in the project, by one that is made now, and by the path itself."""
    outside = given["outside"]
    os.symlink(outside, "mine")
    flags = os.O_CREAT | os.O_WRONLY
    seen = []
    for path in ("out", "mine", outside, f"/project/../..{outside}"):
        seen.append(attempt(lambda path=path: os.close(os.open(f"{path}/canary", os.O_RDONLY))))  # type: ignore[misc]  # mypy infers no lambda with defaults
        seen.append(attempt(lambda path=path: os.close(os.open(f"{path}/new", flags))))  # type: ignore[misc]  # mypy infers no lambda with defaults
    return same(seen)


def _secret(given: Given) -> str:
    """Whether the value is anywhere that can be read. It is known by its hash alone, for this program is inside too."""
    placeholder = os.environb[given["token"].encode("ascii")]
    has_placeholder = False
    for data in _everything():
        for found in set(_OF_ITS_FORM.findall(data)):
            if hashlib.sha256(given["salt"].encode("ascii") + found).hexdigest() == given["hash"]:
                return "found"
            has_placeholder = has_placeholder or found == placeholder
    # It is there, so that whoever does not find it has not looked.
    return "not found" if has_placeholder else "not looked for"


def _everything() -> Iterator[bytes]:
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    yield from map(_content, (f"/proc/{process}/{name}" for process in processes for name in _OF_A_PROCESS))
    count = 0
    for tree in _TREES:
        for place, _, files in os.walk(tree):
            for name in files:
                count += 1
                if count < _MOST_FILES:
                    yield name.encode("utf-8", "surrogateescape")
                    yield _content(f"{place}/{name}")


def _content(path: str) -> bytes:
    """A file, "" for what cannot be read and what is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _LARGEST) if os.path.isfile(path) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


ATTEMPTS: Mapping[str, Callable[[Given], str]] = {
    "the gate's socket": _gates_socket,
    "aisb's own files": _own_files,
    "git's hooks and configuration": _hooks,
    "renaming what holds them": _parents,
    "links out of the project": _links,
    "the secret behind a placeholder": _secret,
}
