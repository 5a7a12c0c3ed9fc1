"""
The legs that a network test stands on: the same probes outside and inside a sandbox, and what reached the sinks.

A denial counts only where its target answers a client outside, an allowed request passes inside, and nothing of the
denied one has arrived.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.e2e import probes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.lab import Lab

EVIL_V4 = "203.0.113.11"
EVIL_V6 = "2001:db8::11"
# How a sandbox reaches a name: as if there were no gate, through its proxy, through the gate's own socket.
WAYS = {"without": "", "by proxy": "proxy", "by socket": "socket"}

needs_sinks = pytest.mark.skipif(os.geteuid() != 0, reason="the fake internet needs root")

REFUSAL_SECONDS = 1.0
_REFUSALS = ("403", "400", "cut", "closed", "reset", "refused", "unreachable", "no such name", "silence")
_TRUST = 'export SSL_CERT_FILE="$LAB_CA" CURL_CA_BUNDLE="$LAB_CA" GIT_SSL_CAINFO="$LAB_CA"; '
# Without a gate there is none.
_AUDIT = "find ~/.local/state/ai-sandbox -name audit.jsonl -exec cat {} +"


class Leg(NamedTuple):
    """One probe: a function of probes.py with its arguments, `bare` without the proxy variables."""

    kind: str
    arguments: tuple[object, ...]
    bare: bool = False
    env: Mapping[str, str] = {}


class Probe(NamedTuple):
    """A leg, what it has to say in a sandbox, and on the host: "" where it is not tried there."""

    leg: Leg
    inside: str
    outside: str = ""


class Inside(NamedTuple):
    """What a sandbox's probes said, what aisb said, and the record of the run."""

    said: dict[str, str]
    errors: str
    audit: list[dict[str, Any]]

    def denials(self) -> set[tuple[str, int, str]]:
        """Host, port and reason of each refusal on record, but for the ones that a start makes."""
        return {
            (item["host"], item["port"], item["reason"])
            for item in self.audit
            if item["decision"] == "deny" and item["host"] not in {"192.0.2.1", "2001:db8:ffff::1"}
        }


def curl(*arguments: str, bare: bool = False, **env: str) -> Leg:
    """curl, which takes its proxy from the variables unless it is `bare`."""
    return Leg("curl", arguments, bare, env)


OWN = Probe(curl("https://allowed.test/", bare=True), "hello from allowed.test")


def run(*argv: str, bare: bool = False, **env: str) -> Leg:
    """Any program."""
    return Leg("run", argv, bare, env)


def tcp(host: str, port: int, say: str = "", via: str = "") -> Leg:
    """A plain connection; `via` proxy or socket: through the gate where there is one."""
    return Leg("tcp", (host, port, say, via))


def wait(host: str, port: int, seconds: float) -> Leg:
    """A client that connects and says nothing."""
    return Leg("wait", (host, port, seconds))


def tls(host: str, port: int, name: str | None, via: str = "") -> Leg:
    """The first message of TLS."""
    return Leg("tls", (host, port, name, via))


def udp(host: str, port: int) -> Leg:
    """A datagram."""
    return Leg("udp", (host, port))


def speak(family: str, kind: str, protocol: int, host: str, port: int) -> Leg:
    """A socket of any kind, and a few bytes through it."""
    return Leg("speak", (family, kind, protocol, host, port))


def ask(server: str, name: str, kind: str = "A", over: str = "udp") -> Leg:
    """A question to a name server of one's own choice."""
    return Leg("ask", (server, name, kind, over))


def look_up(name: str) -> Leg:
    """A name, by the system's resolver."""
    return Leg("look_up", (name,))


def outside(lab: Lab, legs: Mapping[str, Leg]) -> dict[str, str]:
    """What the probes say on the host itself, with no sandbox between them and the sinks."""
    result = lab.run(f"{_TRUST} python3 -", stdin=_program(legs))
    assert result.code == 0, result.errors
    return _said(result.text)


def inside(
    lab: Lab,
    options: str,
    legs: Mapping[str, Leg],
    *,
    wrapper: str = "",
    before: str = "",
    env: Mapping[str, str] | None = None,
) -> Inside:
    """
    What the probes say in one sandbox.

    `wrapper`: a command of the sandbox that runs python3 for us; `before`: what the host's shell does first.
    """
    result = lab.run(
        f"{before or ':'}; aisb {options} -- {wrapper} python3 - && {_AUDIT}", stdin=_program(legs), env=env
    )
    assert result.code == 0, result.errors
    said, _, audit = result.text.partition("\n")
    return Inside(_said(said), result.errors, [json.loads(line) for line in audit.splitlines()])


def astray_outside(lab: Lab, probes: Mapping[str, Probe]) -> dict[str, tuple[str, str]]:
    """What each probe that is not right on the host says there, and what it has to say: nothing where all are."""
    wanted = {name: probe.outside for name, probe in probes.items() if probe.outside}
    return _astray(outside(lab, {name: probes[name].leg for name in wanted}), wanted)


def astray_inside(lab: Lab, probes: Mapping[str, Probe]) -> dict[str, tuple[str, str]]:
    """The same in a sandbox that may reach allowed.test, and in which a request to it passes beside them."""
    all_of_them = {**probes, "own": OWN}
    said = inside(lab, "--allow allowed.test", {name: probe.leg for name, probe in all_of_them.items()}).said
    return _astray(said, {name: probe.inside for name, probe in all_of_them.items()})


def _astray(said: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    assert said.keys() == wanted.keys()
    return {name: (said[name], wanted[name]) for name in wanted if said[name] != wanted[name]}


def arrived(lab: Lab) -> dict[str, int]:
    """How many connections and datagrams each site got at each port, since the last command began."""
    return dict(Counter(f"{item['sink']} {item['port']}" for item in lab.sinks("connect", "datagram")))


def asked(lab: Lab) -> set[str]:
    """The names that the name server was asked for."""
    return {item["name"].lower() for item in lab.sinks("question")}


def requested(lab: Lab) -> list[str]:
    """The HTTP requests that arrived, as site, scheme, Host and path."""
    return sorted(
        f"{item['sink']} {item['method']} {item['scheme']}://{item['host']}{item['path']}"
        for item in lab.sinks("request")
    )


def _program(legs: Mapping[str, Leg]) -> bytes:
    with open(probes.__file__, encoding="utf-8") as file:
        source = file.read()
    wanted = {name: leg._asdict() for name, leg in legs.items()}
    return f"{source}\nmain(json.loads({json.dumps(wanted)!r}))\n".encode()


def _said(text: str) -> dict[str, str]:
    return {name: _in_time(said, seconds) for name, (said, seconds) in json.loads(text).items()}


def _in_time(said: str, seconds: float) -> str:
    """A refusal that was not quick is told apart from one that was."""
    is_slow = said.startswith(_REFUSALS) and seconds >= REFUSAL_SECONDS
    return f"{said} after {seconds:.1f} s" if is_slow else said
