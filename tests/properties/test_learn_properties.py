"""What is learnt is enough, and no more than was reached; what a run that learns may do is the web's public part."""

from __future__ import annotations

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from aisb.domain.allow_file import parse_allow_file
from aisb.domain.egress import EgressPolicy
from aisb.domain.entries import parse_entry
from aisb.domain.gather import gather
from aisb.domain.learned import learned
from aisb.domain.records import read_record
from aisb.domain.rules import LEARNED, Engine
from aisb.render.learned import proposal

LEARNING = Engine(*EgressPolicy(learn=True))
BLANK = read_record('{"decision": "allow"}')
assert BLANK is not None

labels = st.sampled_from(["a", "b", "api", "co", "uk", "com", "github", "io", "test", "x-1"])
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
addresses = st.integers(0, 2**32 - 1).map(lambda number: str(ip_address(number))) | st.integers(0, 2**128 - 1).map(
    lambda number: str(ip_address(number))
)
hosts = names | addresses
ports = st.sampled_from([80, 443])
places = st.lists(st.tuples(hosts, ports), max_size=8)


@given(places, st.lists(st.text(), max_size=3))
def test_the_proposed_list_lets_through_what_was_reached_and_nothing_else(
    found: list[tuple[str, int]], command: list[str]
) -> None:
    assert BLANK is not None
    passed = [place for place in found if LEARNING.judge(*place).rule == LEARNED]
    text = proposal(learned(BLANK._replace(host=host, port=port, rule=LEARNED) for host, port in found), command)
    entries = [parse_entry(entry) for entry, _ in parse_allow_file(text.encode(), "x")]
    engine = Engine(*gather((entry, "") for entry in entries).policy)

    assert all(engine.judge(*place).allowed for place in passed)
    reached = {host for host, _ in found}
    assert {host for host, _ in found if engine.judge_name(host).allowed} <= reached
    assert not engine.judge_name(f"below.{found[0][0]}").allowed if found else not entries


@given(hosts, st.integers(1, 65535) | ports)
def test_learning_opens_public_hosts_on_two_ports_only(host: str, port: int) -> None:
    verdict = LEARNING.judge(host, port)
    if not verdict.allowed:
        return
    assert port in (80, 443)
    try:
        address = ip_address(host)
    except ValueError:
        assert "." in host
        return
    kinds = (
        "is_loopback",
        "is_link_local",
        "is_multicast",
        "is_unspecified",
        "is_site_local",
        "ipv4_mapped",
        "sixtofour",
        "teredo",
    )
    assert [kind for kind in kinds if getattr(address, kind, None)] == []
    is_documentation = str(address).startswith(("192.0.2.", "198.51.100.", "203.0.113."))
    assert address.version == 6 or address.is_global or is_documentation
