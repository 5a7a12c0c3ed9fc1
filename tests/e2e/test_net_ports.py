"""What may be reached of a name: its ports, and what is said on them. Nothing of any other address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import NAMES as HOSTS
from tests.e2e.legs import EVIL_V4, EVIL_V6, WAYS, arrived, curl, inside, needs_sinks, outside, tcp, tls, wait

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

# What the sinks say first, or answer.
SERVERS = {22: "SSH-2.0-laboratory", 25: "220 laboratory ESMTP", 443: "TLS", 5432: "ping", 8443: "TLS"}
# Words that no web server is spoken to with. Each ends in an empty line, so that nobody waits for more.
NO_WEB = {
    "SSH": "SSH-2.0-x\r\n\r\n",
    "SMTP": "EHLO x\r\n\r\n",
    "bytes": "\x00\xff\x80\x7f" * 40 + "\r\n\r\n",
    "another protocol's request": "OPTIONS rtsp://allowed.test/ RTSP/1.0\r\n\r\n",
}


def test_an_allowed_name_has_two_ports_unless_its_entry_says_others(lab: Lab) -> None:
    """80 and 443 without a port, that port alone with one; a server that speaks first is no exception. (A15)"""
    legs = {
        f"{name} {port}, {way}": tls(name, port, name, via) if port in {443, 8443} else tcp(name, port, say, via)
        for name in ("allowed.test", "cdn.test")
        for port, say in ((22, ""), (25, ""), (443, ""), (5432, "ping\n"), (8443, ""))
        for way, via in WAYS.items()
    }
    pages = {f"{name} 80": curl(f"http://{name}/", bare=True) for name in ("allowed.test", "cdn.test")}
    is_open = {"allowed.test 443", "cdn.test 22", "cdn.test 5432"}

    def says(leg: str) -> str:
        return SERVERS[int(leg.partition(",")[0].partition(" ")[2])]

    assert outside(lab, legs | pages) == {
        **{leg: says(leg) for leg in legs},
        "allowed.test 80": "hello from allowed.test",
        "cdn.test 80": "hello from cdn.test",
    }
    run = inside(lab, "--allow allowed.test,cdn.test:22,cdn.test:5432", legs | pages)

    assert run.said == {
        **{leg: "reset" if "without" in leg else "403 port" for leg in legs},
        **{leg: says(leg) for leg in legs if leg.partition(",")[0] in is_open},
        "allowed.test 80": "hello from allowed.test",
        "cdn.test 80": "403 port",
    }
    assert arrived(lab) | {"allowed.test 80": 1} == {
        "allowed.test 80": 1,
        "allowed.test 443": 3,
        "cdn.test 22": 3,
        "cdn.test 5432": 3,
    }
    assert run.denials() == {
        *(("allowed.test", port, "port") for port in (22, 25, 5432, 8443)),
        *(("cdn.test", port, "port") for port in (25, 80, 443, 8443)),
    }


def test_only_the_protocol_of_a_port_passes(lab: Lab) -> None:
    """Whatever is no TLS is cut on 443 of an allowed name, whatever is no HTTP on 80. (A16, A17)"""
    words = NO_WEB | {"HTTP": "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"}
    on_443 = {
        f"{name}, {way}": tcp("allowed.test", 443, words[name], via) for name in words for way, via in WAYS.items()
    }
    on_80 = {
        f"{name} on 80, {way}": tcp("allowed.test", 80, NO_WEB[name], via)
        for name in NO_WEB
        for way, via in WAYS.items()
    }
    own = {f"TLS, {way}": tls("allowed.test", 443, "allowed.test", via) for way, via in WAYS.items()}

    outside(lab, on_443 | on_80 | own)
    assert arrived(lab) == {"allowed.test 443": len(on_443 | own), "allowed.test 80": len(on_80)}
    run = inside(lab, "--allow allowed.test", on_443 | on_80 | own)

    assert run.said == {
        **dict.fromkeys(on_443, "closed"),
        **dict.fromkeys(on_80, "HTTP/1.1 400 Bad Request"),
        **dict.fromkeys(own, "TLS"),
    }
    assert arrived(lab) == {"allowed.test 443": len(own)}


# Half a minute, which is squid's own, and the image of the gate is the same on both: one host will do.
@pytest.mark.parametrize("lab", HOSTS[-1:], indirect=True)
def test_a_client_that_says_nothing_on_443_is_cut(lab: Lab) -> None:
    """A tunnel of which nobody has said where it leads does not stay. (A16)"""
    legs = {"silent": wait("allowed.test", 443, 60)}

    run = inside(lab, "--allow allowed.test", legs)

    assert list(run.said) == ["silent"]
    assert run.said["silent"].startswith("closed after")
    assert arrived(lab) == {}


def test_no_address_answers_on_any_port(lab: Lab) -> None:
    """
    Raw connections end at once, also where the client waits for the server's first word. (A17, A29)

    The exception proves nothing and harms nobody: on port 53 every address is the sandbox's own resolver.
    """
    with_server = {
        f"{host} {port}": tcp(host, port, "ping\n" if port == 5432 else "")
        for host in (EVIL_V4, EVIL_V6, "203.0.113.10", "2001:db8::10")
        for port in (22, 25, 5432)
    }
    with_tls = {f"{host} {port}": tls(host, port, "evil.test") for host in (EVIL_V4, EVIL_V6) for port in (443, 8443)}
    with_pages = {f"{host} 80": curl(f"http://{host}/", bare=True) for host in (EVIL_V4, f"[{EVIL_V6}]")}
    silent = {
        f"silent, {host} {port}": tcp(host, port)
        for host in (EVIL_V4, EVIL_V6)
        for port in (21, 443, 853, 3128, 5432, 8080)
    }
    words = {
        f"{name} to {host} {port}": tcp(host, port, text)
        for name, text in NO_WEB.items()
        for host in (EVIL_V4, EVIL_V6)
        for port in (80, 443)
    }
    on_53 = {f"{host} 53": tcp(host, 53, "\x00\x01x") for host in (EVIL_V4, EVIL_V6)}
    own = {"own": curl("https://allowed.test/", bare=True)}

    assert outside(lab, with_server | with_tls | with_pages) == {
        **{leg: SERVERS[int(leg.rpartition(" ")[2])] for leg in with_server | with_tls},
        **dict.fromkeys(with_pages, "hello from evil.test"),
    }
    run = inside(lab, "--allow allowed.test", with_server | with_tls | with_pages | silent | words | on_53 | own)

    assert run.said == {
        **dict.fromkeys(with_server | with_tls | silent, "reset"),
        **{leg: "403 direct-address" if leg.endswith(" 80") else "reset" for leg in words},
        **dict.fromkeys(with_pages, "403 direct-address"),
        **dict.fromkeys(on_53, "closed"),
        "own": "hello from allowed.test",
    }
    assert arrived(lab) == {"allowed.test 443": 1}
