"""
Processes that outlive the program that started them, known by id and start time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from laboratory.settings import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START_SECONDS = 60


class Process(NamedTuple):
    """
    A process that cannot be mistaken for a later one with the same id.
    """

    pid: int
    started: int


def identify(pid: int) -> Process:
    """
    The process with this id now. One that has ended but was not waited for has no start time.
    """
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return Process(pid, 0 if fields[0] == "Z" else int(fields[19]))


def is_alive(process: Process) -> bool:
    try:
        return identify(process.pid) == process
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(processes: Iterable[Process]) -> None:
    """
    End those of the processes that are still the same, and return when they are gone.
    """
    left = [process for process in processes if is_alive(process)]
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(is_alive, left)) and time.monotonic() < deadline:
        time.sleep(0.01)


class Starter:
    """
    Starts daemons that write to their stdout once they are ready; they keep nothing of the caller's.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.processes: dict[str, Process] = {}

    def start(self, name: str, *argv: str) -> int:
        with self.log.open("a") as log:
            daemon = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        assert daemon.stdout is not None
        ready, _, _ = select.select([daemon.stdout], [], [], START_SECONDS)
        if not ready or not os.read(daemon.stdout.fileno(), 64):
            daemon.kill()
            raise LabError(f"{name} ({argv[0]}) did not start; see {self.log}")
        self.processes[name] = identify(daemon.pid)
        return daemon.pid
