"""
See that a run ends when aisb does, however aisb ends.

A child of ours waits for our death. podman has a parent-death signal as well, and whatever happens to both, the
gate's lock falls free with podman.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What `pkill aisb` or `killall aisb` does not mean.
_NAME = b"sandbox-guard"
# In this time podman ends by itself, once its sandbox has been killed; to help it sooner only slows it.
_PATIENCE_SECONDS = 1.5
_AGAIN_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 5.0


class Measures(NamedTuple):
    """
    How a run is ended from outside.

    `kill` ends its first process and with it all others, at once, where that can be done; `remove` takes the
    container away, whatever state it is in; `tidy` does it with what else is left.
    """

    kill: Callable[[], object]
    remove: Callable[[], object]
    tidy: Callable[[], object]


@contextlib.contextmanager
def guardian(measures: Measures) -> Iterator[int]:
    """
    While the block runs, a child of ours waits for our death, or for the block to fail, and ends the run then.

    The block gets a descriptor for podman to hold: as long as podman lives it may be about to make the container.

    To be entered with signals held: the child keeps them so. It has a session of its own, out of the terminal's reach.
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    podman, held = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.close(held)
        _guard(read_end, podman, measures)
    os.close(read_end)
    os.close(podman)
    try:
        yield held
        os.write(write_end, b".")
    finally:
        os.close(held)
        os.close(write_end)
        os.waitpid(child, 0)


def _guard(read_end: int, podman: int, measures: Measures) -> None:
    try:
        os.setsid()
        _rename()
        for descriptor in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
        if not os.read(read_end, 1):
            _end(podman, measures)
    finally:
        os._exit(0)


def _rename() -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb") as file:
        file.write(_NAME)


def _end(podman: int, measures: Measures) -> None:
    """
    Kill, again and again, for the sandbox may be about to begin; podman ends by itself then, as a rule.

    A podman whose sandbox was killed in the middle of its making may wait for ever, and hold the lock that a removal
    needs. Only a removal that began when podman was gone already is the last one.
    """
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not _hung_up(podman, _AGAIN_SECONDS) and time.monotonic() < patience:
        measures.kill()
    _kill_holders(podman)
    pause = _AGAIN_SECONDS
    is_gone = False
    while not is_gone:
        measures.kill()
        is_gone = _hung_up(podman, pause)
        measures.remove()
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    measures.tidy()


def kill_first_process(pid_file: str) -> None:
    """
    Kill the first process of the sandbox whose number podman wrote down; its kernel takes all others along.

    Not possible in its first moments, when that process is not yet the caller's own.
    """
    with contextlib.suppress(OSError, ValueError):
        with open(pid_file, encoding="ascii") as file:
            number = int(file.read())
        process = os.pidfd_open(number)
        try:
            # The number may be another's by now; the first of a namespace of its own is not.
            if _numbers(number)[1:] == ["1"]:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def _numbers(process: int) -> list[str]:
    """What the process is called in each of its namespaces, ours first."""
    with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
        return next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])


def _kill_holders(pipe: int) -> None:
    """Kill whoever has the other end of our pipe: podman, and what it has started."""
    name = f"pipe:[{os.fstat(pipe).st_ino}]"
    for process in os.listdir("/proc"):
        if process.isdigit() and int(process) != os.getpid() and name in _open_files(process):
            with contextlib.suppress(OSError):
                os.kill(int(process), signal.SIGKILL)


def _open_files(process: str) -> list[str]:
    """What the process has open; nothing where that is not for us to know."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/{process}/fd/{number}"))
    return found


def _hung_up(podman: int, seconds: float) -> bool:
    """Whether podman has gone, or goes in that time."""
    return bool(select.select([podman], [], [], seconds)[0])
