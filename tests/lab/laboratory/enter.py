"""
Start a command as the account inside a host of the laboratory.

The caller stays outside; the child joins the holder's namespaces, drops to the account and becomes the command, with
the caller's stdin, stdout, stderr, terminal and process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import stat
from typing import TYPE_CHECKING

from laboratory.settings import ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_libc = ctypes.CDLL(None, use_errno=True)


def join(pid: int, kind: str) -> None:
    """
    Move this process into the `kind` ("mnt", "net") namespace of process `pid`.
    """
    with open(f"/proc/{pid}/ns/{kind}") as namespace:
        if _libc.setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {kind} of {pid}")


def start(
    argv: Sequence[str],
    *,
    mounts_of: int,
    network_of: int,
    group: str,
    environment: Mapping[str, str],
    directory: str,
    output: int | None = None,
) -> int:
    """
    Fork the command and return its process id.

    `group` is the directory of the control group, seen from outside: whatever the command starts is in it as well.
    With `output` the command has no stdin, and its stdout and stderr go to that descriptor.
    """
    account = pwd.getpwnam(ACCOUNT)
    for stream in range(3):
        # Opening /dev/stderr opens the pipe anew, and only its owner may.
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                os.fchown(stream, account.pw_uid, account.pw_gid)
    child = os.fork()
    if child:
        return child
    try:
        # Python ignores these two; the command must not inherit that, nor the caller's blocked signals.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        with open(os.path.join(group, "cgroup.procs"), "w") as procs:
            procs.write("0")
        join(network_of, "net")
        join(mounts_of, "mnt")
        os.setgroups([account.pw_gid])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        os.umask(0o022)
        os.chdir(directory)
        if output is not None:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
        os.execvpe(argv[0], list(argv), environment)
    except BaseException as error:
        os.write(2, f"lab: {argv[0]}: {error}\n".encode(errors="surrogateescape"))
    finally:
        os._exit(126)
