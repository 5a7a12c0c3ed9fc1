"""The seccomp profile as a function of podman's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aisb.render.seccomp import ABSENT, ALLOW, MODE_ARGUMENT, OPEN_ARGUMENTS, REFUSED, seccomp_profile

Profile = dict[str, Any]


def profile(*rules: Profile, default: str = "SCMP_ACT_ERRNO") -> Profile:
    """A profile of podman's with these rules."""
    return {"defaultAction": default, "archMap": [{"architecture": "SCMP_ARCH_X86_64"}], "syscalls": list(rules)}


def allow(*names: str, **fields: object) -> Profile:
    """A rule that allows calls."""
    return {"names": list(names), "action": ALLOW, **fields}


def allowed(result: Profile) -> set[str]:
    """The calls that some rule allows, on whatever conditions."""
    return {name for rule in result["syscalls"] if rule["action"] == ALLOW for name in rule["names"]}


def rules_for(result: Profile, name: str) -> list[tuple[str, list[tuple[int, str, int, int]]]]:
    """What becomes of a call: the action, and its conditions as argument, operator and values."""
    return [
        (
            rule["action"] if rule["action"] == ALLOW else rule["errno"],
            [
                (arg["index"], arg["op"].removeprefix("SCMP_CMP_"), arg["value"], arg["valueTwo"])
                for arg in rule["args"]
            ],
        )
        for rule in result["syscalls"]
        if name in rule["names"]
    ]


def test_what_podman_denies_stays_denied() -> None:
    """A call that podman's profile does not allow is not allowed by a rule of ours either."""
    assert allowed(seccomp_profile(profile(allow("read")))) == {"read"}


def test_conditions_on_capabilities_are_resolved_for_ours() -> None:
    """With NET_ADMIN, SETGID, SETPCAP and SETUID, and no other."""
    result = seccomp_profile(
        profile(
            allow("acct", includes={"caps": ["CAP_SYS_PACCT"]}),
            allow("with_one", includes={"caps": ["CAP_NET_ADMIN"]}),
            allow("with_both", includes={"caps": ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]}),
            allow("without", excludes={"caps": ["CAP_NET_ADMIN"]}),
            allow("without_another", excludes={"caps": ["CAP_SYS_ADMIN"]}),
            allow("elsewhere", includes={"arches": ["arm64"], "caps": ["CAP_SETUID"]}),
        )
    )

    assert allowed(result) == {"with_one", "without_another", "elsewhere"}
    assert [rule["includes"] for rule in result["syscalls"] if "elsewhere" in rule["names"]] == [{"arches": ["arm64"]}]


def test_calls_that_hide_their_arguments_do_not_exist() -> None:
    """No rule names them, and the default is ENOSYS: libraries fall back to the older call."""
    result = seccomp_profile(profile(allow(*sorted(ABSENT), "read")))

    assert (result["defaultAction"], result["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert not ABSENT & {name for rule in result["syscalls"] for name in rule["names"]}


def test_namespaces_mounts_and_keys_are_refused() -> None:
    """Whatever podman says of them."""
    result = seccomp_profile(profile(allow(*sorted(REFUSED))))

    assert {name: rules_for(result, name) for name in REFUSED} == {name: [("EPERM", [])] for name in REFUSED}


def test_clone_makes_no_namespace() -> None:
    """Each flag is refused by itself; with none of them it is allowed. s390 has the flags elsewhere."""
    flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
    expected = [
        rule
        for index in (0, 1)
        for rule in [
            (ALLOW, [(index, "MASKED_EQ", sum(flags), 0)]),
            *[("EPERM", [(index, "MASKED_EQ", flag, flag)]) for flag in flags],
        ]
    ]

    assert rules_for(seccomp_profile(profile(allow("clone"))), "clone") == expected


@pytest.mark.parametrize("name", MODE_ARGUMENT)
def test_no_call_sets_setuid_or_setgid(name: str) -> None:
    """By the mode alone."""
    index = MODE_ARGUMENT[name]

    assert rules_for(seccomp_profile(profile(allow(name))), name) == [
        (ALLOW, [(index, "MASKED_EQ", 0o6000, 0)]),
        ("EPERM", [(index, "MASKED_EQ", 0o4000, 0o4000)]),
        ("EPERM", [(index, "MASKED_EQ", 0o2000, 0o2000)]),
    ]


@pytest.mark.parametrize("name", OPEN_ARGUMENTS)
def test_no_file_is_made_with_setuid_or_setgid(name: str) -> None:
    """The mode counts only where a file is made: O_CREAT and O_TMPFILE."""
    flags, mode = OPEN_ARGUMENTS[name]

    assert rules_for(seccomp_profile(profile(allow(name))), name) == [
        (ALLOW, [(flags, "MASKED_EQ", 0o20000100, 0)]),
        (ALLOW, [(mode, "MASKED_EQ", 0o6000, 0)]),
        ("EPERM", [(flags, "MASKED_EQ", 0o100, 0o100), (mode, "MASKED_EQ", 0o4000, 0o4000)]),
        ("EPERM", [(flags, "MASKED_EQ", 0o100, 0o100), (mode, "MASKED_EQ", 0o2000, 0o2000)]),
        ("EPERM", [(flags, "MASKED_EQ", 0o20000000, 0o20000000), (mode, "MASKED_EQ", 0o4000, 0o4000)]),
        ("EPERM", [(flags, "MASKED_EQ", 0o20000000, 0o20000000), (mode, "MASKED_EQ", 0o2000, 0o2000)]),
    ]


def test_sockets_are_of_four_families() -> None:
    """AF_UNIX, AF_INET, AF_INET6, and AF_NETLINK for five protocols; all others are unknown families."""
    rules = rules_for(seccomp_profile(profile(allow("socket"))), "socket")

    assert [conditions for action, conditions in rules if action == ALLOW] == [
        [(0, "EQ", 1, 0)],
        [(0, "EQ", 2, 0)],
        [(0, "EQ", 10, 0)],
        *[[(0, "EQ", 16, 0), (2, "EQ", protocol, 0)] for protocol in (0, 4, 12, 15, 16)],
    ]
    assert [conditions for action, conditions in rules if action == "EAFNOSUPPORT"] == [
        *[[(0, "EQ", family, 0)] for family in (0, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15)],
        [(0, "GE", 17, 0)],
    ]


def test_the_default_is_left_as_it_was() -> None:
    """A pure function: the same profile in, the same profile out."""
    default = profile(allow("read", "chmod"), allow("bpf", includes={"caps": ["CAP_SYS_ADMIN"]}))
    before = copy.deepcopy(default)

    assert seccomp_profile(default) == seccomp_profile(default)
    assert default == before


@pytest.mark.parametrize(
    "default",
    [
        pytest.param(profile(allow("read"), default="SCMP_ACT_ALLOW"), id="allows by default"),
        pytest.param(profile(allow("read"), default="SCMP_ACT_LOG"), id="logs by default"),
        pytest.param(profile({"names": ["read"], "action": "SCMP_ACT_NOTIFY"}), id="asks a listener"),
    ],
)
def test_a_profile_that_cannot_be_tightened_is_an_error(default: Profile) -> None:
    """Where the default lets calls through, nothing can be taken away with certainty."""
    with pytest.raises(ValueError, match="seccomp profile"):
        seccomp_profile(default)


def test_an_older_profile_names_one_call_a_rule() -> None:
    """`name` instead of `names`, null instead of empty lists."""
    result = seccomp_profile(profile({"name": "read", "action": ALLOW, "args": None, "includes": None}))

    assert rules_for(result, "read") == [(ALLOW, [])]
