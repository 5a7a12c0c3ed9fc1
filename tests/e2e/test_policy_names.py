"""Targets and names in odd spellings: what does not name an allowed host exactly is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.legs import arrived, asked, curl, inside, look_up, needs_sinks, outside, requested, tcp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

JUNK = (
    "[evil.test]:443", "[[allowed.test]]:443", "[allowed.test]:443", "allowed.test :443", " allowed.test:443", "allowed.test:443:443",
    "allowed.test:0443", "allowed.test:+443", "allowed.test: 443", ":443", "allowed.test", "allowed.test:", "allowed.test:-1",
    "allowed.test:65536", "allowed.test:443/", "allowed.test:443#", "evil.test:443@allowed.test:443", "allowed.test@evil.test:443",
    "allowed.test%2eevil.test:443", "allowed.test\\x00.evil.test:443", "allowed.test,evil.test:443", "evil.test#.allowed.test:443",
    "evil.test/.allowed.test:443", "evil.test?.allowed.test:443", ".allowed.test:443", "allowed..test:443", "*.allowed.test:443",
    "http://allowed.test:443", "//allowed.test:443", "203.0.113.11:443", "0xcb.0.113.11:443", "3405803787:443", "[2001:db8::11]:443",
    "[::ffff:203.0.113.11]:443",
)  # fmt: skip


def test_a_tunnel_takes_a_name_and_a_port_and_nothing_like_them(lab: Lab) -> None:
    """Brackets, blanks, signs and junk in a CONNECT's target: 400 or 403, by the proxy and by the socket alike. (A09)"""

    def asked_of_the_proxy(target: str) -> str:
        return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"

    legs = {target: tcp("127.0.0.1", 3128, asked_of_the_proxy(target)) for target in JUNK}
    own = {
        "own": tcp("127.0.0.1", 3128, asked_of_the_proxy("allowed.test:443")),
        "own in capitals": tcp("127.0.0.1", 3128, asked_of_the_proxy("ALLOWED.test.:443")),
    }
    direct = {"by name": curl("https://evil.test/"), "by address": curl("--insecure", "https://203.0.113.11/")}

    assert set(outside(lab, direct).values()) == {"hello from evil.test"}
    result = inside(lab, "--allow allowed.test", legs | own)

    statuses = {leg: said.split(" ")[1 if said.startswith("HTTP") else 0] for leg, said in result.said.items()}
    assert {leg: status for leg, status in statuses.items() if status not in ("400", "403")} == dict.fromkeys(
        own, "200"
    )
    # The two tunnels were opened and never used.
    assert set(arrived(lab)) <= {"allowed.test 443"}
    assert asked(lab) <= {"allowed.test"}


MUNICH = "xn--mnchen-3ya.test"
# What looks or sounds like it to somebody: a Cyrillic letter, a letter composed of two, another mapping of sharp s.
LIKE_IT = {
    "Cyrillic": "xn--mnchn-5va8a.test",
    "without the dots": "munchen.test",
    "spelled out": "muenchen.test",
    "sharp s as two": "fass.test",
    "below another": f"{MUNICH}.evil.test",
    "as one label": "xn--mnchen-3yatest.test",
}


def test_a_name_in_another_alphabet_is_its_a_label(lab: Lab) -> None:
    """Allowed as it is written, reached as it is asked for on the wire; nothing that looks like it is. (A14)"""
    names = (MUNICH, "xn--fa-hia.test", *LIKE_IT.values())
    lab.names("".join(f"{name} A 203.0.113.10\n*.{name} A 203.0.113.10\n" for name in names))
    own = {
        "as an A-label": curl(f"http://{MUNICH}/"),
        "over TLS, without": curl(f"https://{MUNICH}/", bare=True),
        "in capitals": curl(f"http://{MUNICH.upper()}/"),
        "with its dot": curl(f"http://{MUNICH}./"),
        "below": curl(f"http://x.{MUNICH}/"),
        "sharp s": curl("https://xn--fa-hia.test/"),
    }
    others = {name: curl(f"http://{host}/") for name, host in LIKE_IT.items()}
    bytes_on_the_wire = {
        name: tcp("127.0.0.1", 3128, f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        for name, host in {
            "UTF-8": "m\u00c3\u00bcnchen.test",
            "latin-1": "m\u00fcnchen.test",
            "a wide dot": "xn--mnchen-3ya\u00e3\u0080\u0082test",
        }.items()
    }
    look_ups = {f"look-up: {name}": look_up(host) for name, host in LIKE_IT.items()}

    assert set(outside(lab, own | others).values()) == {"hello from allowed.test"}
    result = inside(
        lab, "--allow 'm\u00fcnchen.test' --allow 'fa\u00df.test'", own | others | bytes_on_the_wire | look_ups
    )

    assert {leg: said for leg, said in result.said.items() if leg not in bytes_on_the_wire} == {
        **dict.fromkeys(own, "hello from allowed.test"),
        **dict.fromkeys(others, "403 not-listed"),
        **dict.fromkeys(look_ups, "no such name"),
    }
    assert {result.said[leg].split(" ")[1] for leg in bytes_on_the_wire} <= {"400", "403"}
    assert len(requested(lab)) == len(own)
