"""
Runs on a host, as the account: a command in a terminal of its own, whose one question is answered.

    python3 answer.py ANSWER COMMAND...

The answer is given once the question is there. What the command says goes to stderr, and its exit code is ours.
"""

from __future__ import annotations

import contextlib
import os
import pty
import sys

QUESTION = b"[y/N] "


def main() -> int:
    """Run it to its end."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[2], sys.argv[2:])
    said = b""
    # The kernel says EIO where the last of the other side has closed.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 65536):
            said += piece
            sys.stderr.buffer.write(piece)
            sys.stderr.flush()
            if said.endswith(QUESTION):
                os.write(terminal, f"{sys.argv[1]}\n".encode())
                said = b""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
