"""
Runs on a host, as the account, in a project: a signal to an aisb that is still starting its sandbox, and how it ends.

    python3 early.py HOW ARGUMENT...      the arguments are aisb's

    HOW   TERM, INT...   the signal, to aisb alone, which has no terminal
          key            ^C in aisb's terminal

It is sent when there is the file `here`, or a process with the word in HELD as an argument. Where GO is `after` the
start is let go on, by the file `go`, once aisb has taken in the signal. Prints JSON: aisb's exit code as a shell has
it, what it said, and what is left of the run.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = os.environ["XDG_RUNTIME_DIR"] + "/aisb"
HELD = os.environ["HELD"].encode()
PATIENCE_SECONDS = 20.0


def read(path: str) -> bytes:
    """What is there; nothing of a process that ends."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} has not come")
        time.sleep(0.01)


def is_held() -> bool:
    """Whether the start has come to where it is held."""
    return os.path.exists("here") or any(HELD in read(path).split(b"\0") for path in glob.glob("/proc/[0-9]*/cmdline"))


def runs() -> set[str]:
    """The runs that have a directory."""
    return {os.path.basename(path) for path in glob.glob(f"{BASE}/r/*") + glob.glob(f"{BASE}/g/*/r/*")}


def containers() -> set[str]:
    """The containers of runs."""
    argv = ("podman", "ps", "-a", "--filter", "name=aisb-run-", "--format", "{{.Names}}")
    return set(subprocess.run(argv, capture_output=True, check=True).stdout.decode().split())


def start_in_terminal(argv: list[str]) -> tuple[int, int, int]:
    """aisb, its terminal's other side, and a pipe with its exit code in the end."""
    read_end, write_end = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        # A handler is not inherited, as ignoring would be.
        signal.signal(signal.SIGINT, lambda *_: None)
        aisb = subprocess.Popen(argv)
        os.write(write_end, f"{aisb.pid}\n".encode())
        os.write(write_end, f"{aisb.wait()}\n".encode())
        signal.pause()
    return int(os.read(read_end, 64)), terminal, read_end


def listen(source: int, said: list[bytes]) -> None:
    """Collect what is said there."""
    with contextlib.suppress(OSError):
        while data := os.read(source, 65536):
            said.append(data)


def has_taken_it_in(aisb: int) -> bool:
    """Whether no signal is waiting for it, or it has ended of one."""
    lines = read(f"/proc/{aisb}/status").splitlines()
    # What ends a process without a handler is never taken from those that wait.
    return any(line.startswith(b"State:\tZ") for line in lines) or not any(
        line.startswith((b"SigPnd:", b"ShdPnd:")) and int(line.split()[1], 16) for line in lines
    )


def main() -> None:
    """Once."""
    how, argv = sys.argv[1], ["aisb", *sys.argv[2:]]
    before = runs(), containers()
    if how == "key":
        aisb, terminal, ended = start_in_terminal(argv)
        source = terminal
    else:
        source, write_end = os.pipe()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=write_end, stderr=write_end)
        os.close(write_end)
        aisb = process.pid
    said: list[bytes] = []
    threading.Thread(target=listen, args=(source, said), daemon=True).start()
    wait_for(is_held, "the moment")
    if how == "key":
        os.write(terminal, b"\x03")
    else:
        process.send_signal(getattr(signal, f"SIG{how}"))
    if os.environ.get("GO") == "after":
        wait_for(lambda: has_taken_it_in(aisb), "the signal")
        with open("go", "w", encoding="ascii"):
            pass
    code = status_of(int(os.read(ended, 64)) if how == "key" else process.wait())
    left = sorted((runs() - before[0]) | (containers() - before[1]))
    print(json.dumps({"code": code, "said": b"".join(said).decode(errors="replace").strip(), "left": left}))


def status_of(code: int) -> int:
    """The code as a shell has it."""
    return code if code >= 0 else 128 - code


def give_up(*_: object) -> None:
    """Nothing has ended it."""
    print(json.dumps({"code": "goes on"}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(PATIENCE_SECONDS) + 20)
    main()
