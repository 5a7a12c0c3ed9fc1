"""The real entrypoint, nft, table of names and launcher in a box without a gate."""

from __future__ import annotations

import pytest

from tests.tools.box import Box, Ended, run_box
from tests.tools.test_ruleset import pinned

PHASES = ["begun", "checked", "rules", "launcher", "relay", "proved", "exec"]
RULES = pinned((("203.0.113.10", 80), ("2001:db8::10", 80)))
PINS = "allowed.test 203.0.113.10 2001:db8::10\n"
# A device with a way to everywhere, at which nobody answers.
NETWORK = """
    ip link add out0 type veth peer name out1
    ip link set out0 up
    ip link set out1 up
    ip address add 203.0.113.2/24 dev out0
    ip -6 address add 2001:db8::2/64 dev out0 nodad
    ip route add default via 203.0.113.1 dev out0
    ip -6 route add default via 2001:db8::1 dev out0
"""


def run_pinned(*command: str, rules: str = RULES, pins: str = PINS, **fields: object) -> Ended:
    """Run a command in such a box, with these rules and this table."""
    fields = {"before": NETWORK, "files": {"sandbox.nft": rules, "pins": pins}, **fields}
    return run_box(Box(command=command, mode="pinned", **fields))  # type: ignore[arg-type]  # each test names fields of the box


LOOK = """
import socket
for name in ("allowed.test", "x.allowed.test", "evil.test"):
    try:
        print(name, *sorted({entry[4][0] for entry in socket.getaddrinfo(name, 80)}))
    except OSError:
        print(name, "does not resolve")
for port in (3128, 3129):
    print(port, socket.socket().connect_ex(("127.0.0.1", port)))
"""


def test_the_command_runs_when_all_is_proved_and_names_come_from_the_table() -> None:
    """Nothing but that listens in the relay's place."""
    ended = run_pinned("python3", "-c", LOOK)

    lines = [
        "allowed.test 2001:db8::10 203.0.113.10",
        "x.allowed.test does not resolve",
        "evil.test does not resolve",
        "3128 111",
        "3129 111",
    ]
    assert ended == Ended(code=0, stdout="".join(f"{line}\n" for line in lines).encode(), stderr="", phases=PHASES)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("\n".join(line for line in NETWORK.splitlines() if "-6" not in line), id="no way by IPv6"),
        pytest.param(NETWORK.replace("ip -6", "true"), id="no address of IPv6"),
    ],
)
def test_a_network_without_ipv6_is_no_obstacle(before: str) -> None:
    """There is nothing to prove where nothing can be sent. (A31)"""
    assert run_pinned("true", before=before).phases == PHASES


def test_a_kernel_without_ipv6_is_no_obstacle() -> None:
    before = NETWORK.replace("ip -6", "true")

    assert run_pinned("true", before=before, has_v6=False).phases == PHASES


def without(*lines: str) -> str:
    """The rules without the lines that hold one of these texts."""
    kept = [line for line in RULES.splitlines() if not any(text in line for text in lines)]
    assert len(kept) < len(RULES.splitlines())
    return "\n".join(kept) + "\n"


def opened(*lines: str) -> str:
    """The rules with these before all others of the chain that guards."""
    start = "policy drop;\n"
    assert start in RULES
    return RULES.replace(start, start + "".join(f"\t\t{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"programs": {"nft": "#!/bin/sh\nexit 0\n"}}, "no answer within 2 s: ", id="no rules"),
        pytest.param({"rules": without("udp } th dport 53")}, "the resolver: ", id="questions are not led inside"),
        pytest.param({"rules": opened("ip daddr 192.0.2.1 accept")}, "192.0.2.1 port 443", id="a stranger is open"),
        pytest.param(
            {"rules": opened("ip daddr 192.0.2.1 meta l4proto udp accept")},
            "a datagram to 192.0.2.1",
            id="to datagrams",
        ),
        pytest.param({"rules": opened("ip6 daddr 2001:db8:ffff::1 accept")}, "2001:db8:ffff::1 port 443", id="by IPv6"),
        pytest.param(
            {"rules": opened("ip daddr 10.0.2.2 accept")}, "10.0.2.2 port 80", id="slirp4netns's host is open"
        ),
        pytest.param(
            {"rules": opened("ip daddr 169.254.1.2 accept")}, "169.254.1.2 port 80", id="pasta's host is open"
        ),
        pytest.param({"rules": opened("ip6 daddr fd00::2 accept")}, "fd00::2 port 80", id="the host is open by IPv6"),
        pytest.param({"rules": without("jump refuse")}, "no answer within 2 s: ", id="what is refused is dropped"),
        pytest.param({"rules": "table inet x { junk }"}, "the network rules could not be loaded", id="bad rules"),
        pytest.param({"pins": "allowed.test 203.0.113\n"}, "the relay did not start", id="a bad table"),
        pytest.param(
            {"pins": "denied.aisb.internal 203.0.113.10\n"},
            "denied.aisb.internal was not answered as a name that is not allowed",
            id="a table with another name",
        ),
        pytest.param({"before": ""}, "the resolver: Network is unreachable", id="no network"),
    ],
)
def test_what_is_not_closed_is_77_before_the_command(fields: dict[str, object], reason: str) -> None:
    """A denied address and this host, by v4 and v6, and a name have to be refused before anything runs. (A53, A54)"""
    ended = run_pinned("echo", "the command ran", **fields)  # type: ignore[arg-type]  # each test names fields of the box

    assert (ended.code, ended.stdout) == (77, b"")
    assert ended.phases[-1].startswith("refused ")
    assert reason in ended.phases[-1]
    assert "exec" not in ended.phases
