"""
The system calls of a sandbox: podman's own profile, resolved for our capabilities and tightened.

What podman's profile denies stays denied; the profile that comes out never allows more. Taken away
are new namespaces, mounts, other sockets than those of AF_UNIX, IPv4, IPv6 and netlink, the keyring,
and setuid and setgid bits on files. Calls whose arguments a filter cannot see (clone3, openat2) do not
exist inside: every program that uses them falls back to the older call. So do the 32-bit variants of a
64-bit machine: there one call (socketcall) stands for many and hides the address family, and
libseccomp refuses rules that would tell them apart.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.render.argv import CAPABILITIES
from aisb.render.environment import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Profile = Mapping[str, Any]
    Rule = dict[str, Any]

ALLOW = "SCMP_ACT_ALLOW"
ERRNO = "SCMP_ACT_ERRNO"
DENYING = frozenset({ERRNO, "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD"})

EPERM = 1
EINVAL = 22
ENOSYS = 38
EAFNOSUPPORT = 97
_ERRNO_NAMES = {EPERM: "EPERM", EINVAL: "EINVAL", ENOSYS: "ENOSYS", EAFNOSUPPORT: "EAFNOSUPPORT"}

# Left to the default, which is "no such call": libraries ask for the older call then.
ABSENT = frozenset(
    {
        "clone3",
        "io_uring_enter",
        "io_uring_register",
        "io_uring_setup",
        "openat2",
        # One call for many on 32-bit machines, with its arguments in memory: no filter sees the address family.
        "socketcall",
    }
)
# Refused: a program that asks for these is told that it may not.
REFUSED = frozenset(
    {
        "add_key",
        "bpf",
        "chroot",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "keyctl",
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "open_tree_attr",
        "perf_event_open",
        "pivot_root",
        "request_key",
        "setns",
        "umount",
        "umount2",
        "unshare",
        "userfaultfd",
    }
)

# CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET. CLONE_NEWTIME cannot be asked of clone.
NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
SET_ID_BITS = (0o4000, 0o2000)
O_CREAT = 0o100
O_TMPFILE = 0o20000000
# Which argument holds the mode. mkdir and mkdirat are not among them: the kernel ignores these bits there.
MODE_ARGUMENT = {
    "chmod": 1,
    "creat": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mknod": 1,
    "mknodat": 2,
}
# Which arguments hold the flags and the mode.
OPEN_ARGUMENTS = {"open": (1, 2), "openat": (2, 3)}

AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
AF_NETLINK = 16
# NETLINK_ROUTE, SOCK_DIAG, NETFILTER (for the ruleset), KOBJECT_UEVENT, GENERIC.
NETLINK_PROTOCOLS = (0, 4, 12, 15, 16)

_S390 = ("s390", "s390x")


class SeccompView(NamedTuple):
    """What seccomp.json.j2 sees: JSON texts, a line for each rule."""

    default_action: str
    default_errno: str
    default_errno_name: str
    architectures: tuple[str, ...]
    rules: tuple[str, ...]


def seccomp_json(default: str) -> str:
    """The profile of a sandbox as text, from the text of podman's own. Raises ValueError as `seccomp_profile` does."""
    profile = seccomp_profile(json.loads(default))
    return render(
        "seccomp.json.j2",
        SeccompView(
            default_action=json.dumps(profile["defaultAction"]),
            default_errno=json.dumps(profile["defaultErrnoRet"]),
            default_errno_name=json.dumps(profile["defaultErrno"]),
            architectures=tuple(json.dumps(entry) for entry in profile["archMap"]),
            rules=tuple(json.dumps(rule) for rule in profile["syscalls"]),
        ),
    )


def seccomp_profile(default: Profile) -> dict[str, Any]:
    """
    The profile of a sandbox, in podman's format.

    Raises ValueError for a profile that allows whatever it does not name: nothing can be taken away
    from such a one with certainty.
    """
    if default.get("defaultAction") not in DENYING:
        raise ValueError("podman's seccomp profile allows what it does not name")
    kept = list(_resolved(default))
    allowed = frozenset(name for rule in kept if rule["action"] == ALLOW for name in rule["names"])
    governed = ABSENT | REFUSED | frozenset(_GOVERNED)
    rules = [rule for rule in (_without(rule, governed) for rule in kept) if rule["names"]]
    for name in sorted(_GOVERNED):
        if name in allowed:
            rules.extend(_GOVERNED[name](name))
    rules.append(_rule(sorted(REFUSED), EPERM))
    return {
        "defaultAction": ERRNO,
        "defaultErrnoRet": ENOSYS,
        "defaultErrno": _ERRNO_NAMES[ENOSYS],
        "archMap": [{**entry, "subArchitectures": []} for entry in default.get("archMap", [])],
        "syscalls": rules,
    }


def _resolved(default: Profile) -> Iterator[Rule]:
    """The rules that hold with our capabilities, without that condition."""
    for entry in default.get("syscalls", []):
        action = entry["action"]
        if action != ALLOW and action not in DENYING:
            raise ValueError(f"podman's seccomp profile has an action that is not known here: {action}")
        includes = dict(entry.get("includes") or {})
        excludes = dict(entry.get("excludes") or {})
        needed = frozenset(includes.pop("caps", None) or ())
        unwanted = frozenset(excludes.pop("caps", None) or ())
        if needed <= _OURS and not unwanted & _OURS:
            rule = {**entry, "includes": includes, "excludes": excludes}
            rule["names"] = sorted(entry.get("names") or [entry["name"]])
            rule.pop("name", None)
            rule["args"] = list(entry.get("args") or [])
            yield rule


_OURS = frozenset(f"CAP_{name}" for name in CAPABILITIES)


def _without(rule: Rule, names: frozenset[str]) -> Rule:
    return {**rule, "names": [name for name in rule["names"] if name not in names]}


def _rule(names: list[str], errno: int = 0, *args: Rule, only: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> Rule:
    rule: Rule = {"names": names, "action": ERRNO if errno else ALLOW, "args": list(args)}
    if errno:
        rule |= {"errnoRet": errno, "errno": _ERRNO_NAMES[errno]}
    return rule | {"includes": {"arches": list(only)} if only else {}, "excludes": {"arches": list(but)} if but else {}}


def _equal(index: int, value: int) -> Rule:
    return {"index": index, "value": value, "valueTwo": 0, "op": "SCMP_CMP_EQ"}


def _from(index: int, value: int) -> Rule:
    return {"index": index, "value": value, "valueTwo": 0, "op": "SCMP_CMP_GE"}


def _none_of(index: int, bits: int) -> Rule:
    return {"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}


def _all_of(index: int, bits: int) -> Rule:
    return {"index": index, "value": bits, "valueTwo": bits, "op": "SCMP_CMP_MASKED_EQ"}


# Rules for one call with different actions must not overlap, or it is left to the library which one holds.


def _clone_rules(name: str) -> Iterator[Rule]:
    # s390 has the flags in the second argument.
    for index, only, but in ((0, (), _S390), (1, _S390, ())):
        yield _rule([name], 0, _none_of(index, sum(NAMESPACE_FLAGS)), only=only, but=but)
        for flag in NAMESPACE_FLAGS:
            yield _rule([name], EPERM, _all_of(index, flag), only=only, but=but)


def _mode_rules(name: str) -> Iterator[Rule]:
    index = MODE_ARGUMENT[name]
    yield _rule([name], 0, _none_of(index, sum(SET_ID_BITS)))
    for bit in SET_ID_BITS:
        yield _rule([name], EPERM, _all_of(index, bit))


def _open_rules(name: str) -> Iterator[Rule]:
    # Without O_CREAT and O_TMPFILE there is no mode, and what stands in its place means nothing.
    flags, mode = OPEN_ARGUMENTS[name]
    yield _rule([name], 0, _none_of(flags, O_CREAT | O_TMPFILE))
    yield _rule([name], 0, _none_of(mode, sum(SET_ID_BITS)))
    for making in (O_CREAT, O_TMPFILE):
        for bit in SET_ID_BITS:
            yield _rule([name], EPERM, _all_of(flags, making), _all_of(mode, bit))


def _socket_rules(name: str) -> Iterator[Rule]:
    for family in (AF_UNIX, AF_INET, AF_INET6):
        yield _rule([name], 0, _equal(0, family))
    for protocol in NETLINK_PROTOCOLS:
        yield _rule([name], 0, _equal(0, AF_NETLINK), _equal(2, protocol))
    for protocol in range(max(NETLINK_PROTOCOLS)):
        if protocol not in NETLINK_PROTOCOLS:
            yield _rule([name], EINVAL, _equal(0, AF_NETLINK), _equal(2, protocol))
    yield _rule([name], EINVAL, _equal(0, AF_NETLINK), _from(2, max(NETLINK_PROTOCOLS) + 1))
    yield from _other_families(name, (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK))


def _socketpair_rules(name: str) -> Iterator[Rule]:
    yield _rule([name], 0, _equal(0, AF_UNIX))
    yield from _other_families(name, (AF_UNIX,))


def _other_families(name: str, known: tuple[int, ...]) -> Iterator[Rule]:
    for family in range(max(known)):
        if family not in known:
            yield _rule([name], EAFNOSUPPORT, _equal(0, family))
    # Compared as 64 bits, while the kernel looks at 32: a family with something in the upper half lands here too.
    yield _rule([name], EAFNOSUPPORT, _from(0, max(known) + 1))


_GOVERNED: dict[str, Callable[[str], Iterator[Rule]]] = {
    "clone": _clone_rules,
    "socket": _socket_rules,
    "socketpair": _socketpair_rules,
    **dict.fromkeys(MODE_ARGUMENT, _mode_rules),
    **dict.fromkeys(OPEN_ARGUMENTS, _open_rules),
}
