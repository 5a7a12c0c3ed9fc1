"""
What the programs in tests/lab do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from laboratory import handover, job, machine, prepare, settings, sinks, world
from laboratory.account import environment, write_home
from laboratory.locks import locked
from laboratory.settings import ACCOUNT, HOME, HOSTS, Host, LabError, UsageError, need_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNAVAILABLE = 69
TIMED_OUT = 124
DEFAULT_SECONDS = 120.0


def main(program: Callable[[Sequence[str]], int], usage: str) -> None:
    """
    Run a program of the laboratory; an error is a line on stderr and an exit status.
    """
    try:
        code = program(sys.argv[1:])
    except UsageError as error:
        sys.stderr.write(f"lab: {error}\n{usage}")
        code = 2
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        code = UNAVAILABLE
    sys.exit(code)


def host(arguments: Sequence[str]) -> int:
    if "--" not in arguments:
        raise UsageError("there is no -- before the command")
    cut = arguments.index("--")
    options, command = arguments[:cut], arguments[cut + 1 :]
    names = [option for option in options if option not in {"--net=machine", "--net=lab"}]
    if len(names) != 1 or not command:
        raise UsageError("one host and a command are needed")
    net = "lab" if "--net=lab" in options else "machine"
    running = world.need(need_host(names[0]))
    write_home(str(running.host.home / "login"), settings=True)
    code = job.run(
        running,
        command,
        name="host",
        net=net,
        environment=environment(f"{HOME}/login") | (handover.variables() if net == "machine" else {}),
        directory=f"{HOME}/login",
    )
    assert code is not None
    return code


def run(arguments: Sequence[str]) -> int:
    """
    LAB_HOST, LAB_TIMEOUT   which host; seconds (120)
    LAB_ENV                 names of variables to hand over to the command
    LAB_RECORD              file that gets the call's record, which `sinks` reads
    LAB_HELD                the caller holds the host's lock already (the tests' fixture does)
    LAB_KEEP                leave the call's home directory
    LAB_AS_IS               leave the copy of the tree and the images as they are
    """
    if len(arguments) != 1:
        raise UsageError("the command is one argument")
    chosen = need_host(os.environ.get("LAB_HOST"))
    seconds = float(os.environ.get("LAB_TIMEOUT") or DEFAULT_SECONDS)
    running = world.need(chosen)
    _prepare(running)
    name = os.urandom(4).hex()
    home = f"{HOME}/calls/{name}"
    handed = {key: os.environ[key] for key in os.environ.get("LAB_ENV", "").split() if key in os.environ}
    with contextlib.nullcontext() if "LAB_HELD" in os.environ else locked(chosen.use, shared=True):
        _make_call(str(chosen.home / "calls" / name))
        start = sinks.position(chosen)
        try:
            code = job.run(
                running,
                ("/bin/sh", "-c", arguments[0]),
                name=name,
                net="lab",
                environment=environment(home) | handed,
                directory=f"{home}/project",
                seconds=seconds,
            )
        finally:
            sinks.write_record(chosen, start, os.environ.get("LAB_RECORD"))
            if "LAB_KEEP" not in os.environ:
                shutil.rmtree(chosen.home / "calls" / name, ignore_errors=True)
    if code is None:
        machine.say(f"ended everything after {seconds:g} s (LAB_TIMEOUT)")
    return TIMED_OUT if code is None else code


def _make_call(directory: str) -> None:
    """
    A fresh home directory, with the project in it.
    """
    account = pwd.getpwnam(ACCOUNT)
    write_home(directory, settings=False)
    os.mkdir(f"{directory}/project")
    os.chown(f"{directory}/project", account.pw_uid, account.pw_gid)
    os.chmod(directory, 0o700)


def up(arguments: Sequence[str]) -> int:
    if arguments != ["--one"]:
        return _all_at_once(arguments)
    chosen = need_host(os.environ.get("LAB_HOST"))
    _restart_if_changed(chosen)
    return 0 if _prepare(world.need(chosen), again=True) else 1


def _all_at_once(names: Sequence[str]) -> int:
    """
    Bring up several hosts, each by a process of its own; the worst exit status of them is the answer.
    """
    processes = [
        subprocess.Popen((sys.argv[0], "--one"), env=os.environ | {"LAB_HOST": chosen.name}, stdin=subprocess.DEVNULL)
        for chosen in _chosen(names)
    ]
    return max(process.wait() for process in processes)


def _prepare(running: world.World, *, again: bool = False) -> bool:
    return "LAB_AS_IS" in os.environ or prepare.prepare(running, again=again)


def _restart_if_changed(chosen: Host) -> None:
    """
    Servers and namespaces are those of the laboratory's own files as they are now, once no one uses the old ones.
    """
    digest = hashlib.sha256()
    for file in sorted((settings.TREE / "tests/lab/laboratory").rglob("*.[ps][yh]")):
        digest.update(file.read_bytes())
    stamp = chosen.cache / "laboratory.stamp"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    with locked(chosen.use), locked(chosen.life):
        world.stop(chosen)
        stamp.write_text(digest.hexdigest())


def down(arguments: Sequence[str]) -> int:
    for chosen in _chosen(arguments):
        world.stop(chosen)
    return 0


def clean(arguments: Sequence[str]) -> int:
    for chosen in _chosen(arguments):
        world.stop(chosen)
        shutil.rmtree(chosen.cache, ignore_errors=True)
    return 0


def show_sinks(arguments: Sequence[str]) -> int:
    chosen = need_host(os.environ.get("LAB_HOST"))
    if len(arguments) > 1:
        raise UsageError("at most one record is read")
    sys.stdout.buffer.write(sinks.read_record(chosen, arguments[0] if arguments else None))
    return 0


def registry(arguments: Sequence[str]) -> int:
    if arguments:
        raise UsageError("LAB_HOST names the host")
    world.need_registry(need_host(os.environ.get("LAB_HOST")))
    return 0


def _chosen(arguments: Sequence[str]) -> list[Host]:
    return [need_host(name) for name in arguments or HOSTS]
