"""
What `aisb doctor --deep` tries inside a sandbox: everything that must not be possible, and what has to be.

It travels to the sandbox as data, with the modules beside it, and nothing of it is in an image. Each attempt says in a
few words what came of it, in a line of its own; which words are right is decided outside. None does harm where it
succeeds: what stands open is the sandbox's own.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from gate import attempts_files, attempts_kernel, attempts_network, attempts_rules, attempts_work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Given = Mapping[str, Any]
    Attempts = Mapping[str, Callable[[Given], str]]

# Side by side, in a process each: one that has threads cannot try everything that a process can.
SIDE_BY_SIDE: tuple[Attempts, ...] = (
    attempts_network.ATTEMPTS,
    attempts_kernel.ATTEMPTS,
    attempts_files.ATTEMPTS,
    attempts_work.ATTEMPTS,
)
# One after the other, when nothing else is under way: they would change what the others see.
AT_THE_END: Attempts = attempts_rules.ATTEMPTS
# Beside the sandbox's, in its gate, as squid's own user.
IN_THE_GATE: Attempts = attempts_network.IN_THE_GATE
_LONGEST = 100


def names() -> list[str]:
    """Every attempt."""
    groups = (*SIDE_BY_SIDE, AT_THE_END, IN_THE_GATE)
    return [name for group in groups for name in group]


def main(given: Given) -> None:
    """Try everything but what is to be left out, and stay until nobody has anything to say to us any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if given["where"] == "gate":
        _side_by_side(IN_THE_GATE, given)
        return
    children = [_fork(group, given, threads=group is attempts_network.ATTEMPTS) for group in SIDE_BY_SIDE]
    for child in children:
        os.waitpid(child, 0)
    _one_by_one(AT_THE_END, given)
    sys.stdin.buffer.read()


def _fork(group: Attempts, given: Given, *, threads: bool) -> int:
    child = os.fork()
    if child:
        return child
    try:
        (_side_by_side if threads else _one_by_one)(group, given)
    finally:
        os._exit(0)


def _one_by_one(group: Attempts, given: Given) -> None:
    for name, attempt in group.items():
        _try(name, attempt, given)


def _side_by_side(group: Attempts, given: Given) -> None:
    threads = [threading.Thread(target=_try, args=(name, attempt, given)) for name, attempt in group.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _try(name: str, attempt: Callable[[Given], str], given: Given) -> None:
    if name in given["left_out"]:
        return
    started = time.monotonic()
    line = {"attempt": name, "seen": _outcome(attempt, given)[:_LONGEST], "seconds": time.monotonic() - started}
    # Shorter than what a pipe takes in one piece, so that no two get mixed up.
    os.write(1, json.dumps(line).encode("ascii") + b"\n")


def _outcome(attempt: Callable[[Given], str], given: Given) -> str:
    try:
        return attempt(given)
    except TimeoutError:
        return "silence"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except (ValueError, LookupError, subprocess.SubprocessError) as error:
        return type(error).__name__
