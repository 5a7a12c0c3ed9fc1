"""Go on without whoever started us, once there is something to go on with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def detached(run: Callable[[Callable[[str], None]], int], answer: Callable[[str], None]) -> int:
    """
    Have a child of ours run, in a session of its own; the exit code of whoever waits for it.

    `run` is given what to call with the run's id as soon as its command has begun: it is answered then, and from then
    on nothing is said to the caller's terminal any more. Where it does not get so far, the code is its own.
    """
    heard, told = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(told)
        with os.fdopen(heard) as file:
            # Not to its end: our guardian has the pipe as well.
            text = file.readline()
        if not text:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer(text)
        return 0
    os.close(heard)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1):
        os.dup2(nowhere, descriptor)

    def tell(name: str) -> None:
        os.dup2(nowhere, 2)
        os.write(told, f"{name}\n".encode("ascii"))
        os.close(told)

    return run(tell)
