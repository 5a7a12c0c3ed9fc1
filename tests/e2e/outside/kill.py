"""
Runs on a host, as the account, in a project: kill -9 of aisb at a moment of a run, and what is left of the run then.

    python3 kill.py MOMENT ARGUMENT...      the arguments are aisb's; one of them holds the word in MARK

    MOMENT   gate      while the gate's container is being started
             spawned   as soon as podman has been started
             podman    as soon as it has made the container's monitor
             inside    as soon as a process of the sandbox is there
             ended     as soon as podman has ended
             recorded  as soon as the run's record says how it ended
             NAME      when there is a file of that name

Where TERMINAL is set, aisb has a terminal of its own. With WITH=guard its guardian is killed too. A command in the
file `hold` is run at the moment, one in `release` after the kill, and one in `gone` when the sandbox's last process
has ended; with THEN the kill comes at another moment after `hold`. Prints JSON: whether the sandbox was there at the
kill, seconds from the kill (or the end of `release`) to the end of its last process, what is left of the run after
all, how the next run ended (its flags are in AGAIN), and whether the terminal is as it was.
With RECORDS also whose the exit code is on the record of each run before that one, and what podman was asked.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from typing import NamedTuple

MARK = os.environ["MARK"].encode()
BASE = os.environ["XDG_RUNTIME_DIR"] + "/aisb"
# For everything that has no bound of its own.
PATIENCE_SECONDS = 60.0


class Process(NamedTuple):
    """One of the run's."""

    pid: int
    argv: bytes
    inside: bool


def read(path: str) -> bytes:
    """What is there; nothing of a process that ends."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def run_ids() -> set[str]:
    """The runs that have a directory."""
    return {os.path.basename(path) for path in glob.glob(f"{BASE}/r/*") + glob.glob(f"{BASE}/g/*/r/*")}


def processes(runs: set[str]) -> list[Process]:
    """All that belong to the run: by the mark in their arguments, or by the run's name."""
    words = [MARK, *(f"aisb-run-{run}".encode() for run in runs)]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            argv = read(f"/proc/{name}/cmdline")
            if any(word in argv for word in words) and argv != read("/proc/self/cmdline"):
                numbers = [line for line in read(f"/proc/{name}/status").splitlines() if line.startswith(b"NSpid:")]
                if numbers:
                    found.append(Process(int(name), argv, len(numbers[0].split()) > 2))
    return found


def start() -> tuple[int, int]:
    """aisb, and the terminal's other side. It is not the first process there: with that the terminal would go."""
    argv = ("aisb", *sys.argv[2:])
    if "TERMINAL" not in os.environ:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL).pid, -1
    read_end, write_end = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.write(write_end, str(subprocess.Popen(argv).pid).encode())
        signal.pause()
    threading.Thread(target=drain, args=(terminal,), daemon=True).start()
    return int(os.read(read_end, 64)), terminal


def drain(terminal: int) -> None:
    """Read what is shown there."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


def has_come(moment: str, found: list[Process]) -> bool:
    """Whether it is the moment."""
    podmans = [item for item in found if b"podman\0run\0" in item.argv]
    if moment == "gate":
        return any(b"aisb-gate-" in read(path) and b"--detach" in read(path) for path in glob.glob("/proc/*/cmdline"))
    if moment == "spawned":
        return bool(podmans)
    if moment == "podman":
        return any(item.argv.startswith(b"/usr/bin/conmon") for item in found)
    if moment == "inside":
        return any(item.inside for item in found)
    if moment == "ended":
        return not podmans
    if moment == "recorded":
        return bool({"command", "signal"}.intersection(records()))
    return os.path.exists(moment)


def wait_for(moment: str, before: set[str]) -> list[Process]:
    """Wait for the moment; the run's processes then."""
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE_SECONDS:
        found = processes(run_ids() - before)
        if has_come(moment, found):
            return found
        time.sleep(0.001)
    raise SystemExit(f"{moment} has not come")


def victims(aisb: int, found: list[Process]) -> list[int]:
    """Who is killed: aisb first."""
    guards = [item.pid for item in found if read(f"/proc/{item.pid}/comm") == b"sandbox-guard\n"]
    return [aisb, *(guards if os.environ.get("WITH") == "guard" else [])]


def shell(name: str) -> None:
    """Run the command in a file."""
    if os.path.exists(name):
        subprocess.run(("sh", name), check=True)


def watch(killed: float, runs: set[str]) -> tuple[float, list[str]]:
    """Until nothing is left: how long the sandbox has lived, and what is left after all."""
    last = killed
    while True:
        now = time.monotonic()
        found = processes(runs)
        if any(item.inside for item in found):
            last = time.monotonic()
        elif os.path.exists("gone"):
            shell("gone")
            os.unlink("gone")
        left = [item.argv.decode(errors="replace") for item in found] or directories(runs) or containers(runs)
        if not left or now - killed > PATIENCE_SECONDS:
            return round(last - killed, 3), left
        time.sleep(0.005)


def directories(runs: set[str]) -> list[str]:
    """The run's directory; without a guardian the next run takes it away."""
    return [] if os.environ.get("WITH") == "guard" else sorted(runs & run_ids())


def containers(runs: set[str]) -> list[str]:
    """The run's container, in whatever state."""
    # Past whatever stands in podman's place for aisb.
    done = subprocess.run(("/usr/bin/podman", "ps", "-a", "--format", "{{.Names}}"), capture_output=True, check=True)
    return sorted({f"aisb-run-{run}" for run in runs}.intersection(done.stdout.decode().split()))


def records() -> list[str]:
    """Whose the exit code of each run of this home is, as its record has it."""
    paths = glob.glob(os.path.expanduser("~/.local/state/ai-sandbox/runs/*/run.json"))
    return sorted(json.loads(read(path))["by"] for path in paths)


def asked() -> list[str]:
    """What podman was asked so far."""
    return sorted(set(read(os.path.expanduser("~/asked")).decode().splitlines()))


def main() -> None:
    """Once."""
    before = run_ids()
    aisb, terminal = start()
    state = termios.tcgetattr(terminal) if terminal >= 0 else None
    found = wait_for(sys.argv[1], before)
    shell("hold")
    if "THEN" in os.environ:
        found = wait_for(os.environ["THEN"], before)
    runs = run_ids() - before
    for pid in victims(aisb, found):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    select.select([os.pidfd_open(aisb)], [], [])
    killed = time.monotonic()
    if os.path.exists("release"):
        shell("release")
        killed = time.monotonic()
    seconds, left = watch(killed, runs | (run_ids() - before))
    more = {"records": records(), "asked": asked()} if "RECORDS" in os.environ else {}
    flags = os.environ.get("AGAIN", "--net none").split()
    again = subprocess.run(("aisb", "-q", *flags, "--", "true"), check=False).returncode
    left = left or sorted(runs & run_ids())
    kept = state is None or termios.tcgetattr(terminal) == state
    was_there = any(item.inside for item in found)
    found_so = {"was there": was_there, "seconds": seconds, "left": left, "again": again, "terminal": kept}
    print(json.dumps(found_so | more))


if __name__ == "__main__":
    main()
