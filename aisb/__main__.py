"""The `aisb` command."""

from __future__ import annotations

import contextlib
import os
import sys


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
    have_the_first_three()
    keep_descriptors_to_ourselves()
    from aisb.cli.main import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
