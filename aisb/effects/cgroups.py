"""
What this host lets an ordinary user cap, and what a run has hit of it.

Caps on memory, processors and processes are the kernel's, by control groups: of version 2, and with the controllers
handed down to the user. Nothing here claims one that is not there.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.limits import CONTROLLERS, MEMORY, PIDS
from aisb.effects.state import read_if_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.domain.limits import Limit

ROOT = "/sys/fs/cgroup"
SYSTEMD = "systemd"
# The file in which the kernel counts, and the line that counts what ran into a cap.
_COUNTERS = {MEMORY: ("memory.events", "oom_kill"), PIDS: ("pids.events", "max")}


class Unenforced(NamedTuple):
    """Caps that cannot be kept here, by podman's names, and why."""

    names: tuple[str, ...] = ()
    why: str = ""

    def sentence(self) -> str:
        """What is not kept, and why."""
        return f"no cap on {', '.join(self.names)} here: {self.why}"


def unenforced(limits: Iterable[Limit], manager: str, root: str = ROOT) -> Unenforced:
    """Which of these caps cannot be kept. `manager` is what podman makes control groups by."""
    asked = [limit.name for limit in limits if limit.name in CONTROLLERS]
    controllers, why = _controllers(manager, root)
    missing = tuple(name for name in asked if CONTROLLERS[name] not in controllers)
    if not missing:
        return Unenforced()
    named = " ".join(CONTROLLERS[name] for name in missing)
    return Unenforced(missing, why or f"this host does not hand down to your user: {named}")


def _controllers(manager: str, root: str) -> tuple[frozenset[str], str]:
    """The controllers that an ordinary user's containers may use, and why there are none."""
    if not os.path.exists(f"{root}/cgroup.controllers"):
        return frozenset(), "it has control groups of version 1, in which only root can set one"
    if manager != SYSTEMD:
        return frozenset(), "podman has no systemd session of yours to ask for one"
    uid = os.getuid()
    service = f"{root}/user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    return frozenset((read_if_there(service) or b"").decode("ascii", "replace").split()), ""


class Watch:
    """
    Counts how often a running sandbox has hit a cap.

    Its control group is gone with it, so the kernel is heard while it runs: `fileno` can be read when there is news.
    """

    def __init__(self, root: str = ROOT) -> None:
        self._root = root
        self._news = select.epoll()
        self._files: dict[int, tuple[str, int]] = {}
        self._hits: set[str] = set()

    def fileno(self) -> int:
        """What can be read when the kernel has counted something."""
        return self._news.fileno()

    def begin(self, process: str) -> None:
        """Watch the group of the sandbox's first process, and the one around it, which has the caps."""
        with contextlib.suppress(OSError):
            place = group_of(process)
            for group in (place, os.path.dirname(place)) if place else ():
                self._open(group)

    def _open(self, group: str) -> None:
        for name, (file, key) in _COUNTERS.items():
            with contextlib.suppress(OSError):
                descriptor = os.open(f"{self._root}{group}/{file}", os.O_RDONLY | os.O_CLOEXEC)
                self._files[descriptor] = (name, _count(descriptor, key))
                self._news.register(descriptor, select.EPOLLPRI)

    def look(self) -> None:
        """Take in what the kernel has counted by now."""
        for descriptor, (name, before) in self._files.items():
            # A group that is gone counts no more.
            with contextlib.suppress(OSError):
                if _count(descriptor, _COUNTERS[name][1]) > before:
                    self._hits.add(name)

    def end(self) -> tuple[str, ...]:
        """The caps that were hit, by podman's names; nothing is watched any more."""
        self.look()
        for descriptor in self._files:
            os.close(descriptor)
        self._files = {}
        self._news.close()
        return tuple(sorted(self._hits))


def group_of(process: str) -> str:
    """The path of the process's control group of version 2, "" where it has none."""
    lines = (read_if_there(f"/proc/{process}/cgroup") or b"").decode("utf-8", "surrogateescape").splitlines()
    return next((line.removeprefix("0::") for line in lines if line.startswith("0::/") and line != "0::/"), "")


def _count(descriptor: int, key: str) -> int:
    text = os.pread(descriptor, 4096, 0).decode("ascii", "replace")
    return next(
        (int(value) for name, _, value in (line.partition(" ") for line in text.splitlines()) if name == key), 0
    )
