"""The `aisb` command."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn


def have_the_first_three() -> None:
    """
    Open stdin, stdout and stderr to nothing where the caller closed them.

    Otherwise the next files that are opened get their numbers, and a program that we start takes our pipes for its own.
    What we ourselves print on a closed stdout fails all the same: nobody has seen it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def keep_descriptors_to_ourselves() -> None:
    """Mark every descriptor above stderr close-on-exec."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def main() -> None:
    """
    Run the command line and exit with its code.

    Descriptors that the caller left open stay ours: no program that we start inherits them.
    """
    # What imports leave behind is no garbage: to look for it again and again costs a tenth of a start.
    gc.set_threshold(100_000)
    have_the_first_three()
    keep_descriptors_to_ourselves()
    from aisb.cli.main import main as run

    leave(run(sys.argv[1:]))


def leave(code: int) -> NoReturn:
    """
    End with this exit code, at once.

    An ordinary exit takes every module apart first: a tenth of a start, in which nothing is done for anybody.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # As Python has it; whoever answers has seen to it that nothing is left unsaid.
            code = code or 120
    os._exit(code)


if __name__ == "__main__":
    main()
