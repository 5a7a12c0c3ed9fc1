"""Ways to privileges, namespaces and the memory of others; what changes who tries it is tried by a process apart."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import socket
import stat
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Given = Mapping[str, Any]

_NEW = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_RELAY_UID = "999"
_AF_VSOCK, _HOST_CID = 40, 2
# AX.25, KEY, PACKET, CAN, TIPC, Bluetooth, ALG, QIPCRTR, XDP.
_FAMILIES = (3, 15, 17, 29, 30, 31, 38, 42, 44)
_STATUS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Groups")
_DROPPED = ("0" * 16,) * 5 + ("1", "2", "")
_SET_UID, _SET_GID = 0o4755, 0o2755
_PTRACE_SEIZE = 0x4206
# The numbers on x86-64 and on 64-bit Arm: the C library has no function for these, or refuses them itself.
_NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "setns": (308, 268),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_MAKE_PROCESSES = ("clone", "clone3")
_libc = ctypes.CDLL(None, use_errno=True)


def same(words: Iterable[str]) -> str:
    """One word where all are the same, else all that there are."""
    return ", ".join(sorted(set(words)))


def call(name: str, *arguments: object) -> str:
    """What the kernel says to a system call."""
    number = _NUMBERS[name][platform.machine() == "aarch64"]
    padded = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *padded)
    if name in _MAKE_PROCESSES and result == 0:
        os._exit(0)
    if name in _MAKE_PROCESSES and result > 0:
        os.waitpid(result, 0)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"


def attempt(action: Callable[[], object]) -> str:
    """The name of the error that the action ends in, or `done`."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return "done"


def apart(action: Callable[[], str]) -> str:
    """What an action says that is done in a process of its own."""
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(told, action().encode("ascii"))
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(heard, encoding="ascii") as file:
        text = file.read()
    os.waitpid(child, 0)
    return text or "nothing said"


def _vsock(_given: Given) -> str:
    def reach() -> None:
        with socket.socket(_AF_VSOCK, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            client.connect((_HOST_CID, 1))

    return attempt(reach)


def _sockets(_given: Given) -> str:
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
    return same(_socket(family, kind) for family in _FAMILIES for kind in kinds)


def _raw_sockets(_given: Given) -> str:
    tries = ((socket.AF_INET, 1), (socket.AF_INET, 255), (socket.AF_INET6, 58))
    return same(_socket(family, socket.SOCK_RAW, protocol) for family, protocol in tries)


def _socket(family: int, kind: int, protocol: int = 0) -> str:
    return attempt(lambda: socket.socket(family, kind, protocol).close())


def _capabilities(_given: Given) -> str:
    with open("/proc/self/status", encoding="utf-8") as file:
        lines = dict(line.split(":", 1) for line in file.read().splitlines())
    found = tuple(" ".join(lines[name].split()) for name in _STATUS)
    other = [name for name, text, wanted in zip(_STATUS, found, _DROPPED, strict=True) if text != wanted]
    return ", ".join(other) or "none"


def _set_id(_given: Given) -> str:
    def tries() -> str:
        with tempfile.TemporaryDirectory() as place:
            path = f"{place}/copy"
            with open(path, "wb") as file:
                file.write(b"#!/bin/sh\n")
            # What may have become of it beforehand must not tell of what becomes of it now.
            return same(
                (
                    attempt(lambda: os.chmod(path, _SET_UID)),
                    attempt(lambda: os.chmod(path, _SET_GID)),
                    attempt(lambda: os.mknod(f"{place}/made", stat.S_IFREG | _SET_UID)),
                    attempt(lambda: os.chown(path, 0, 0)),
                    attempt(lambda: os.setgroups([0])),
                    attempt(lambda: os.setgid(0)),
                    attempt(lambda: os.setuid(0)),
                )
            )

    return apart(tries)


def _devices(_given: Given) -> str:
    def tries() -> str:
        with tempfile.TemporaryDirectory() as place:
            made = (
                attempt(lambda: os.mknod(f"{place}/disk", stat.S_IFBLK | 0o600, os.makedev(8, 0))),
                attempt(lambda: os.mknod(f"{place}/mem", stat.S_IFCHR | 0o600, os.makedev(1, 1))),
            )
        paths = ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/vsock")
        return same((*made, *(attempt(lambda path=path: os.close(os.open(path, os.O_RDWR))) for path in paths)))  # type: ignore[misc]  # mypy infers no lambda with defaults

    return apart(tries)


def _namespaces(_given: Given) -> str:
    def enter() -> str:
        with open("/proc/1/ns/net", encoding="ascii") as other:
            return call("setns", other.fileno(), 0)

    def unshare(flag: int) -> str:
        return apart(lambda: call("unshare", flag))

    def clone(flag: int) -> str:
        return apart(lambda: call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0))

    clone3 = apart(lambda: call("clone3", ctypes.create_string_buffer(64), 64))
    return same((clone3, apart(enter), *map(unshare, _NEW), *map(clone, _NEW)))


def _kernel(_given: Given) -> str:
    names = ("bpf", "perf_event_open", "keyctl", "add_key")
    more = ("request_key", "io_uring_setup", "userfaultfd")
    return same((*(call(name, 0, 0, 0, 0, 0) for name in names), *(call(name, 1, 0, 0, 0) for name in more)))


def _ptrace(_given: Given) -> str:
    """What can be done to the relay, which is of another user."""
    relay = next((name for name in os.listdir("/proc") if name.isdigit() and _uid_of(name) == _RELAY_UID), "")
    if not relay:
        return "no relay"
    process = int(relay)
    tries = (
        apart(lambda: call("ptrace", _PTRACE_SEIZE, process, 0, 0)),
        attempt(lambda: os.kill(process, signal.SIGSTOP)),
        _read_memory(process),
        *(attempt(lambda name=name: os.listdir(f"/proc/{relay}/{name}")) for name in ("fd", "root/")),  # type: ignore[misc]  # mypy infers no lambda with defaults
        attempt(lambda: os.close(os.open(f"/proc/{relay}/mem", os.O_RDWR))),
    )
    return same(tries)


def _uid_of(process: str) -> str:
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            return next(line.split()[1] for line in file if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return ""


def _read_memory(process: int) -> str:
    """Read a page of another process; whether there is one is looked at after whether one may."""
    with open("/proc/self/maps", encoding="ascii") as file:
        start = int(file.readline().partition("-")[0], 16)
    page = ctypes.create_string_buffer(4096)
    mine = (ctypes.c_size_t * 2)(ctypes.addressof(page), 4096)
    theirs = (ctypes.c_size_t * 2)(start, 4096)
    return call("process_vm_readv", process, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)


ATTEMPTS: Mapping[str, Callable[[Given], str]] = {
    "vsock": _vsock,
    "sockets past the rules": _sockets,
    "raw sockets": _raw_sockets,
    "capabilities": _capabilities,
    "set-id and becoming root": _set_id,
    "devices": _devices,
    "namespaces": _namespaces,
    "odd doors of the kernel": _kernel,
    "ptrace and the relay's memory": _ptrace,
}
