"""The rendered rulesets, loaded by the real nft, and real packets sent against them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ipaddress import ip_network
from typing import TYPE_CHECKING

import pytest

from aisb.domain.addresses import AddressEntry
from aisb.domain.egress import EgressPolicy
from aisb.domain.names import EXACT, NameEntry
from aisb.domain.no_gate import Pinned
from aisb.render.pinned import pinned_ruleset
from aisb.render.pins import pin_elements
from aisb.render.sandbox import MODES, ruleset

if TYPE_CHECKING:
    from pathlib import Path

PACKETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packets.py")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--net", "--fork", "--kill-child")


def send_packets(mode: str, rules: Path | str) -> dict[str, str]:
    """What came of each attempt in a namespace with these rules."""
    done = subprocess.run(
        [*NAMESPACE, sys.executable, PACKETS, mode, str(rules)], capture_output=True, timeout=120, check=False
    )
    assert not done.returncode, done.stderr.decode()
    found: dict[str, str] = json.loads(done.stdout)
    return found


def rules_file(tmp_path: Path, text: str) -> Path:
    """A file with rules in it."""
    path = tmp_path / "sandbox.nft"
    path.write_text(text)
    return path


# Two addresses of a name, and some that are never pinned: private, this host's, and where the host is shown. Then entries:
# one address, networks, one of them with a metadata service in it.
INWARD = (("10.21.0.1", 80), ("169.254.169.254", 80), ("203.0.113.12", 80), ("169.254.1.2", 80), ("fd00::3", 53))
OPENED = (("203.0.113.10", 80), ("2001:db8:1::10", 80), *INWARD)
ENTRIES = (("10.0.0.5/32", 22), ("10.20.0.0/16", None), ("fd00::/16", 80), ("10.0.2.0/24", None))


def pinned(opened: tuple[tuple[str, int], ...] = OPENED, entries: tuple[tuple[str, int | None], ...] = ENTRIES) -> str:
    """The ruleset of a sandbox without a gate, completed."""
    egress = EgressPolicy(
        names=(NameEntry("a.test", EXACT, (80,)),),
        addresses=tuple(AddressEntry(ip_network(text), port) for text, port in entries),
    )
    return pinned_ruleset(egress, ("203.0.113.12", "2001:db8::2")) + pin_elements(Pinned((), opened, ()))


RULESETS = {mode: ruleset(mode) for mode in MODES} | {
    "pinned": pinned(),
    "pinned, nothing": pinned((), ()),
    "pinned, ten thousand": pinned(tuple((f"203.{n // 250}.{n % 250}.1", 443) for n in range(10_000))),
}


@pytest.mark.parametrize("mode", RULESETS)
def test_nft_takes_the_ruleset_without_a_word(mode: str, tmp_path: Path) -> None:
    """A warning today is an error in the next version."""
    done = subprocess.run(
        [*NAMESPACE, "nft", "--check", "--file", str(rules_file(tmp_path, RULESETS[mode]))],
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_in_mode_allow_tcp_goes_to_the_relay_and_nothing_else_leaves(tmp_path: Path) -> None:
    """
    Whatever is dialled arrives with the address that was meant, own servers are left alone, and the
    rest is refused at once (A29, A30, A31, A34, B40).
    """
    relay = {f"tcp 203.0.113.11 {port}": f"relay: 203.0.113.11 {port}" for port in (21, 22, 25, 80, 443, 853, 3128)}
    assert send_packets("allow", rules_file(tmp_path, ruleset("allow"))) == {
        **relay,
        "tcp 203.0.113.11 5432": "relay: 203.0.113.11 5432",
        "tcp 203.0.113.11 8443": "relay: 203.0.113.11 8443",
        "tcp 203.0.113.11 65535": "relay: 203.0.113.11 65535",
        "tcp 198.18.0.1 53": "resolver: 198.18.0.1 53",
        "tcp 203.0.113.53 53": "resolver: 203.0.113.53 53",
        "tcp 198.18.1.0 53": "relay: 198.18.1.0 53",
        "tcp 198.19.255.255 53": "relay: 198.19.255.255 53",
        "tcp 198.20.0.0 53": "resolver: 198.20.0.0 53",
        "tcp 169.254.169.254 80": "relay: 169.254.169.254 80",
        "tcp 10.0.2.2 22": "relay: 10.0.2.2 22",
        "tcp 127.0.0.1 80": "own server",
        "tcp 127.0.0.1 443": "own server",
        "tcp 127.0.0.1 53": "own server",
        "tcp 127.0.0.1 81": "ECONNREFUSED",
        "tcp 127.5.5.5 8080": "own server",
        "tcp 0.0.0.0 80": "own server",
        "udp 8.8.8.8 53": "resolver",
        "udp 127.0.0.1 53": "own server",
        "udp 127.0.0.1 4433": "own server",
        "udp 203.0.113.11 443": "EPERM",
        "udp 203.0.113.11 123": "EPERM",
        "udp 203.0.113.11 9": "EPERM",
        "raw1 203.0.113.11 0": "EPERM",
        "raw132 203.0.113.11 0": "EPERM",
        "raw47 203.0.113.11 0": "EPERM",
        "tcp 2001:db8::11 443": "relay: 2001:db8::11 443",
        "tcp 2001:db8::11 80": "relay: 2001:db8::11 80",
        "tcp 2001:db8::53 53": "resolver: 2001:db8::53 53",
        "tcp fd00:ec2::254 80": "relay: fd00:ec2::254 80",
        "tcp ::1 443": "own server",
        "tcp ::1 444": "ECONNREFUSED",
        "tcp :: 443": "own server",
        "tcp ::ffff:203.0.113.11 443": "relay: 203.0.113.11 443",
        "tcp fe80::1%lo 443": "EINVAL",
        "udp 2001:db8::53 53": "resolver",
        "udp ::1 53": "own server",
        "udp 2001:db8::11 443": "EPERM",
        "udp ff02::1%lo 443": "EINVAL",
        "raw58 2001:db8::11 0": "EPERM",
    }


OPEN = {
    "tcp 203.0.113.11 80": "reached",
    "tcp 10.0.2.2 22": "reached",
    "tcp 10.0.2.2 53": "reached",
    "tcp 10.0.2.3 53": "reached",
    "tcp 10.0.2.3 80": "reached",
    "tcp 169.254.1.1 53": "reached",
    "tcp 169.254.1.2 80": "reached",
    "tcp 127.0.0.1 22": "own server",
    "udp 203.0.113.11 80": "reached",
    "udp 169.254.1.1 53": "reached",
    "udp 169.254.1.2 53": "reached",
    "udp 10.0.2.2 80": "reached",
    "tcp 2001:db8:1::11 80": "reached",
    "tcp fd00::2 22": "reached",
    "tcp fd00::3 53": "reached",
}


def test_without_rules_everything_in_this_network_answers() -> None:
    """The servers that the next two tests must not reach are there."""
    assert send_packets("none", "-") == OPEN


def test_in_mode_none_only_the_own_loopback_answers_though_there_is_a_device(tmp_path: Path) -> None:
    """A device that should not be there leads nowhere, and each refusal comes at once."""
    assert send_packets("none", rules_file(tmp_path, ruleset("none"))) == {
        attempt: "own server" if outcome == "own server" else "ECONNREFUSED" if attempt.startswith("tcp") else "EPERM"
        for attempt, outcome in OPEN.items()
    }


def test_in_mode_full_everything_but_the_host_answers(tmp_path: Path) -> None:
    """The addresses under which user-mode networks show the host are refused, their resolvers asked only (A38)."""
    assert send_packets("full", rules_file(tmp_path, ruleset("full"))) == {
        **OPEN,
        "tcp 10.0.2.2 22": "ECONNREFUSED",
        "tcp 10.0.2.2 53": "ECONNREFUSED",
        "tcp 10.0.2.3 80": "ECONNREFUSED",
        "tcp 169.254.1.2 80": "ECONNREFUSED",
        "udp 169.254.1.2 53": "EPERM",
        "udp 10.0.2.2 80": "EPERM",
        "tcp fd00::2 22": "ECONNREFUSED",
    }


PINNED = {
    "tcp 203.0.113.10 80": "reached",
    "tcp 10.0.0.5 22": "reached",
    "tcp 10.20.3.4 80": "reached",
    "tcp 2001:db8:1::10 80": "reached",
    "tcp fd00:5::1 80": "reached",
    "tcp 127.0.0.1 22": "own server",
    "tcp 8.8.8.8 53": "resolver: 8.8.8.8 53",
    "udp 8.8.8.8 53": "resolver",
    "tcp 2001:db8:1::53 53": "resolver: 2001:db8:1::53 53",
    "udp 2001:db8:1::53 53": "resolver",
    "tcp 10.0.2.2 53": "resolver: 10.0.2.2 53",
    "tcp 10.0.2.3 53": "resolver: 10.0.2.3 53",
    "tcp 169.254.1.1 53": "resolver: 169.254.1.1 53",
    "udp 169.254.1.1 53": "resolver",
    "udp 169.254.1.2 53": "resolver",
    "tcp fd00::3 53": "resolver: fd00::3 53",
}


def test_without_rules_everything_that_pinned_refuses_answers() -> None:
    """But for the sandbox's own address, at which nobody listens."""
    found = send_packets("pinned", "-")

    assert {attempt: outcome for attempt, outcome in found.items() if outcome != "reached"} == {
        "tcp 127.0.0.1 22": "own server",
        "tcp 203.0.113.2 81": "ECONNREFUSED",
    }
    assert len(found) == 34


def test_without_a_gate_pinned_addresses_and_those_of_entries_answer_and_nothing_else(tmp_path: Path) -> None:
    """
    At their ports, by TCP. Questions for names stay inside, and this host and a metadata service are closed, in an
    entry's network too. (A30, A31, A34, A37, A38)
    """
    found = send_packets("pinned", rules_file(tmp_path, pinned()))

    assert found == {
        attempt: PINNED.get(attempt, "ECONNREFUSED" if attempt.startswith("tcp") else "EPERM") for attempt in found
    }
    assert set(PINNED) < set(found)
