"""The `aisb` command."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """
    Run the command line and exit with its code.

    Descriptors that the caller left open are closed first: nothing of them may reach a container,
    and a run numbers its own from 3 upward.
    """
    os.closerange(3, 1024)
    from aisb.cli.main import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
