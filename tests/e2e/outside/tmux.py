"""
Runs on a host, as the account: a shell in a tmux window, typed into step by step.

    python3 tmux.py COLUMNS LINES < STEPS

STEPS is a JSON list of [WHAT, TEXT]: `type` types a text, `press` a key of tmux's, `resize` takes "COLUMNS LINES", and
`see` waits until the screen matches a regular expression, `miss` until it does not, `run` until a command of `sh` ends
well. `enter` presses Enter, and again each second, until the screen matches: a program may say that it is not there yet. Prints the screen after the last step. A step that takes too long ends it with that screen and exit code 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

SECONDS = 90.0
LOOK_SECONDS = 0.05
AGAIN_SECONDS = 1.0
SOCKET = "aisb-test"


def tmux(*words: str) -> str:
    """What tmux says to a command."""
    argv = ("tmux", "-L", SOCKET, "-f", "/dev/null", *words)
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def screen() -> str:
    """What is on the screen, and what has left it at the top."""
    return tmux("capture-pane", "-p", "-S", "-200")


def is_done(what: str, text: str) -> bool:
    """Whether the world is as a step waits for."""
    if what == "run":
        return subprocess.run(("sh", "-c", text), stdout=subprocess.DEVNULL, check=False).returncode == 0
    found = re.search(text, tmux("capture-pane", "-p"), re.MULTILINE) is not None
    return not found if what == "miss" else found


def step(what: str, text: str) -> bool:
    """Take a step; whether it came to its end in time."""
    if what == "type":
        tmux("send-keys", "-l", text)
    elif what == "press":
        tmux("send-keys", text)
    elif what == "resize":
        columns, lines = text.split()
        tmux("resize-window", "-x", columns, "-y", lines)
    else:
        return wait(what, text)
    return True


def wait(what: str, text: str) -> bool:
    """Until the world is as a step waits for; whether it came to be in time."""
    deadline = time.monotonic() + SECONDS
    pressed = 0.0
    while not is_done(what, text):
        if time.monotonic() > deadline:
            return False
        if what == "enter" and time.monotonic() > pressed + AGAIN_SECONDS:
            tmux("send-keys", "Enter")
            pressed = time.monotonic()
        time.sleep(LOOK_SECONDS)
    return True


def main() -> int:
    """All of them."""
    tmux("new-session", "-d", "-x", sys.argv[1], "-y", sys.argv[2], "exec env PS1='host> ' bash --norc -i")
    try:
        for what, text in json.load(sys.stdin):
            if not step(what, text):
                print(f"{what} {text}: not within {SECONDS:g} s", file=sys.stderr)
                print(screen())
                return 1
        print(screen())
        return 0
    finally:
        tmux("kill-server")


if __name__ == "__main__":
    sys.exit(main())
