"""
How long sandboxes run, how much memory each holds, and what each was denied: for a list that is there at once.

Nothing is asked of podman, and no part of it takes longer than it may: what could not be told in time is None, as is
what could not be told at all.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.records import Denials, count_denials
from aisb.effects.cgroups import ROOT, group_of
from aisb.effects.session import start_time
from aisb.effects.state import read_if_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aisb.effects.session import Session

# Of all that is read for one list: the processes of a sandbox, and the record of a run, can be as many as its agent
# likes.
BUDGET_SECONDS = 0.4
# podman's name of a control group that is a container's own begins so.
_OF_A_CONTAINER = "libpod-"
_KILO = 1024
_PIECE_LINES = 1000


class Budget:
    """The time that is left for a list."""

    def __init__(self, seconds: float = BUDGET_SECONDS) -> None:
        self._end = time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether what has not been read by now is not read any more."""
        return time.monotonic() > self._end


class Usage(NamedTuple):
    """Seconds since the sandbox's first process began, and the bytes that its processes hold; None: could not tell."""

    seconds: int | None = None
    memory: int | None = None


def usage_of(sessions: Iterable[Session], budget: Budget, proc: str = "/proc", root: str = ROOT) -> dict[str, Usage]:
    """What each of these runs uses, by its id; every process of the machine is looked at once at most."""
    first = {session.run: _first_process(session, proc) for session in sessions}
    groups = {run: group_memory(root, group_of(process)) for run, process in first.items() if process}
    alone = {run: first[run] for run, memory in groups.items() if memory is None}
    summed = _shares_of(alone, budget, proc) if alone else {}
    return {
        run: Usage(_age(process), groups[run] if groups[run] is not None else summed.get(run)) if process else Usage()
        for run, process in first.items()
    }


def _first_process(session: Session, proc: str) -> str:
    """Its id on this machine; "" where it is not there yet, or is none of a sandbox any more."""
    text = (read_if_there(session.pid_file) or b"").decode("ascii", "replace").strip()
    return text if text.isdecimal() and _is_first(f"{proc}/{text}/status") else ""


def _is_first(path: str) -> bool:
    """Whether that process is the first one of a process table of its own: a number may have been given away anew."""
    with suppress(OSError):
        for line in (read_if_there(path) or b"").splitlines():
            if line.startswith(b"NSpid:"):
                numbers = line.split()[1:]
                return len(numbers) > 1 and numbers[-1] == b"1"
    return False


def _age(process: str) -> int | None:
    started = start_time(process)
    if not started:
        return None
    return max(0, int(time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")))


def group_memory(root: str, group: str) -> int | None:
    """What a sandbox's control group counts, without files that are kept in memory for speed alone; None for none."""
    if not any(part.startswith(_OF_A_CONTAINER) for part in group.split("/")):
        # It shares one with whoever started it.
        return None
    with suppress(OSError, ValueError):
        held = int(read_if_there(f"{root}{group}/memory.current") or b"")
        counts = dict(line.split() for line in (read_if_there(f"{root}{group}/memory.stat") or b"").splitlines())
        return max(0, held - int(counts.get(b"inactive_file", b"0")))
    return None


def _shares_of(first: dict[str, str], budget: Budget, proc: str) -> dict[str, int | None]:
    """The sum of what each process holds, of what is shared its part; None where not all of them could be read."""
    by_table = {_table_of(process, proc): run for run, process in first.items()}
    by_table.pop("", None)
    found: dict[str, int | None] = dict.fromkeys(by_table.values(), 0)
    for process in filter(str.isdecimal, os.listdir(proc)):
        run = by_table.get(_table_of(process, proc))
        before = found.get(run) if run else None
        if run and before is not None:
            share = None if budget.is_over() else _share(process, proc)
            found[run] = None if share is None else before + share
    return found


def _table_of(process: str, proc: str) -> str:
    """What is the same for all processes of one sandbox, "" where it cannot be read."""
    try:
        return os.readlink(f"{proc}/{process}/ns/pid")
    except OSError:
        return ""


def _share(process: str, proc: str) -> int | None:
    """A process that has ended meanwhile, or is about to be collected, holds nothing."""
    try:
        text = read_if_there(f"{proc}/{process}/smaps_rollup") or b""
    except ProcessLookupError:
        return 0
    except OSError:
        return None
    return next((int(line.split()[1]) * _KILO for line in text.splitlines() if line.startswith(b"Pss:")), 0)


def denials_in(path: str, budget: Budget) -> Denials | None:
    """How much of a record was denied; None where it could not be read, or not in time."""
    found = Denials(0, is_whole=True)
    try:
        with open(path, "rb") as file:
            while lines := list(islice(file, _PIECE_LINES)):
                if budget.is_over():
                    return None
                more = count_denials(lines)
                found = Denials(found.number + more.number, is_whole=found.is_whole and more.is_whole)
    except OSError:
        return None
    return found


def is_listening(gate: str) -> bool | None:
    """Whether a gate is there for its runs; None where it does not take a call at once."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(f"{gate}/ctl.sock")
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return None
    return True
