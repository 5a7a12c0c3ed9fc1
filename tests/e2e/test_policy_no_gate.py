"""`--no-gate`: names pinned to their addresses by the ruleset alone, and everything else refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.legs import (
    EVIL_V4,
    EVIL_V6,
    arrived,
    ask,
    asked,
    curl,
    inside,
    look_up,
    needs_sinks,
    outside,
    requested,
    run,
    speak,
    tcp,
    tls,
    udp,
)
from tests.e2e.test_gate import OPEN
from tests.e2e.test_net_host import CANARY, CANARY_PORTS, HOST_V4, HOST_V6, MAPPED, ON_LOOPBACK, ON_NETWORK
from tests.e2e.test_policy_live import script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab
    from tests.e2e.legs import Inside, Leg

pytestmark = needs_sinks

V4 = "203.0.113.10"
V6 = "2001:db8::10"
CDN_V4 = "203.0.113.12"
NAME_SERVERS = ("203.0.113.53", "2001:db8::53")
METADATA = ("169.254.169.254", "fd00:ec2::254")
BANNER = "SSH-2.0-laboratory"
HELLO = "hello from allowed.test"
ELSEWHERE = "hello from elsewhere"


# slirp4netns tells the sandbox of its way by IPv6 once the kernel has asked, which takes up to a second.
WITH_IPV6 = (
    'sh -c \'until ip -6 route get 2001:db8::10 && [ -z "$(ip -6 address show tentative)" ]; do sleep 0.05; done '
    '>/dev/null 2>&1; exec "$@"\' sh'
)


def pinned(lab: Lab, options: str, legs: Mapping[str, Leg]) -> Inside:
    """What the probes say in a sandbox without a gate, once it has all the ways that it gets."""
    return inside(lab, f"--no-gate {options}", legs, wrapper=WITH_IPV6)


def test_pinned_names_pass_and_everything_else_is_refused_at_once(lab: Lab) -> None:
    """By every family, at the ports of the entries and no other; UDP, other addresses and what is below are refused."""
    allowed = {
        "HTTPS": curl("https://allowed.test/"),
        "HTTP": curl("http://allowed.test/"),
        "v4": curl("-4", "https://allowed.test/"),
        "v6": curl("-6", "https://allowed.test/"),
        "SSH": tcp("allowed.test", 22),
        "by address": tcp(V4, 22),
        "Python": run(
            "python3", "-c", "import urllib.request as u; print(u.urlopen('http://allowed.test/').read(23).decode())"
        ),
    }
    answers = dict.fromkeys(("HTTPS", "HTTP", "v4", "v6", "Python"), HELLO) | {"SSH": BANNER, "by address": BANNER}
    streams = {
        f"{host} {port}": tcp(host, port, "GET / HTTP/1.0\r\n\r\n" if port == 80 else "hello\n")
        for host in (EVIL_V4, EVIL_V6)
        for port in (22, 25, 80, 5432)
    } | {f"{host} {port}": tcp(host, port, "hello\n") for host in (V4, V6) for port in (25, 5432)}
    hellos = {f"TLS {host} {port}": tls(host, port, "allowed.test") for host, port in ((EVIL_V4, 443), (V6, 8443))}
    metadata = {f"metadata {host}": tcp(host, 22) for host in METADATA}
    packets = {f"UDP {host} {port}": udp(host, port) for host in (EVIL_V4, EVIL_V6, V4, V6) for port in (9, 123, 443)}
    ping = {"ping": speak("AF_INET", "SOCK_DGRAM", 1, V4, 0)}
    names = {"evil.test": look_up("evil.test"), "below": look_up("api.allowed.test")}
    pages = {"a name": curl("https://evil.test/"), "a name below": curl("https://api.allowed.test/")}

    direct = outside(lab, allowed | streams | hellos | metadata | packets | names | pages)
    assert {leg: direct[leg] for leg in allowed} == answers
    assert {direct[leg] for leg in streams | hellos | metadata} <= {
        BANNER,
        "220 laboratory ESMTP",
        "TLS",
        "hello",
        "HTTP/1.1 200 OK",
    }
    assert {direct[leg] for leg in packets | names} == {"sent", "v4 v6"}
    found = pinned(
        lab,
        "--allow allowed.test,allowed.test:22",
        allowed | streams | hellos | metadata | packets | ping | names | pages,
    )

    assert found.said == {
        **answers,
        **dict.fromkeys(streams | hellos | metadata, "refused"),
        **dict.fromkeys(packets | ping, "unreachable"),
        **dict.fromkeys(names | pages, "no such name"),
    }
    assert arrived(lab) == {"allowed.test 443": 3, "allowed.test 80": 2, "allowed.test 22": 2}
    assert asked(lab) == {"allowed.test"}
    assert "aisb: WARNING: --no-gate: allow 1 name, 0 addresses; nothing is judged by name" in found.errors


def test_no_question_for_a_name_leaves(lab: Lab) -> None:
    """Whatever resolver is asked, by UDP or TCP, in clear or by TLS: the answer comes from a table, or never. (A33, A34)"""
    secret = "czn3cmv0.x.evil.test"
    questions = {
        f"{name} {kind} of {server}, {over}": ask(server, name, kind, over)
        for server in (*NAME_SERVERS, EVIL_V4, "198.18.0.1")
        for over in ("udp", "tcp")
        for name, kind in ((secret, "A"), ("allowed.test", "A"), ("allowed.test", "AAAA"), ("allowed.test", "TXT"))
    }
    others = {f"DoT {server}": tls(server, 853, None) for server in NAME_SERVERS}
    others["DoH"] = tls(NAME_SERVERS[0], 443, "doh.evil.test")
    names = {"a search": look_up(secret), "a reverse name": run("getent", "hosts", EVIL_V4)}

    direct = outside(lab, {leg: question for leg, question in questions.items() if "203.0.113.53" in leg} | names)
    assert set(direct.values()) & {"NXDOMAIN", "no such name", "refused"} == set()
    assert secret in asked(lab)
    found = pinned(lab, "--allow allowed.test", questions | others | names)

    assert found.said == {
        leg: "NXDOMAIN" if secret in leg else "no answer" if " TXT " in leg else "1 answer" for leg in questions
    } | dict.fromkeys(others, "refused") | {"a search": "no such name", "a reverse name": "exit 2"}
    assert asked(lab) == {"allowed.test"}
    assert arrived(lab) == {}


def test_any_site_at_a_pinned_address_is_reached_and_every_start_says_so(lab: Lab) -> None:
    """A CDN's address serves whoever is asked for: nobody looks. A quiet start and the printed policy say it too. (A45)"""
    other = curl("--resolve", f"evil.test:443:{CDN_V4}", "https://evil.test/")

    assert outside(lab, {"other": other}) == {"other": "hello from cdn.test"}
    found = pinned(lab, "-q --allow cdn.test", {"other": other, "elsewhere": curl("https://evil.test/")})
    assert requested(lab) == ["cdn.test GET https://evil.test/"]
    printed = lab.run("aisb --no-gate --allow cdn.test --print-policy")

    assert found.said == {"other": "hello from cdn.test", "elsewhere": "no such name"}
    assert found.audit == []
    assert found.errors.count("aisb: WARNING: ") == 3
    assert "any site at their addresses is open (of a CDN, all of it)" in found.errors
    assert "no_gate=each name is looked up once, when a run starts; any site at its addresses" in printed.text
    assert "allow.0=exact:cdn.test\n" in printed.text


# Where a name may lead inward, and at which port something answers there.
INWARD = {
    "loopback": "A 127.0.0.1",
    "loopback6": "AAAA ::1",
    "any": "A 0.0.0.0",
    "mapped": "AAAA ::ffff:127.0.0.1",
    "host4": f"A {HOST_V4}",
    "host6": f"AAAA {HOST_V6}",
    "slirp": "A 10.0.2.2",
    "pasta": "A 169.254.1.2",
    "lan": "A 10.0.0.5",
    "carrier": "A 100.64.0.1",
    "metadata": "A 169.254.169.254",
    "metadata6": "AAAA fd00:ec2::254",
    "half": f"A 127.0.0.1 {V4}",
}


def test_neither_a_name_nor_an_address_leads_to_this_host_or_inward(lab: Lab) -> None:
    """Its loopback and addresses, private ranges and metadata are closed on both network stacks, and it is said. (A36-A38, A40)"""
    lab.names("".join(f"{name}.in.test {record}\n" for name, record in INWARD.items()))
    by_name = {f"{name} {port}": tcp(f"{name}.in.test", port) for name in INWARD for port in (22, 8000)}
    mapped = {f"{host} {port}": tcp(host, port) for host in MAPPED for port in (*CANARY_PORTS, 8000)}
    addresses = {f"{host} 22": tcp(host, 22) for host in ("10.0.0.5", "100.64.0.1", *METADATA)}
    entries = ",".join(f"{name}.in.test:{port}" for name in INWARD for port in (22, 8000))
    own = {"own": tcp("half.in.test", 22)}

    direct = outside(lab, ON_LOOPBACK | ON_NETWORK | addresses)
    assert set(direct.values()) == {CANARY, BANNER}
    found = pinned(lab, f"--allow {entries}", by_name | ON_LOOPBACK | ON_NETWORK | mapped | addresses | own)

    half = {"half 22": BANNER, "half 8000": "refused", "own": BANNER}
    assert (
        found.said
        == {
            **dict.fromkeys(by_name, "no such name"),
            **dict.fromkeys(ON_LOOPBACK | ON_NETWORK | mapped | addresses, "refused"),
        }
        | half
    )
    assert arrived(lab) == {"allowed.test 22": 2}
    refused = {line.split()[2] for line in found.errors.splitlines() if "private-address" in line}
    assert refused == {f"{name}.in.test" for name in INWARD}


def test_an_address_entry_opens_that_address_and_what_leads_there(lab: Lab) -> None:
    """A private one too, at its port, and a name that leads there; never this host's loopback, nor metadata by a network."""
    lab.names("lan.in.test A 10.0.0.5\n")
    allowed = {
        "address": tcp("10.0.0.5", 22),
        "name": tcp("lan.in.test", 22),
        "network": tcp("10.20.3.4", 5432, "hello\n"),
        "v6": tcp(V6, 22),
        "v6 network": tcp("fd00:5::1", 22),
    }
    denied = {
        "another port": tcp("10.0.0.5", 25),
        "beside the network": tcp("10.21.0.1", 5432, "hello\n"),
        "metadata in a network": tcp(METADATA[1], 22),
        "slirp4netns in a v6 network": tcp("fd00::2", 22),
        "slirp4netns in a network": tcp("10.0.2.2", 22),
    }
    answers = {"address": BANNER, "name": BANNER, "network": "hello", "v6": BANNER, "v6 network": BANNER}
    entries = (
        "10.0.0.5:22",
        "lan.in.test:22",
        "10.20.0.0/16:5432",
        "[fd00::/16]:22",
        "10.0.2.0/24",
        f"[{V6}]:22",
    )

    direct = outside(lab, allowed | denied)
    assert {leg: direct[leg] for leg in allowed} == answers
    found = pinned(lab, " ".join(f"--allow '{entry}'" for entry in entries), allowed | denied)

    assert found.said == answers | dict.fromkeys(denied, "refused")
    assert arrived(lab) == {"elsewhere 22": 3, "elsewhere 5432": 1, "allowed.test 22": 1}


TRY = """
for host in 10.0.2.2 10.0.2.3 169.254.1.1 169.254.1.2 203.0.113.1; do
    for port in 22 6379 11434; do
        python3 -c "import socket; socket.create_connection(('$host', $port), 5)" 2>/dev/null && echo "$host $port"
    done
done
curl -sS https://allowed.test/
"""


def test_containers_conf_does_not_open_the_host_again(lab: Lab) -> None:
    """Its options for pasta and slirp4netns, which open the host's loopback elsewhere, are overruled. (A38, C36)"""
    write = f"mkdir -p ~/.config/containers && printf '{OPEN[lab.name]}' >>~/.config/containers/containers.conf"

    result = lab.run(f'{write} && aisb --no-gate --allow allowed.test -- sh -c "$TRY"', env={"TRY": TRY})

    assert (result.code, result.text) == (0, f"{HELLO}\n"), result.errors
    assert arrived(lab) == {"allowed.test 443": 1}


def test_without_pasta_the_other_one_carries_it_and_without_both_nothing_runs(lab: Lab) -> None:
    """slirp4netns is as closed; with neither there is a sentence and no sandbox. (C36)"""
    mapped = {f"{host} {port}": tcp(host, port) for host in MAPPED for port in CANARY_PORTS}

    with lab.without("pasta"):
        found = pinned(lab, "--allow allowed.test:22", mapped | {"own": tcp(V4, 22), "evil": tcp(EVIL_V4, 22)})
        reached = arrived(lab)
    with lab.without("pasta", "slirp4netns"):
        neither = lab.run("aisb --no-gate --allow allowed.test -- touch ran; echo exit $?; ls")

    assert found.said == dict.fromkeys(mapped, "refused") | {"own": BANNER, "evil": "refused"}
    assert reached == {"allowed.test 22": 1}
    assert neither.text == "exit 69\n"
    assert "neither pasta nor slirp4netns is there: the sandbox has no way out\n" in neither.errors


def test_no_word_changes_a_run_without_a_gate(lab: Lab) -> None:
    """`aisb allow` and `aisb deny` say why, and nothing is saved; `aisb learn` is not to be had either."""
    lines, errors = script(
        lab,
        """
        begin one --no-gate --allow allowed.test
        cd one
        aisb allow evil.test --save; echo "allow: $?"; ls .ai-sandbox 2>/dev/null
        aisb deny allowed.test; echo "deny: $?"
        cd ..
        ask one "curl -sS https://allowed.test/; curl -sS https://evil.test/"
        finish one
        AISB_NO_GATE=1 aisb learn -- true; echo "learn: $?"
        """,
    )

    assert lines == ["allow: 2", "deny: 2", HELLO, "curl: (6) Could not resolve host: evil.test", "learn: 2"]
    assert errors.count("has no gate (--no-gate): its names were pinned when it started, and nothing changes") == 2
    assert "aisb learn takes a gate" in errors


def test_a_project_cannot_ask_for_it_and_its_user_can(lab: Lab) -> None:
    """In the user's configuration it holds for every run, 0 in the variable takes it back, and a project's file is refused. (C11)"""
    result = lab.run(
        """
        mkdir -p ~/.config/ai-sandbox .ai-sandbox
        echo 'no-gate: 1' >.ai-sandbox/config.yaml
        hash=$(aisb trust --show 2>&1 | grep -oE '[0-9a-f]{64}')
        aisb --trust-once "$hash" --allow allowed.test -- true
        echo "project: $?"
        rm .ai-sandbox/config.yaml
        echo 'no-gate: 1' >~/.config/ai-sandbox/config.yaml
        aisb --allow allowed.test -- sh -c 'cat /run/aisb/mode; env | grep -ci _proxy'
        aisb --allow allowed.test --print-policy | grep gate
        AISB_NO_GATE=0 aisb -q --allow allowed.test -- cat /run/aisb/mode
        """
    )

    assert result.text.splitlines() == [
        "project: 2",
        "pinned",
        "0",
        "no_gate=each name is looked up once, when a run starts; any site at its addresses can be reached, under any name; nothing is recorded",
        "no_gate.origin=~/.config/ai-sandbox/config.yaml:1",
        "allow",
    ], result.errors
    assert ".ai-sandbox/config.yaml:1: 'no-gate' is not for a project to set" in result.errors


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ("--allow gone.in.test", 69, "nothing that is allowed can be reached: gone.in.test does not resolve here"),
        ("--allow lan.in.test", 2, "denied lan.in.test at 10.0.0.5: private-address"),
        ("--allow allowed.test --allow 'GET allowed.test/**'", 2, "methods and paths are read in a gate"),
        ("--allow allowed.test,host:11434", 2, "a port of this host is reached through a gate"),
        ("--allow below:allowed.test", 2, "names are looked up beforehand, and nobody knows those below another"),
        ("--allow 10.0.2.2:22", 2, "that is this host's loopback inside"),
        ("--allow allowed.test --policy ~/rules.yaml", 2, "has rules, which are read in a gate"),
        ("--allow allowed.test --proxy http://allowed.test:8080", 2, "is a gate's way out"),
        ("--net none", 2, "--no-gate has no meaning under --net none"),
    ],
)
def test_what_cannot_be_kept_without_a_gate_is_refused_before_anything_runs(
    lab: Lab, flags: str, code: int, said: str
) -> None:
    lab.names("lan.in.test A 10.0.0.5\n")
    rules = "networkPolicies: [{host: allowed.test, policies: [{action: ALLOW, path: /.*, method: GET}]}]"

    result = lab.run(f"echo '{rules}' >~/rules.yaml; aisb --no-gate {flags} -- sh -c 'echo it ran'")

    assert (result.code, result.text, said in result.errors) == (code, "", True), result.errors
    assert arrived(lab) == {}
