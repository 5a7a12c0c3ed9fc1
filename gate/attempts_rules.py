"""What would change the sandbox for everything else that is tried in it: the last to be tried."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from gate.attempts_kernel import apart, call, same
from gate.attempts_network import NOBODY, reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Given = Mapping[str, Any]

_NFT, _IP = "/usr/sbin/nft", "/usr/sbin/ip"
_SECONDS = 20.0
# What a cap of that many lets through at most, and how many more are tried.
_MORE = 64
_NOT_PERMITTED = b"not permitted"
_BIND, _REMOUNT = 4096, 32


def _program(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    if done.returncode == 0:
        return "done"
    return "EPERM" if _NOT_PERMITTED in done.stderr else "failed"


def _rules(_given: Given) -> str:
    """Lift the rules, and look whether they hold."""
    tries = (
        _program(_NFT, "flush", "ruleset"),
        _program(_NFT, "delete", "table", "inet", "aisb"),
        _program(_NFT, "add", "table", "inet", "mine"),
    )
    return f"{same(tries)}; {reach([NOBODY], (22, 443))}"


def _routes(_given: Given) -> str:
    tries = (
        _program(_IP, "route", "flush", "table", "local"),
        _program(_IP, "link", "set", "lo", "down"),
        _program(_IP, "link", "add", "name", "d0", "type", "dummy"),
        _program(_IP, "addr", "add", "203.0.113.77/24", "dev", "lo"),
    )
    return f"{same(tries)}; {reach([NOBODY], (22, 443))}"


def _mount(_given: Given) -> str:
    """Where these succeed, nothing is where it was."""
    place = tempfile.mkdtemp().encode()

    def tries() -> str:
        return same(
            (
                call("mount", b"none", place, b"tmpfs", 0, 0),
                call("mount", b"/proc", place, b"", _BIND, 0),
                call("mount", b"", b"/run/aisb", b"", _BIND | _REMOUNT, 0),
                call("umount2", b"/run/aisb", 2),
                *(call(name, 0, 0, 0, 0, 0) for name in ("open_tree", "fsopen", "move_mount", "mount_setattr")),
                call("pivot_root", place, place),
                call("chroot", place),
            )
        )

    return apart(tries)


def _bomb(given: Given) -> str:
    """Ever more processes, until there may be no more; all of them end with us, and so does the attempt."""
    life, ours = os.pipe()
    children = []
    ended = "as many as were wanted"
    try:
        for _ in range(given["most_processes"] + _MORE):
            child = os.fork()
            if not child:
                os.close(ours)
                # Until that end is closed everywhere.
                select.select([life], [], [])
                os._exit(0)
            children.append(child)
    except OSError as error:
        ended = errno.errorcode.get(error.errno or 0, "error")
    finally:
        os.close(ours)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return ended


ATTEMPTS: Mapping[str, Callable[[Given], str]] = {
    "lifting the rules": _rules,
    "routes and network devices": _routes,
    "mounts": _mount,
    "a fork bomb": _bomb,
}
