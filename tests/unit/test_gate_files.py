"""The parts of a gate's files that follow from the policy."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_network
from itertools import combinations

from aisb.domain.egress import EgressPolicy
from aisb.domain.rules import BELOW, EXACT, TREE, WEB_PORTS, NameEntry
from aisb.render.gate_files import (
    FIRST_EPHEMERAL_PORT,
    HELPER,
    LAST_EPHEMERAL_PORT,
    PRIVATE_V4,
    PRIVATE_V6,
    LogWidths,
    Ports,
    allowlist,
    squid_conf,
)
from gate import ports, squid_log

# `logfilePrintf` of squid 5 and 6 has 8192 bytes for it.
SQUIDS_LONGEST_LINE = 8191


def lines_of(*names: NameEntry) -> list[str]:
    return allowlist(names).splitlines()


def test_the_allowlist_always_holds_the_name_by_which_a_gate_proves_itself() -> None:
    assert lines_of() == ["ok.aisb.internal"]


def test_a_tree_and_what_is_below_a_name_get_the_dot_and_an_exact_name_none() -> None:
    names = (
        NameEntry("tree.test", TREE, WEB_PORTS),
        NameEntry("below.test", BELOW, WEB_PORTS),
        NameEntry("exact.test", EXACT, WEB_PORTS),
    )

    assert lines_of(*names) == [".below.test", ".tree.test", "exact.test", "ok.aisb.internal"]


def test_a_name_under_another_one_is_left_out_whatever_its_ports() -> None:
    names = (
        NameEntry("a.test", TREE, WEB_PORTS),
        NameEntry("a.test", EXACT, (22,)),
        NameEntry("x.a.test", TREE, (22,)),
        NameEntry("y.x.a.test", EXACT, (5432,)),
    )

    assert lines_of(*names) == [".a.test", "ok.aisb.internal"]


def test_squid_hears_of_no_port_that_no_entry_names() -> None:
    conf = squid_conf(EgressPolicy((NameEntry("a.test", TREE, (22, 5432)),)), ())

    assert "\nacl listed_port port 22 80 443 5432\n" in conf


def test_squid_is_not_told_twice_about_an_address() -> None:
    """squid warns about an address in a network that it holds already."""
    conf = squid_conf(EgressPolicy(), ("10.1.2.3", "203.0.113.2", "fe80::1", "2001:db8::2"))

    (line,) = [line for line in conf.splitlines() if line.startswith("acl private dst ")]
    assert line.split()[-3:] == ["fec0::/10", "2001:db8::2", "203.0.113.2"]


def test_a_name_without_an_address_is_not_taken_for_a_private_one() -> None:
    """To squid "no address" is all ones, which the range of multicast addresses holds."""
    (line,) = [line for line in squid_conf(EgressPolicy(), ()).splitlines() if line.startswith("acl private dst ")]

    assert not any(IPv6Address(b"\xff" * 16) in ip_network(text) for text in line.split()[3:])


def test_the_private_ranges_do_not_overlap() -> None:
    """nft refuses a set whose intervals do."""
    for networks in (PRIVATE_V4, PRIVATE_V6):
        for one, other in combinations(map(ip_network, networks), 2):
            assert not one.overlaps(other)  # type: ignore[arg-type]  # both of one family


def test_a_stream_may_be_silent_for_an_hour() -> None:
    """An idle tunnel or answer lives by these three; the rest of squid's times end with a request's head."""
    conf = squid_conf(EgressPolicy(), ())

    assert re.findall(r"^(read_timeout|write_timeout|client_lifetime) (.*)$", conf, re.MULTILINE) == [
        ("read_timeout", "2 hours"),
        ("write_timeout", "2 hours"),
        ("client_lifetime", "30 days"),
    ]


def test_the_programs_in_the_gate_use_the_rendered_ports() -> None:
    here = {name.lower(): value for name, value in vars(ports).items() if name.isupper()}

    assert here == Ports()._asdict()
    assert not any(FIRST_EPHEMERAL_PORT <= port <= LAST_EPHEMERAL_PORT for port in here.values())


def test_a_log_line_is_shorter_than_what_squid_cuts_it_to() -> None:
    """What a client makes long is held to a width, and the rest of a line is a few hundred bytes."""
    widths = LogWidths()

    assert sum(widths) + 800 < SQUIDS_LONGEST_LINE
    assert widths.path == squid_log.LONGEST_PATH


def test_the_helpers_command_line_holds_nothing_that_squid_reads_in_its_own_way() -> None:
    assert not set(HELPER) & set("()\"'%#\\$")
