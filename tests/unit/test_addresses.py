"""Networks, and the addresses that are not the internet."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from aisb.domain.addresses import AddressEntry, covers, is_guarded, is_private
from aisb.domain.entries import parse_entry
from aisb.domain.reduce import reduce_addresses


def entries(*texts: str) -> list[AddressEntry]:
    return [entry for entry in map(parse_entry, texts) if isinstance(entry, AddressEntry)]


@pytest.mark.parametrize(
    ("texts", "reduced"),
    [
        (("10.0.0.0/8", "10.1.0.0/16", "10.2.3.4"), ("10.0.0.0/8", "10.2.3.4")),
        (("10.0.0.0/8", "10.1.0.0/16:80"), ("10.0.0.0/8",)),
        (("10.0.0.0/8:80", "10.1.0.0/16:80"), ("10.0.0.0/8:80",)),
        (("10.0.0.0/8:80", "10.1.0.0/16:81", "10.1.0.0/16"), ("10.0.0.0/8:80", "10.1.0.0/16")),
        (("10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.9:1"), ("10.0.0.1", "10.0.0.9")),
        (("2001:db8::5", "10.0.0.1", "2001:db8::/64"), ("10.0.0.1", "2001:db8::/64", "2001:db8::5")),
        (("fd00:ec2::/32", "fd00:ec2::254", "fd00:ec2::253"), ("fd00:ec2::/32", "fd00:ec2::253", "fd00:ec2::254")),
        (("fd00::/16", "fd00:ec2::/32"), ("fd00::/16",)),
        (("fd00:ec2::254:80", "[fd00:ec2::254]:80", "fd00:ec2::254"), ("fd00:ec2::254", "fd00:ec2::254:80")),
    ],
)
def test_networks_in_others_are_dropped_and_the_rest_sorted(texts: tuple[str, ...], reduced: tuple[str, ...]) -> None:
    """One for a single address is in no network, which does not open everything in it."""
    assert tuple(entry.text() for entry in reduce_addresses(entries(*texts))) == reduced


@pytest.mark.parametrize(
    ("texts", "address", "port", "expected"),
    [
        (("10.20.0.0/16:5432",), "10.20.3.4", 5432, True),
        (("10.20.0.0/16:5432",), "10.20.3.4", 5433, False),
        (("10.20.0.0/16:5432",), "10.21.0.0", 5432, False),
        (("10.20.0.0/16:5432", "10.20.3.4:22"), "10.20.3.4", 22, True),
        (("10.20.0.0/16",), "::ffff:10.20.0.1", 80, False),
        (("169.254.169.254",), "169.254.169.254", 80, True),
        (("fd00:ec2::/16",), "fd00:ec2::254", 80, False),
        (("fd00:ec2::254",), "fd00:ec2:0::254", 80, True),
        (("64:ff9b::a9fe:a9fe",), "64:ff9b::a9fe:a9fe", 80, True),
        ((), "10.0.0.1", 80, False),
    ],
)
def test_an_address_is_covered_by_an_entry_or_not(
    texts: tuple[str, ...], address: str, port: int, expected: bool
) -> None:
    """The question of the engine and of the gate's ruleset (A37)."""
    assert covers(entries(*texts), address, port) is expected


@pytest.mark.parametrize(
    ("network", "private", "guarded"),
    [
        ("203.0.113.10", False, False),
        ("198.51.100.0/24", False, False),
        ("10.0.0.1", True, False),
        ("100.64.0.1", True, False),
        ("169.254.1.1", True, False),
        ("169.254.169.254", True, True),
        ("8.0.0.0/5", True, False),
        ("2001:db8::1", False, False),
        ("fd00::1", True, False),
        ("fd00:ec2::254", True, True),
        ("::ffff:203.0.113.10", True, True),
        ("64:ff9b::/96", True, False),
        ("64:ff9b::1", True, True),
        ("2002:a9fe:a9fe::", True, True),
        ("2001::1", True, True),
        ("192.0.2.1", False, True),
        ("192.0.2.2", False, False),
        ("2001:db8:ffff::1", False, True),
    ],
)
def test_what_is_not_the_internet(network: str, private: bool, guarded: bool) -> None:
    assert (is_private(ip_network(network)), is_guarded(ip_network(network))) == (private, guarded)
