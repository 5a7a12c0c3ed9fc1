"""
Watch what the host may run while a sandbox has it mounted.

A mount over a file or a directory is gone from the sandbox when somebody on the host puts another one in its place, as
every editor does: it is mounted again as soon as that is seen. What was not there may appear. Both are told at once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from aisb.assets import package_path
from aisb.domain.printing import printable
from aisb.domain.protected import DIRECTORY, FILE
from aisb.effects.process import Command
from aisb.effects.shield import Watched, same, watched_at
from aisb.effects.signals import left_to_others
from aisb.errors import AisbError, Unavailable
from aisb.render.argv import SESSION_TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from aisb.domain.protected import Cover
    from aisb.effects.inotify import Inotify
    from aisb.effects.process import Runner
    from aisb.effects.session import Session
    from aisb.effects.shield import Shield

# podman is to be started before anything else is done; its sandbox takes several times as long to be there.
_BEGIN_SECONDS = 0.02
# Whatever the kernel tells: so often is looked anyway; and where it tells nothing.
_LOOK_SECONDS = 2.0
_BY_THE_CLOCK_SECONDS = 0.2
# What changes often is not looked at each time.
_PAUSE_SECONDS = 0.05
_REMOUNT_SECONDS = 10
# Told among changes where the kernel has dropped some.
MISSED = ""


class Watch:
    """A thread that watches, for as long as the block runs. Afterwards `events` says what happened, in order."""

    def __init__(self, shield: Shield, session: Session, runner: Runner, tell: Callable[[str], None]) -> None:
        self._shield = shield
        self._pid_file = session.pid_file
        self._runner = runner
        self._tell = tell
        self._covers = [*shield.covers, *shield.masks]
        self._identities = {cover.source: cover.identity for cover in self._covers}
        self._last = {item.path: item for item in shield.watched}
        self._stop, self._end = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, daemon=True)
        # With the directories around them, as far as one of them could appear.
        self._places = _directories([*self._last, *self._identities])
        # What a program replaces by way of a file beside it: git's files all are.
        self._files = [cover.source for cover in shield.covers if cover.read_only and cover.kind == FILE]
        self.events: list[str] = []
        self.attempts: set[str] = set()

    def __enter__(self) -> Self:
        if self._shield.watched or self._covers:
            with left_to_others():
                self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._end)
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._stop)

    def _run(self) -> None:
        if select.select([self._stop], [], [], _BEGIN_SECONDS)[0]:
            return
        # Costs more than a warm start has to spare.
        from aisb.effects.inotify import Inotify

        with Inotify() as news:
            patience = _LOOK_SECONDS if news.is_there else _BY_THE_CLOCK_SECONDS
            self._try_to_look(news)
            due = time.monotonic() + patience
            is_over = False
            while not is_over:
                ready = select.select([self._stop, news.descriptor], [], [], max(0.0, due - time.monotonic()))[0]
                is_over = self._stop in ready
                # What is inside may make so much news that there is always some, of nothing that is watched.
                if self._concerns(news.changed()) or time.monotonic() >= due:
                    self._try_to_look(news)
                    is_over = is_over or bool(select.select([self._stop], [], [], _PAUSE_SECONDS)[0])
                    due = time.monotonic() + patience
            self._concerns(news.changed())

    def _concerns(self, changed: set[str]) -> bool:
        """Whether one of the changes is, or may be, of what is watched. Notes what somebody began to write in vain."""
        self.attempts |= {path for path in self._files if f"{path}.lock" in changed}
        return MISSED in changed or any(path in self._places or os.path.dirname(path) in self._last for path in changed)

    def _try_to_look(self, news: Inotify) -> None:
        """Where this machine has no descriptor left for it the next time is soon."""
        with suppress(Unavailable):
            self._look(news)

    def _look(self, news: Inotify) -> None:
        """Compare, mount again what was replaced, and say what is new; then wait for what comes after."""
        news.watch(self._places)
        lost = [cover for cover in self._covers if self._is_replaced(cover)]
        if lost:
            self._mount_again()
        for path, before in self._last.items():
            now = watched_at(path, before.kind)
            if not same(before, now):
                self._last[path] = now
                self._say(_sentence(before, now))
        for cover in lost:
            if cover.source not in self._last:
                self._say(f"{cover.source} was replaced while it is covered")

    def _is_replaced(self, cover: Cover) -> bool:
        """Whether something else is there than was mounted; from now on that is what counts."""
        now = _identity(cover.source)
        if now in ("", self._identities[cover.source]):
            return False
        self._identities[cover.source] = now
        return True

    def _mount_again(self) -> None:
        """In the sandbox, over each place that is no mount point any more. What cannot be is said."""
        with suppress(OSError, ValueError, AisbError):
            with open(self._pid_file, encoding="ascii") as file:
                process = int(file.read())
            done = self._runner.run(remount_command(process, self._covers))
            failed = json.loads(done.stdout) if done.code == 0 else [cover.target for cover in self._covers]
            for target in failed:
                self._say(f"{target} could not be covered again inside")

    def _say(self, event: str) -> None:
        # Names may be the agent's: none is to look like a line of ours.
        self.events.append(printable(event))
        self._tell(printable(event))


def remount_command(process: int, covers: Iterable[Cover]) -> Command:
    """Mount again in a sandbox, whose first process this is, what is no mount point any more."""
    request = [(cover.target, cover.kind, cover.read_only, _shown(cover)) for cover in covers]
    program = f"{package_path('effects')}/remount_program.py"
    return Command(
        argv=(sys.executable, "-I", "-S", program, str(process)),
        timeout_seconds=_REMOUNT_SECONDS,
        input=json.dumps(request).encode("utf-8", "surrogateescape"),
    )


def _shown(cover: Cover) -> str:
    return f"{SESSION_TARGET}/{cover.shown}" if cover.shown else ""


def _identity(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f"{status.st_dev} {status.st_ino}"


def _directories(paths: Iterable[str]) -> set[str]:
    """The directories in which something has to happen for one of the paths to change, and the paths themselves."""
    found = set()
    for path in paths:
        found |= {path, os.path.dirname(path), os.path.dirname(os.path.dirname(path))}
    return found


def _sentence(before: Watched, now: Watched) -> str:
    if not before.stamp:
        # Costs a start nothing.
        from aisb.render.file_report import undo_of_new

        return f"{now.path} has appeared; to undo it: {undo_of_new(now.path, is_directory=before.kind == DIRECTORY)}"
    return f"{now.path} has changed" if now.stamp else f"{now.path} is gone"
