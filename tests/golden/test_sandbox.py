"""What closes a sandbox from inside, whole."""

from __future__ import annotations

import json
import re
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from aisb.domain.addresses import AddressEntry
from aisb.domain.egress import EgressPolicy
from aisb.domain.names import EXACT, NameEntry
from aisb.domain.net import HOST_V4, HOST_V6
from aisb.render import sandbox
from aisb.render.argv import mount_targets
from aisb.render.pinned import pinned_ruleset
from aisb.render.sandbox import MODES, entrypoint, ruleset
from aisb.render.seccomp import seccomp_json
from gate import launcher, names, probe, relay

if TYPE_CHECKING:
    from collections.abc import Callable

# A profile with one rule of each kind that podman's own has.
DEFAULT = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {
            "names": [
                "read",
                "clone",
                "clone3",
                "socket",
                "socketpair",
                "open",
                "openat",
                "openat2",
                "chmod",
                "mknodat",
            ],
            "action": "SCMP_ACT_ALLOW",
        },
        {"names": ["mount", "setns", "unshare", "keyctl", "socketcall"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["vmsplice"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64"]}},
        {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["acct"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "excludes": {"caps": ["CAP_SYS_PACCT"]}},
        {
            "names": ["personality"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": 0, "valueTwo": 0, "op": "SCMP_CMP_EQ"}],
        },
    ],
}


@pytest.mark.parametrize("mode", MODES)
def test_the_rules_of_each_mode(mode: str, golden: Callable[[str, str], None]) -> None:
    golden(f"sandbox/{mode}.nft", ruleset(mode))


def test_the_rules_without_a_gate(golden: Callable[[str, str], None]) -> None:
    """With every kind of entry, and this host's addresses."""
    networks = (("10.1.2.3/32", 5432), ("10.20.0.0/16", 443), ("2001:db8:1::/48", None))
    egress = EgressPolicy(
        names=(NameEntry("a.test", EXACT, (22, 80, 443)), NameEntry("b.test", EXACT, (80, 443))),
        addresses=tuple(AddressEntry(ip_network(text), port) for text, port in networks),
    )

    golden("sandbox/pinned.nft", pinned_ruleset(egress, ("203.0.113.2", "2001:db8::2")))


def test_the_entrypoint(golden: Callable[[str, str], None]) -> None:
    golden("sandbox/entrypoint", entrypoint())


def test_the_seccomp_profile(golden: Callable[[str, str], None]) -> None:
    text = seccomp_json(json.dumps(DEFAULT))

    golden("sandbox/seccomp.json", text)
    assert json.loads(text)["defaultErrno"] == "ENOSYS"


def test_another_mode_is_no_ruleset() -> None:
    with pytest.raises(ValueError, match="'open' is no network mode"):
        ruleset("open")


def test_mount_targets_are_written_as_the_kernel_will() -> None:
    """Sorted, each once, with what separates fields and lines in octal."""
    assert mount_targets(["/project", "/a b", "/t\tn\nb\\", "/project"]) == "/a\\040b\n/project\n/t\\011n\\012b\\134\n"


def test_the_programs_and_the_rules_hold_the_same_numbers() -> None:
    """The gate's programs import nothing of aisb, so what both know is written down twice."""
    first = int.from_bytes(bytes(map(int, sandbox.FIRST_ADDRESS.split("."))), "big")
    last = int.from_bytes(bytes(map(int, sandbox.LAST_ADDRESS.split("."))), "big")

    assert (sandbox.TRANSPARENT_PORT, sandbox.DNS_PORT) == (relay.TRANSPARENT_PORT, relay.DNS_PORT)
    assert (first, last - first + 1) == (names.FIRST, names.COUNT)
    assert launcher.RELAY[1] == relay.DNS_PORT
    assert (sandbox.COMMAND_UID, probe.PROXY[1]) == (launcher.UID, relay.EXPLICIT_PORT)
    assert (HOST_V4[0], HOST_V6[0]) == (probe.HOST_ADDRESSES[0][0], probe.HOST_V6[0])


def test_the_entrypoint_starts_programs_by_absolute_paths_alone() -> None:
    """Whatever PATH is, and no program more than are needed: each costs a run a millisecond or more."""
    started = re.findall(
        r"^\s*(?:exec )?(/\S+)", re.sub(r"known='.*?'", "", entrypoint(), flags=re.DOTALL), re.MULTILINE
    )

    linking = ["/usr/bin/chmod", "/usr/bin/rmdir", "/usr/bin/ln", "/usr/bin/chmod"]
    assert started == ["/usr/bin/setpriv", "/usr/sbin/ip", "/usr/sbin/nft", *linking, "/usr/bin/setpriv"]
