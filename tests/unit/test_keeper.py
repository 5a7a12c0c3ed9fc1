"""What a command of `aisb exec` began ends with whoever asked for it, wherever it has gone meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of what nothing ends: an escaped one is seen for so long, and then goes by itself.
LONGEST_SECONDS = 60

# As the launcher does for a later command: its life is watched, and it becomes an init that takes in orphans and ends
# with its command. Whatever is begun has the pipe `held` open.
INIT = """
import os, sys
from gate.keeper import _libc, end_with
_libc.prctl(36, 1, 0, 0, 0)
end_with(int(sys.argv[1]))
command = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", sys.argv[2], sys.argv[3]])
while os.wait()[0] != command:
    pass
os._exit(0)
"""
# Each is told by one byte when all of it is there.
DOUBLE_FORKED = """
import os, signal, sys
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in (1, 2, 15):
            signal.signal(number, signal.SIG_IGN)
        signal.alarm(60)
        os.write(int(sys.argv[1]), b".")
        signal.pause()
    os._exit(0)
signal.alarm(60)
while True:
    signal.pause()
"""
# One after the other for longer than anybody takes to end it: some are always begun that nobody has seen yet.
BREEDING = """
import os, signal, sys, time
signal.alarm(60)
for number in range(3000):
    if not os.fork():
        os.setsid()
        signal.alarm(60)
        signal.pause()
        os._exit(0)
    if number == 20:
        os.write(int(sys.argv[1]), b".")
    time.sleep(0.001)
signal.pause()
"""
# Each forks the next and ends: whoever is seen is gone by the time that anything is done to it. As in a sandbox, whose
# table of processes its dead fill, there is an end to it.
HOPPING = """
import os, signal, sys, time
if os.fork():
    signal.pause()
os.setsid()
os.write(int(sys.argv[1]), b".")
for number in range(300):
    if os.fork():
        os._exit(0)
signal.alarm(60)
signal.pause()
"""
# Dead by the look of it: its first thread has ended, and another goes on.
HEADLESS = """
import ctypes, os, signal, sys, threading, time
def go_on():
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    os.write(int(sys.argv[1]), b".")
    time.sleep(60)
    os._exit(0)
if os.fork():
    signal.pause()
os.setsid()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""
COMMANDS = {"forked twice": DOUBLE_FORKED, "breeding": BREEDING, "hopping": HOPPING, "headless": HEADLESS}


class Begun(NamedTuple):
    """An init with its command: the pipe whose end ends it, and one that ends when nobody is left."""

    life: IO[bytes]
    held: int

    def is_over(self) -> bool:
        """Whether the last of them has gone, or soon will have."""
        while select.select([self.held], [], [], LONGEST_SECONDS / 2)[0]:
            if not os.read(self.held, 100):
                return True
        return False


@contextlib.contextmanager
def begun(command: str) -> Iterator[Begun]:
    """One whose command has begun what it begins."""
    theirs, life = os.pipe2(os.O_CLOEXEC)
    held, told = os.pipe2(os.O_CLOEXEC)
    for descriptor in (theirs, told):
        os.set_inheritable(descriptor, True)
    words = [sys.executable, "-c", INIT, str(theirs), command, str(told)]
    process = subprocess.Popen(words, pass_fds=(theirs, told), env={"PYTHONPATH": ROOT}, process_group=0)
    os.close(theirs)
    os.close(told)
    with process, os.fdopen(life, "wb") as ours, os.fdopen(held, "rb"):
        try:
            assert os.read(held, 1) == b"."
            yield Begun(ours, held)
        finally:
            ours.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_all_that_a_command_began_ends_with_whoever_asked_for_it(command: str) -> None:
    """Also what left its parent and its session and heeds no signal, and what is just being begun."""
    # Of what is being begun one may be seen in time by chance.
    for _ in range(3):
        with begun(command) as found:
            found.life.close()
            assert found.is_over()
