"""What holds for all variables, mount targets and profiles."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aisb.render.argv import as_in_mountinfo, mount_targets
from aisb.render.identity import environment_block
from aisb.render.seccomp import ABSENT, ALLOW, REFUSED, seccomp_profile
from gate.launcher import parse_variables
from gate.names import Names

BYTES = st.binary(max_size=50).map(lambda value: value.replace(b"\0", b"."))
VARIABLES = st.dictionaries(BYTES.filter(bool).map(lambda name: name.replace(b"=", b"-")), BYTES)
PATH = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1, max_size=40)

CALLS = ("read", "chmod", "clone", "clone3", "mount", "open", "openat2", "socket", "unshare", "vmsplice")
ACTIONS = st.sampled_from([ALLOW, "SCMP_ACT_ERRNO", "SCMP_ACT_KILL"])
CAPS = st.lists(st.sampled_from(["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]), max_size=2)
RULE = st.fixed_dictionaries(
    {
        "names": st.lists(st.sampled_from(CALLS), min_size=1, unique=True),
        "action": ACTIONS,
        "includes": st.fixed_dictionaries({"caps": CAPS}),
        "excludes": st.fixed_dictionaries({"caps": CAPS}),
    }
)


@given(VARIABLES)
def test_variables_arrive_as_they_were_sent(variables: dict[bytes, bytes]) -> None:
    """Host and launcher agree about every byte."""
    assert parse_variables(environment_block(variables)) == variables


@given(st.lists(PATH))
def test_a_mount_target_is_one_word_on_one_line_and_can_be_read_back(paths: list[str]) -> None:
    """No target can stand for two, or for another one."""
    lines = mount_targets(paths).split("\n")[:-1]
    read_back = {re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line) for line in lines}

    assert read_back == set(paths)
    assert not any(set(line) & set(" \t\n") for line in map(as_in_mountinfo, paths))


def allowed_by(profile: dict[str, Any], capabilities: frozenset[str]) -> set[str]:
    """The calls that some rule allows to a process with these capabilities."""
    return {
        name
        for rule in profile["syscalls"]
        if rule["action"] == ALLOW
        and frozenset(rule["includes"].get("caps", ())) <= capabilities
        and not frozenset(rule["excludes"].get("caps", ())) & capabilities
        for name in rule["names"]
    }


@given(st.lists(RULE, max_size=8))
def test_no_profile_is_widened(rules: list[dict[str, Any]]) -> None:
    """Whatever podman's says: what comes out allows nothing more, and never what is ours to deny."""
    default = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules}
    ours = frozenset({"CAP_NET_ADMIN", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"})

    allowed = allowed_by(seccomp_profile(default), frozenset())

    assert allowed == allowed_by(default, ours) - ABSENT - REFUSED


@given(st.lists(st.text("abc", max_size=3), max_size=40), st.integers(0, 10))
def test_two_names_never_share_an_address(names: list[str], count: int) -> None:
    """Each address belongs to one name for ever, and there are no more than there are."""
    pool = Names(count)
    addresses = {name: address for name in names if (address := pool.address_of(name))}

    assert len(set(addresses.values())) == len(addresses) == min(count, len(set(names)))
    assert {name: pool.name_of(address) for name, address in addresses.items()} == {name: name for name in addresses}
