"""The `aisb` command."""

from __future__ import annotations

import contextlib
import os
import sys


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
    keep_descriptors_to_ourselves()
    from aisb.cli.main import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
