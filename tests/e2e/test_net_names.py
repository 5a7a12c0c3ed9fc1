"""What is a name that may be reached: names in TLS hellos, addresses behind names, spellings, look-alikes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.legs import (
    EVIL_V4,
    EVIL_V6,
    arrived,
    asked,
    curl,
    inside,
    look_up,
    needs_sinks,
    outside,
    requested,
    tcp,
    tls,
)

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks


def test_a_tunnel_to_one_name_does_not_carry_another(lab: Lab) -> None:
    """The name in the TLS hello has to be the one that was dialled, through the proxy and without. (A01)"""
    fronted = ("--connect-to", "evil.test:443:cdn.test:443", "https://evil.test/front")
    legs = {
        "by proxy": curl(*fronted),
        "without": curl(*fronted, bare=True),
        "by socket": tls("cdn.test", 443, "evil.test", "socket"),
        "own name": curl("https://cdn.test/own"),
        "own name, without": curl("https://cdn.test/own", bare=True),
    }

    assert outside(lab, legs) == dict.fromkeys(legs, "hello from cdn.test") | {"by socket": "TLS"}
    run = inside(lab, "--allow cdn.test", legs)

    assert run.said == {
        "by proxy": "cut",
        "without": "cut",
        "by socket": "closed",
        "own name": "hello from cdn.test",
        "own name, without": "hello from cdn.test",
    }
    assert requested(lab) == ["cdn.test GET https://cdn.test/own"] * 2
    assert arrived(lab) == {"cdn.test 443": 2}
    assert {(item["host"], item["named"], item["reason"]) for item in run.audit if "named" in item} == {
        ("cdn.test", "evil.test", "name-mismatch")
    }


def test_a_hello_without_the_name_is_cut(lab: Lab) -> None:
    """None, an empty one, an address, a pattern, one below: never passed on for the sake of the CONNECT. (A03)"""
    hellos = {"none": None, "empty": "", "an address": EVIL_V4, "a pattern": "*.test", "below": "x.allowed.test"}
    by_name = {
        f"{name}, {way}": tls("allowed.test", 443, hello, via)
        for name, hello in hellos.items()
        for way, via in (("by name", ""), ("by proxy", "proxy"), ("by socket", "socket"))
    }
    by_address = {f"{name}, to an address": tls(EVIL_V4, 443, hello) for name, hello in hellos.items()}
    own = {
        "own": tls("allowed.test", 443, "allowed.test"),
        "own, in capitals, by proxy": tls("allowed.test", 443, "ALLOWED.test", "proxy"),
    }
    legs = by_name | by_address | own

    # A server answers an odd name with an alert: it was reached all the same.
    assert set(outside(lab, legs).values()) == {"TLS", "alert"}
    run = inside(lab, "--allow allowed.test", legs)

    assert run.said == dict.fromkeys(by_name, "closed") | dict.fromkeys(by_address, "reset") | dict.fromkeys(own, "TLS")
    assert arrived(lab) == {"allowed.test 443": len(own)}
    assert run.denials() == {
        ("allowed.test", 443, "not-tls"),
        ("allowed.test", 443, "name-mismatch"),
        (EVIL_V4, 443, "direct-address"),
    }


def test_the_address_that_a_client_dials_plays_no_part(lab: Lab) -> None:
    """The right name at another address, a real one or one that stands for another name, on both ports. (A06)"""
    elsewhere = {
        f"{scheme} at {target}": curl("--connect-to", f"::{target}:", f"{scheme}://allowed.test/", bare=True)
        for target in (EVIL_V4, f"[{EVIL_V6}]", "cdn.test")
        for scheme in ("http", "https")
    }
    own = {f"{scheme}, as it is": curl(f"{scheme}://allowed.test/", bare=True) for scheme in ("http", "https")}

    assert outside(lab, elsewhere | own) == {
        f"http at {EVIL_V4}": "hello from evil.test",
        f"https at {EVIL_V4}": "hello from evil.test",
        f"http at [{EVIL_V6}]": "hello from evil.test",
        f"https at [{EVIL_V6}]": "hello from evil.test",
        "http at cdn.test": "hello from cdn.test",
        "https at cdn.test": "hello from cdn.test",
        "http, as it is": "hello from allowed.test",
        "https, as it is": "hello from allowed.test",
    }
    run = inside(lab, "--allow allowed.test,cdn.test", elsewhere | own)

    assert run.said == {
        f"http at {EVIL_V4}": "403 direct-address",
        f"https at {EVIL_V4}": "cut",
        f"http at [{EVIL_V6}]": "403 direct-address",
        f"https at [{EVIL_V6}]": "cut",
        "http at cdn.test": "403 name-mismatch",
        "https at cdn.test": "cut",
        "http, as it is": "hello from allowed.test",
        "https, as it is": "hello from allowed.test",
    }
    assert requested(lab) == ["allowed.test GET http://allowed.test/", "allowed.test GET https://allowed.test/"]
    assert arrived(lab) == {"allowed.test 80": 1, "allowed.test 443": 1}


def test_an_address_is_not_let_in_by_its_reverse_name(lab: Lab) -> None:
    """evil.test's addresses resolve back to x.allowed.test; nobody asks, however the address is spelled. (A07)"""
    hosts = (EVIL_V4, f"[{EVIL_V6}]", "0xcb.0.113.11", "3405803787")
    pages = {
        f"{scheme} {host}, {way}": curl("--insecure", f"{scheme}://{host}/", bare=way == "without")
        for scheme in ("http", "https")
        for host in hosts
        for way in ("by proxy", "without")
    }
    tunnels = {
        f"tunnel to {host} {port}, by {via}": tcp(host, port, "SSH-2.0-x\r\n", via)
        for host in (EVIL_V4, EVIL_V6)
        for port in (22, 5432)
        for via in ("proxy", "socket")
    }
    own = {"own": curl("http://x.allowed.test/")}
    answers = {
        ("http", "by proxy"): "403 direct-address",
        ("http", "without"): "403 direct-address",
        ("https", "by proxy"): "403",
        ("https", "without"): "cut",
    }

    assert set(outside(lab, pages | tunnels).values()) == {"hello from evil.test", "SSH-2.0-laboratory", "SSH-2.0-x"}
    assert asked(lab) == set()
    run = inside(lab, "--allow allowed.test", pages | tunnels | own)

    assert run.said == {
        **{f"{scheme} {host}, {way}": text for (scheme, way), text in answers.items() for host in hosts},
        **dict.fromkeys(tunnels, "403 direct-address"),
        "own": "hello from allowed.test",
    }
    assert arrived(lab) == {"allowed.test 80": 1}
    assert asked(lab) <= {"x.allowed.test"}


def test_every_spelling_of_a_name_is_that_name(lab: Lab) -> None:
    """Capitals and a final dot change nothing at any layer; two dots are no name; an exact entry holds too. (A10)"""
    names = ("allowed.test.", "ALLOWED.TEST", "x.Allowed.test.")
    same = {
        f"{scheme} {name}, {way}": curl(f"{scheme}://{name}/", bare=way == "without")
        for scheme in ("http", "https")
        for name in names
        for way in ("by proxy", "without")
    }
    found = {f"look-up of {name}": look_up(name) for name in names}
    two_dots = {
        "tunnel to two dots": tcp("allowed.test..", 443, via="proxy"),
        "request for two dots": curl("http://allowed.test../"),
        "look-up of two dots": look_up("allowed.test.."),
    }
    other = {
        "exactly": curl("http://One.CDN.test./"),
        "below": curl("http://x.one.cdn.test./"),
        "another": curl("http://Evil.test./", bare=True),
    }

    assert outside(lab, other) == {
        "exactly": "hello from cdn.test",
        "below": "hello from cdn.test",
        "another": "hello from evil.test",
    }
    run = inside(lab, "--allow Allowed.TEST.,exact:one.Cdn.test", same | found | two_dots | other)

    assert run.said == {
        **dict.fromkeys(same, "hello from allowed.test"),
        **dict.fromkeys(found, "v4"),
        "tunnel to two dots": "400 bad-request",
        "request for two dots": "400 bad-request",
        "look-up of two dots": "no such name",
        "exactly": "hello from cdn.test",
        "below": "403 not-listed",
        "another": "no such name",
    }
    # A plain request arrives with the canonical name; what is inside TLS is the client's.
    assert requested(lab) == sorted(
        [
            *["allowed.test GET http://allowed.test/"] * 4,
            *["allowed.test GET http://x.allowed.test/"] * 2,
            *[f"allowed.test GET https://{name}/" for name in names for _ in range(2)],
            "cdn.test GET http://one.cdn.test/",
        ]
    )


LOOK_ALIKES = (
    "notallowed.test",
    "xsub.allowed.test",
    "sub-allowed.test",
    "sub.allowed.test.evil.test",
    "subxallowed.test",
    "allowed.test",
    "cdn.test",
    "xcdn.test",
)


def test_a_name_that_only_looks_like_an_allowed_one_is_refused(lab: Lab) -> None:
    """Before, behind and above an entry: by the resolver, and by the gate whichever way it is asked. (A11)"""
    lab.names("".join(f"{name} A {EVIL_V4}\n" for name in LOOK_ALIKES))
    pages = {f"page of {name}": curl(f"http://{name}/") for name in LOOK_ALIKES}
    bare = {f"{name}, without": curl(f"http://{name}/", bare=True) for name in LOOK_ALIKES}
    tunnels = {f"tunnel to {name}": tls(name, 443, name, "socket") for name in LOOK_ALIKES}
    own = {
        f"{name}, {way}": curl(f"http://{name}/", bare=way == "without")
        for name in ("sub.allowed.test", "x.sub.allowed.test", "x.cdn.test")
        for way in ("by proxy", "without")
    }

    assert set(outside(lab, pages | bare | tunnels).values()) == {"hello from evil.test", "TLS"}
    run = inside(lab, "--allow sub.allowed.test,below:cdn.test", pages | bare | tunnels | own)

    assert run.said == {
        **dict.fromkeys(pages, "403 not-listed"),
        **dict.fromkeys(bare, "no such name"),
        **dict.fromkeys(tunnels, "403 not-listed"),
        **{leg: f"hello from {'cdn' if 'cdn' in leg else 'allowed'}.test" for leg in own},
    }
    assert requested(lab) == sorted(
        f"{'cdn' if 'cdn' in name else 'allowed'}.test GET http://{name}/"
        for name in ("sub.allowed.test", "x.sub.allowed.test", "x.cdn.test")
        for _ in ("by proxy", "without")
    )
    assert asked(lab) <= {"sub.allowed.test", "x.sub.allowed.test", "x.cdn.test"}
