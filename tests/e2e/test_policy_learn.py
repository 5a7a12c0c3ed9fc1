"""`aisb learn`: everything public is open and recorded, nothing else is, and what it proposes is enough."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import EVIL_V4, EVIL_V6, arrived, curl, inside, needs_sinks, outside, tcp, tls, udp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab
    from tests.e2e.legs import Leg

pytestmark = needs_sinks

BANNER = "aisb: WARNING: LEARNING: EVERY PUBLIC HOST IS OPEN to this run on ports 80 and 443"
PROGRAM = (
    "curl -sS https://allowed.test/a http://x.allowed.test/b && "
    "curl -sS --noproxy '*' https://cdn.test/c && curl -sS http://203.0.113.13/d"
)
SAID = "hello from allowed.test\nhello from allowed.test\nhello from cdn.test\nhello from llm.test\n"
NEEDED = ["203.0.113.13:80", "exact:allowed.test", "exact:cdn.test", "exact:x.allowed.test"]


def entries_of(text: str) -> list[str]:
    """The entries of a list, without comments."""
    return [line.partition("#")[0].strip() for line in text.splitlines() if not line.startswith("#")]


def test_what_is_proposed_lets_the_same_command_through_and_nothing_else(lab: Lab) -> None:
    """It takes effect when it was put in its place and trusted, not before."""
    program = f"'{PROGRAM.replace(chr(39), chr(34))}'"
    again = f"aisb -q -- sh -c {program}; echo $?"
    trust = "HASH=$(aisb trust --show | head -1 | cut -d' ' -f3)"
    learning = lab.run(
        f"aisb learn --save -- sh -c {program}; echo $?; ls -A .ai-sandbox; {again}\n"
        "cp .ai-sandbox/allow.proposed .ai-sandbox/allow\n"
        f"{trust}; aisb -q --trust-once $HASH -- sh -c {program}; echo $?\n"
        "aisb -q --trust-once $HASH -- curl -sS -o /dev/null https://evil.test; echo $?\n"
        "aisb -q --trust-once $HASH -- curl -sS -o /dev/null https://y.allowed.test; echo $?\n"
        "cat .ai-sandbox/allow"
    )

    start = f"{SAID}0\nallow.proposed\n2\n{SAID}0\n56\n56\n"
    assert learning.text.startswith(start), (learning.text, learning.errors)
    assert entries_of(learning.text.removeprefix(start)) == NEEDED
    assert "aisb: nothing is allowed yet" in learning.errors
    lines = learning.errors.splitlines()
    assert BANNER in lines
    said = [line.removeprefix("aisb: ") for line in lines]
    assert [line for line in learning.text.removeprefix(start).splitlines() if line not in said] == []


CLOSED: dict[str, Leg] = {
    "SSH": tcp("evil.test", 22),
    "PostgreSQL, by proxy": tcp("evil.test", 5432, "x", via="proxy"),
    "another port": curl("http://evil.test:8443/"),
    "an address at another port": tcp(EVIL_V4, 22),
    "the host": curl("http://203.0.113.2:8000/"),
    "the host, by port 80": curl("http://203.0.113.2/"),
    "the host's loopback": curl("http://host.aisb.internal:8000/"),
    "a private address": curl("http://10.0.0.5/"),
    "the metadata service": curl("http://169.254.169.254/"),
    "a name of a private address": curl("http://inner.test/"),
    "a name of the host": curl("http://me.test/"),
    "a name of the metadata service": curl("http://meta.test/"),
    "a name of aisb's own": curl("http://refused.aisb.internal/"),
    "another name in the hello": tls("evil.test", 443, "cdn.test", via="proxy"),
    "no name in the hello": tls("evil.test", 443, None, via="proxy"),
    "a datagram": udp(EVIL_V4, 443),
}
OPEN: dict[str, Leg] = {
    "HTTP": curl("http://evil.test/"),
    "HTTPS": curl("https://evil.test/"),
    "without the proxy": curl("https://evil.test/", bare=True),
    "an address": curl(f"http://{EVIL_V4}/"),
    "an IPv6 address": curl(f"http://[{EVIL_V6}]/"),
}
ZONE = "inner.test A 10.0.0.5\nme.test A 203.0.113.2\nmeta.test A 169.254.169.254\n"


def test_private_addresses_and_other_ports_stay_closed(lab: Lab) -> None:
    """Nothing arrives but what is public on the two ports; each refusal is on record with its reason. (A59, C49)"""
    lab.names(ZONE)
    reachable = outside(lab, OPEN | {"SSH": CLOSED["SSH"]})
    assert set(reachable.values()) == {"hello from evil.test", "SSH-2.0-laboratory"}
    result = inside(lab, "learn", CLOSED | OPEN)

    assert {leg: result.said[leg] for leg in OPEN} == dict.fromkeys(OPEN, "hello from evil.test")
    assert [leg for leg in CLOSED if result.said[leg].startswith(("hello", "SSH", "x", "TLS", "echo"))] == []
    # squid may have kept a connection to port 80 from a minute ago: then there is no new one.
    assert {"evil.test 443"} <= set(arrived(lab)) <= {"evil.test 80", "evil.test 443"}
    assert {item["host"] for item in lab.sinks("request")} == {"evil.test", EVIL_V4, f"[{EVIL_V6}]"}
    rules = {(item["host"], item["port"], item["rule"]) for item in result.audit if item["decision"] == "allow"}
    assert rules == {(host, port, "aisb learn") for host, port in (
        ("evil.test", 80), ("evil.test", 443), (EVIL_V4, 80), (EVIL_V6, 80),
    )}  # fmt: skip
    refused = result.denials()
    assert {
        ("10.0.0.5", 80, "direct-address"),
        ("169.254.169.254", 80, "direct-address"),
        ("203.0.113.2", 80, "private-address"),
        ("refused.aisb.internal", 80, "not-listed"),
        ("inner.test", 80, "private-address"),
        ("me.test", 80, "private-address"),
        ("meta.test", 80, "private-address"),
        ("evil.test", 22, "not-listed"),
        ("evil.test", 443, "name-mismatch"),
        ("evil.test", 443, "not-tls"),
        (EVIL_V4, 22, "direct-address"),
    } <= refused
    assert not [item for item in refused if item[0] == "evil.test" and item[1] == 80]


def test_a_gate_that_learns_is_no_other_runs_gate(lab: Lab) -> None:
    """With the very same list: another run is refused while one learns."""
    result = lab.run(
        "mkfifo go; aisb learn -q --allow allowed.test -- sh -c 'curl -sS https://evil.test >up; cat go' 2>/dev/null & "
        "until [ -s up ]; do sleep 0.1; done; cat up; "
        "aisb -q --allow allowed.test -- curl -sS -o /dev/null https://evil.test; echo $?; echo >go; wait"
    )

    assert result.text.splitlines()[:2] == ["hello from evil.test", "56"], (result.text, result.errors)
    assert arrived(lab) == {"evil.test 443": 1}


def test_a_secret_goes_in_only_with_yes(lab: Lab) -> None:
    """And nothing is started without it; the exit code is the command's, and -q leaves the warning. (A59)"""
    show = "sh -c 'echo $TOKEN; exit 5'"
    without = lab.run(f"aisb learn --env TOKEN -- {show}", env={"TOKEN": "s3cret"})
    with_yes = lab.run(f"aisb learn -q --yes --env TOKEN -- {show}", env={"TOKEN": "s3cret"})

    assert (without.code, without.text, without.errors.splitlines()[0]) == (
        2, "", "aisb: --env TOKEN: what runs under aisb learn could send it to any host",
    )  # fmt: skip
    assert (with_yes.code, with_yes.text) == (5, "s3cret\n")
    assert BANNER in with_yes.errors.splitlines()
    assert "aisb: # Nothing that was not allowed already." in with_yes.errors.splitlines()


FROM_A_FILE = {
    "config.yaml": "learn: true\n",
    "policy.yaml": "learn: true\nallow: [allowed.test]\n",
    "allow": "@learn\n",
}


@pytest.mark.parametrize("name", FROM_A_FILE)
def test_no_file_of_a_project_can_ask_for_it(lab: Lab, name: str) -> None:
    """Not even one that is trusted. (A59)"""
    result = lab.run(
        f"mkdir .ai-sandbox; printf '{FROM_A_FILE[name]}' >.ai-sandbox/{name}; HASH=$(aisb trust --show | head -1 | cut -d' ' -f3); "
        "aisb --trust-once $HASH --allow allowed.test -- curl -sS https://evil.test"
    )

    assert (result.code, result.text) == (2, "")
    assert re.match(rf"aisb: \.ai-sandbox/{name}:1: ", result.errors), result.errors
    assert arrived(lab) == {}


def test_the_list_goes_where_it_was_asked_for_whatever_the_agent_does_there(lab: Lab) -> None:
    """A file is opened before the run, and no link in the project is followed after it."""
    agent = "sh -c 'curl -sS -o /dev/null https://cdn.test; rm list; ln -s /home/aisb-lab/stolen list; ln -s /home/aisb-lab .ai-sandbox'"
    result = lab.run(
        f"touch list ~/stolen; ln list kept; aisb learn --output list --save -- {agent}; echo $?; "
        "cat kept; wc -c <~/stolen; ls -A ~ | grep allow"
    )

    code, *lines, stolen = result.text.splitlines()
    assert (code, entries_of("\n".join(lines)), stolen) == ("0", ["exact:cdn.test"], "0")
    assert "aisb: .ai-sandbox cannot be read: it is a link" in result.errors
    assert "aisb: the proposed list is in list; what you want of it belongs in .ai-sandbox/allow\n" in result.errors
    assert "exact:cdn.test" not in result.errors


def test_a_policy_inside_says_that_it_learns_and_a_preview_too(lab: Lab) -> None:
    """Whoever looks at either sees that everything is open; nothing of it is in a run of another kind."""
    result = lab.run(
        "aisb learn -q -- cat /run/aisb/policy.json 2>/dev/null; aisb learn --print-policy -- true | grep ^learn; "
        "aisb -q --allow allowed.test -- cat /run/aisb/policy.json; aisb --allow allowed.test --print-policy | grep ^learn"
    )

    learning, printed, plain = result.text.splitlines()
    assert (json.loads(learning)["learn"], json.loads(plain)["learn"]) == (True, False)
    assert printed == "learn=everything public, ports 80 and 443"


def test_a_preset_is_recognised_in_what_was_reached(lab: Lab) -> None:
    """One of data, and one of a registry: the host that the image's own npm is configured to use, whichever that is."""
    shown = lab.run("aisb policy presets")
    assert shown.code == 0, shown.errors
    hosts = dict(re.findall(r"^(pi|npm)\.0=exact:(\S+)$", shown.text, re.MULTILINE))
    lab.names("".join(f"{host} A 203.0.113.10\n" for host in hosts.values()))
    visits = " ".join(f"http://{host}/" for host in hosts.values())
    result = lab.run(f"aisb learn -q -- curl -sS -o /dev/null -o /dev/null {visits}")

    lines = [line.removeprefix("aisb: ") for line in result.errors.splitlines()]
    assert {f"#   @{name}  # in the place of 1" for name in hosts} <= set(lines), result.errors
    assert [line.partition(" ")[0] for line in lines if line.startswith("exact:")] == sorted(
        f"exact:{host}" for host in hosts.values()
    )
