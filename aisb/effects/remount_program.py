"""
Mounts again inside a sandbox what a rename on the host has taken away there. A program of its own: `python3 -I -S`.

    remount_program.py PID <REQUEST

PID is the sandbox's first process as the host counts, the request JSON: paths inside, the outer ones first, each with
what it is (directory, file), whether it is read-only, and the path inside of what is shown there ("" for itself).

It needs one thread, because it joins the sandbox's mounts; and it starts nothing there, since what a path leads to in
a sandbox is up to its agent. Every step on the way to a path is taken without following a link.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _CLOSE_ON_EXEC, _EMPTY_PATH = 0x1, os.O_CLOEXEC, 0x1000
_FROM_EMPTY, _TO_EMPTY = 0x4, 0x40
_READ_ONLY = 0x1
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user", ctypes.c_uint64),
    )


def main() -> None:
    """Mount what is asked for and is no mount point; print the paths that could not be, a JSON list."""
    process, request = int(sys.argv[1]), json.load(sys.stdin)
    known = os.open("/proc/self/fdinfo", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _join(process)
    failed = [path for path, kind, read_only, shown in request if not _mounted(known, path, kind, read_only, shown)]
    json.dump(failed, sys.stdout)


def _join(process: int) -> None:
    spaces = [(os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
              for name, kind in (("user", _NEW_USER), ("mnt", _NEW_MOUNTS))]  # fmt: skip
    for descriptor, kind in spaces:
        _check(_libc.setns(descriptor, kind))


def _mounted(known: int, path: str, kind: str, read_only: bool, shown: str) -> bool:
    """Whether it is a mount point, now that this was called."""
    try:
        above = _walk(os.path.dirname(path))
        place = os.open(os.path.basename(path), _STEP, dir_fd=above)
        if _mount_of(known, place) != _mount_of(known, above):
            return True
        is_directory = stat.S_ISDIR(os.fstat(place).st_mode)
        if is_directory != (kind == "directory") or not (is_directory or stat.S_ISREG(os.fstat(place).st_mode)):
            return False
        _bind(_walk(shown) if shown else place, place, read_only)
    except OSError:
        return False
    return True


def _walk(path: str) -> int:
    here = os.open("/", _STEP)
    for name in path.split("/"):
        if name:
            here = os.open(name, _STEP, dir_fd=here)
    return here


def _mount_of(known: int, descriptor: int) -> bytes:
    # As bytes: a codec that is not loaded by now would be looked for in the sandbox.
    file = os.open(str(descriptor), os.O_RDONLY | os.O_CLOEXEC, dir_fd=known)
    lines = os.read(file, 4096).splitlines()
    os.close(file)
    return next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))


def _bind(source: int, target: int, read_only: bool) -> None:
    tree = _check(_libc.syscall(_OPEN_TREE, source, b"", _CLONE | _CLOSE_ON_EXEC | _EMPTY_PATH))
    if read_only:
        attributes = Attributes(set=_READ_ONLY)
        size = ctypes.sizeof(attributes)
        _check(_libc.syscall(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, ctypes.byref(attributes), size))
    _check(_libc.syscall(_MOVE_MOUNT, tree, b"", target, b"", _FROM_EMPTY | _TO_EMPTY))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


if __name__ == "__main__":
    main()
