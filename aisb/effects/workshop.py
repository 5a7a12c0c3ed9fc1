"""What every step of a build needs at hand, and the locks that keep two builds from doing the same thing at once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.freshness import Freshness
from aisb.effects.host import find_program
from aisb.effects.process import SAFE_PATH, Command
from aisb.effects.state import make_private
from aisb.errors import CommandError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aisb.effects.process import Runner
    from aisb.effects.progress import Report
    from aisb.effects.state import Directories

_INSPECT_SECONDS = 60.0


class Workshop(NamedTuple):
    """
    The world as a build sees it. `environ` is the user's: proxies and npm's settings are read from it.

    `now` is the time that a record gets and is judged by, in seconds since 1970. Unless it `may_fetch`, a registry is
    not asked and nothing is built. `logs` gets the path of each build's log, where somebody wants to know.
    """

    podman: str
    directories: Directories
    environ: Mapping[str, str]
    runner: Runner
    report: Report
    now: float
    search_path: str = SAFE_PATH
    freshness: Freshness = Freshness()
    may_fetch: bool = True
    logs: list[str] | None = None

    @property
    def proxies(self) -> dict[str, str]:
        """The host's proxy variables: podman gives them to a build's steps and keeps them out of the image."""
        names = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
        both = (*names, *(name.upper() for name in names))
        return {name: self.environ[name] for name in both if self.environ.get(name)}

    @property
    def network(self) -> dict[str, str]:
        """What a program of the host needs to reach a registry: proxies, certificates, credentials."""
        names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REGISTRY_AUTH_FILE")
        return self.proxies | {name: self.environ[name] for name in names if self.environ.get(name)}

    def need_program(self, name: str, purpose: str) -> str:
        """The absolute path of a program. Raises Unavailable, with what it is needed for, where it is missing."""
        found = find_program(name, self.search_path)
        if found is None:
            raise Unavailable(f"{name} was not found: {purpose}", hint=f"install it: apt-get install {name}")
        return found

    def archive(self, name: str) -> str:
        """Where a downloaded archive lies in the cache."""
        return f"{make_private(f'{self.directories.cache}/downloads')}/{name}"

    def podman_command(self, *arguments: str, ok: frozenset[int] = frozenset({0})) -> Command:
        """A podman command that looks at something."""
        return Command(argv=(self.podman, *arguments), timeout_seconds=_INSPECT_SECONDS, ok=ok)

    def has_image(self, name: str) -> bool:
        """Whether podman's store has the image."""
        # `image inspect` exits 125 both for a missing image and for a broken engine; `exists` keeps them apart.
        command = self.podman_command("image", "exists", name, ok=frozenset({0, 1}))
        finished = self.runner.run(command)
        if finished.code not in command.ok:
            raise CommandError(
                f"{command.as_shell()} exited {finished.code}",
                hint=finished.stderr.decode("utf-8", "replace").strip()[-500:],
            )
        return finished.code == 0


def sha256_of(path: str) -> str:
    """The sha256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def alone(shop: Workshop, name: str, busy: str) -> Iterator[None]:
    """Hold the lock `name`; while another process has it, say `busy` once and wait."""
    folder = make_private(f"{shop.directories.cache}/locks")
    descriptor = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(descriptor):
            shop.report.begin(busy)
            while not _try_lock(descriptor):
                time.sleep(0.2)
                shop.report.tick()
            shop.report.end()
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
