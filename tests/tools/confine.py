"""
Run a command under a seccomp profile in podman's format, as crun would: `confine.py PROFILE COMMAND...`.

Loads the filter through libseccomp, the library that crun uses, so a test can ask the kernel itself
what a profile lets through without a container around it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
from typing import Any

_ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_KILL": 0, "SCMP_ACT_KILL_PROCESS": 0x80000000}
_OPERATORS = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_UNKNOWN = -1
_SET_NO_NEW_PRIVILEGES = 38


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def _action(rule: dict[str, Any]) -> int:
    if rule["action"] == "SCMP_ACT_ERRNO":
        return 0x00050000 | int(rule.get("errnoRet", 1))
    return _ACTIONS[rule["action"]]


def _is_for(rule: dict[str, Any], machine: str) -> bool:
    only = (rule.get("includes") or {}).get("arches")
    but = (rule.get("excludes") or {}).get("arches")
    return (not only or machine in only) and (not but or machine not in but)


def confine(profile: dict[str, Any]) -> None:
    """Put this process, for good, under `profile`. Its conditions on capabilities must have been resolved."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Comparison),
    ]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    machine = _MACHINES[platform.machine()]
    default = 0x00050000 | int(profile["defaultErrnoRet"])
    context = library.seccomp_init(default)
    for rule in profile["syscalls"]:
        if not _is_for(rule, machine):
            continue
        args = [
            _Comparison(arg["index"], _OPERATORS[arg["op"]], arg["value"], arg["valueTwo"])
            for arg in rule.get("args") or []
        ]
        array = (_Comparison * max(1, len(args)))(*args)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number == _UNKNOWN or _action(rule) == default:
                continue
            code = library.seccomp_rule_add_array(context, _action(rule), number, len(args), array)
            if code:
                raise OSError(-code, f"the rule for {name} was not taken: {rule}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    code = library.seccomp_load(context)
    if code:
        raise OSError(-code, "the filter was not taken")


def main() -> None:
    """See the module."""
    with open(sys.argv[1], encoding="utf-8") as file:
        profile = json.load(file)
    confine(profile)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
