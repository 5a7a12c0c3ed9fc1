#!/usr/bin/python3 -IS
"""
In podman's place: stops a start in one of its phases, and hands everything on to the real one.

The file `hold` in the home names the phase. Once it is reached there is `here` in the project; it goes on when there is
`go`, and a command that outlives its aisb says so by `done`. The file `asked` gets a line for each command.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import time

REAL = "/usr/bin/podman"
PROJECT = f"{os.environ['HOME']}/project"
# Which command of podman's a phase is about, and whether it is reached before that or after it.
BEFORE = {
    "planned": "volume create",
    "recorded": "container exists",
    "gate starting": "run gate",
    "podman": "run sandbox",
}
AFTER = {"volume": "volume create", "gate proved": "run gate"}
# Inside a phase is reached when it is told; before the first one the entrypoint is at work.
INSIDE = ("entrypoint", "begun", "checked", "rules", "launcher", "relay", "proved", "exec")


def named(argv: "list[str]") -> str:
    """What a command is about."""
    if argv[:1] == ["run"]:
        return "run gate" if "--detach" in argv else "run sandbox" if "aisb-run-" in " ".join(argv) else "run"
    return " ".join(argv[:2] if argv[:1] in (["volume"], ["container"]) else argv[:1])


def touch(name: str) -> None:
    """An empty file in the project."""
    os.close(os.open(f"{PROJECT}/{name}", os.O_CREAT | os.O_WRONLY, 0o644))


def hold() -> None:
    """Be here until it goes on."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    touch("here")
    while not os.path.exists(f"{PROJECT}/go"):
        time.sleep(0.01)


def proved(argv: "list[str]") -> bool:
    """Whether the gate of this command listens, which it does once it has proved itself."""
    (name,) = {found for word in argv for found in re.findall(r"aisb-gate-([0-9a-f]{12})", word)}
    return os.path.exists(f"{os.environ['XDG_RUNTIME_DIR']}/aisb/g/{name}/ctl.sock")


def told_slowly(phase: str) -> None:
    """
    Have descriptor 4, on which the sandbox tells its phases, take one at a time: the next one waits for its reader,
    which stops with `phase`.
    """
    read_end, write_end = os.pipe2(os.O_DIRECT)
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    before = INSIDE.index(phase)
    if not before:
        os.write(write_end, b".")
    if os.fork():
        os.dup2(write_end, 4)
        os.close(write_end)
        os.close(read_end)
        return
    os.setsid()
    # Nothing else of podman's, above all not what says that it lives.
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in (read_end, 4):
            with contextlib.suppress(OSError):
                os.close(number)
    for _ in range(before - 1):
        os.write(4, os.read(read_end, 4096))
    waiting = select.poll()
    waiting.register(read_end, select.POLLIN)
    waiting.poll()
    touch("here")
    waiting.modify(read_end, 0)
    while not waiting.poll(10) and not os.path.exists(f"{PROJECT}/go"):
        pass
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    while data := os.read(read_end, 4096):
        os.write(4, data.replace(b".", b""))
    os._exit(0)


def main(argv: "list[str]") -> None:
    """Once."""
    what = named(argv)
    with open(f"{os.environ['HOME']}/asked", "a") as asked:
        asked.write(f"{what}\n")
    try:
        with open(f"{os.environ['HOME']}/hold") as file:
            phase = file.read()
    except FileNotFoundError:
        phase = ""
    if what == "run sandbox" and phase in INSIDE:
        told_slowly(phase)
    elif BEFORE.get(phase) == what:
        hold()
    if what == "run sandbox" or what not in (BEFORE.get(phase), AFTER.get(phase)):
        os.execv(REAL, [REAL, *argv])
    code = subprocess.call([REAL, *argv], close_fds=False)
    if AFTER.get(phase) == what:
        while what == "run gate" and code == 0 and not proved(argv):
            time.sleep(0.01)
        hold()
    touch("done")
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
