"""
Run one command on a host, to its end or to a deadline, and leave nothing of it behind but what is meant to stay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from laboratory import enter
from laboratory.daemons import Process, identify, is_alive
from laboratory.locks import locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laboratory.world import World

TIDY_SECONDS = 5

_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_FROM_KERNEL = 0x80


def run(
    running: World,
    argv: Sequence[str],
    *,
    name: str,
    net: str,
    environment: Mapping[str, str],
    directory: str,
    seconds: float | None = None,
    output: int | None = None,
) -> int | None:
    """
    Run `argv` as the account and return its exit status as a shell would say it; None when the deadline ended it.

    The command has a control group of its own. At the deadline everything in it is killed. After a normal end, what
    is left of the caller's session is killed; what made a session of its own (a gate, a podman monitor) stays.
    """
    _sweep(running)
    me = identify(os.getpid())
    group = os.path.join(running.groups, f"call-{name}-{me.pid}-{me.started}")
    os.mkdir(group)
    try:
        with locked(running.host.life, shared=True), _signals_held() as waited:
            child = enter.start(
                argv,
                mounts_of=running.holder,
                network_of=running.network(net),
                group=group,
                environment=environment,
                directory=directory,
                output=output,
            )
            code = _wait(child, None if seconds is None else time.monotonic() + seconds, waited)
            if code is None:
                _kill(group)
                os.waitpid(child, 0)
    finally:
        _release(group, os.path.join(running.groups, "kept"))
    return code


@contextlib.contextmanager
def _signals_held() -> Iterator[set[int]]:
    waited: set[int] = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        yield waited
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(child: int, deadline: float | None, waited: set[int]) -> int | None:
    """
    Wait for `child`, passing signals on; None when the deadline came first.
    """
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code
        left = 3600.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return None
        info = signal.sigtimedwait(waited, left)
        # A terminal's signal goes to the whole process group: the command has it already.
        if info and info.si_signo in _FORWARDED and info.si_code != _FROM_KERNEL:
            os.kill(child, info.si_signo)


def _members(group: str) -> list[int]:
    with open(os.path.join(group, "cgroup.procs")) as procs:
        return [int(line) for line in procs]


def _kill(group: str) -> None:
    """
    End all that is in the group: a container's monitor last, which then notes the end and removes the container.
    """
    deadline = time.monotonic() + TIDY_SECONDS
    while (members := _members(group)) and time.monotonic() < deadline:
        for pid in members:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if not _tidies_up(pid):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    with open(os.path.join(group, "cgroup.kill"), "w") as kill:
        kill.write("1")
    while _members(group):
        time.sleep(0.005)


def _tidies_up(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        argv = file.read()
    return argv.startswith(b"/usr/bin/conmon\0") or b"\0container\0cleanup\0" in argv


def _is_network(pid: int) -> bool:
    """
    Whether this is a container's network: podman 4 leaves it in the session of whoever started the container.
    """
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.path.basename(file.read().partition(b"\0")[0]) == b"slirp4netns"
    return False


def _release(group: str, kept: str) -> None:
    """
    Take the group away: kill what is left of this session in it, move the rest to the group `kept`.
    """
    session = os.getsid(0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for pid in _members(group):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == session and not _is_network(pid):
                    os.kill(pid, signal.SIGKILL)
                else:
                    with open(os.path.join(kept, "cgroup.procs"), "w") as procs:
                        procs.write(str(pid))
        try:
            os.rmdir(group)
        except OSError:
            time.sleep(0.005)
        else:
            return


def _sweep(running: World) -> None:
    """
    End what calls have left whose caller was itself killed.
    """
    for name in os.listdir(running.groups):
        if name.startswith("call-"):
            pid, started = name.split("-")[-2:]
            if not is_alive(Process(int(pid), int(started))):
                group = os.path.join(running.groups, name)
                with contextlib.suppress(OSError):
                    _kill(group)
                    os.rmdir(group)
