"""
What the programs in tests/lab do.
"""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence

from laboratory import enter, handover, world
from laboratory.settings import ACCOUNT, HOME, LabError, need_host


def environment(home: str) -> dict[str, str]:
    """
    The environment of a login on a host, and nothing of the caller's but the terminal.
    """
    uid = pwd.getpwnam(ACCOUNT).pw_uid
    passed = {name: os.environ[name] for name in ("TERM", "COLORTERM") if name in os.environ}
    return passed | {
        "HOME": home,
        "USER": ACCOUNT,
        "LOGNAME": ACCOUNT,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PATH": f"{HOME}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "XDG_RUNTIME_DIR": f"/run/user/{uid}",
    }


def write_home(home: str, *, settings: bool) -> None:
    """
    The files of a home directory: podman's storage, and root's settings for registries if asked for.
    """
    account = pwd.getpwnam(ACCOUNT)
    files = {
        ".config/containers/storage.conf": (
            f'[storage]\ndriver = "overlay"\ngraphroot = "{HOME}/store"\n'
            f'runroot = "/run/user/{account.pw_uid}/containers"\n'
        )
    }
    if settings:
        files |= {".config/pip/pip.conf": handover.pip_settings(), ".npmrc": handover.npm_settings()}
    made = [home]
    for name, text in files.items():
        target = os.path.join(home, name)
        parent = os.path.dirname(target)
        while parent not in made:
            made.append(parent)
            parent = os.path.dirname(parent)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w") as file:
            file.write(text)
        made.append(target)
    for path in made:
        os.chown(path, account.pw_uid, account.pw_gid)


def host(arguments: Sequence[str], usage: str) -> int:
    try:
        name, *options, command = _split(arguments)
    except ValueError:
        sys.stderr.write(usage)
        return 2
    net = "lab" if "--net=lab" in options else "machine"
    try:
        running = world.need(need_host(name))
    except LabError as error:
        sys.stderr.write(f"lab: {error}\n")
        return 69
    home = os.path.join(running.host.home, "login")
    os.makedirs(home, exist_ok=True)
    write_home(home, settings=True)
    child = enter.start(
        command,
        mounts_of=running.processes["holder"].pid,
        network_of=running.network(net),
        group=os.path.join(running.groups, "kept"),
        environment=environment(f"{HOME}/login") | (handover.variables() if net == "machine" else {}),
        directory=f"{HOME}/login",
    )
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


def _split(arguments: Sequence[str]) -> list:
    cut = list(arguments).index("--")
    return [*arguments[:cut], list(arguments[cut + 1 :])]
