"""Entries for addresses: reached as they are, and nothing beside them, whatever a name leads to."""

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
    from tests.e2e.legs import Leg

pytestmark = needs_sinks

V4 = "203.0.113.10"
V6 = "2001:db8::10"
METADATA_V4 = "169.254.169.254"
METADATA_V6 = "fd00:ec2::254"
ELSEWHERE = "hello from elsewhere"


def test_an_address_is_reached_at_its_port_as_it_is(lab: Lab) -> None:
    """PostgreSQL and SSH, HTTP and TLS, v4 and v6, with a proxy and without; the next port and address are not. (B38, B39)"""
    allowed = {
        "PostgreSQL": tcp(V4, 5432, "hello\n"),
        "PostgreSQL, by proxy": tcp(V4, 5432, "hello\n", "proxy"),
        "SSH, v6": tcp(V6, 22),
        "HTTP": curl(f"http://{V4}/"),
        "HTTP, without": curl(f"http://{V4}/", bare=True),
        "HTTPS": curl("--insecure", f"https://{V4}/"),
        "HTTPS, without": curl("--insecure", f"https://{V4}/", bare=True),
        "TLS to another name": tls(V4, 443, "evil.test"),
        "TLS without a name": tls(V4, 443, None),
        "SSH over port 443": tcp(V4, 443, "SSH-2.0-client\r\n"),
        "any port of another": tcp("203.0.113.13", 22),
        "a network": tcp("198.51.100.14", 5432, "hello\n"),
    }
    denied = {
        "another port": tcp(V4, 22),
        "another port, by proxy": tcp(V4, 22, "", "proxy"),
        "a third port": tls(V4, 8443, "allowed.test"),
        "another address": tcp(EVIL_V4, 5432, "hello\n"),
        "its name": tcp("allowed.test", 5432, "hello\n", "proxy"),
        "its name's page": curl("http://allowed.test/"),
        "v6, another port": tcp(V6, 5432, "hello\n"),
        "beside the network": tcp("198.51.100.16", 5432, "hello\n"),
        "a network's other port": tcp("198.51.100.14", 22),
        "v4 in v6": tcp(f"::ffff:{EVIL_V4}", 5432, "hello\n"),
    }
    banner, greeting = "SSH-2.0-laboratory", "hello"
    answers = {
        "PostgreSQL": greeting,
        "PostgreSQL, by proxy": greeting,
        "SSH, v6": banner,
        "HTTP": "hello from allowed.test",
        "HTTP, without": "hello from allowed.test",
        "HTTPS": "hello from allowed.test",
        "HTTPS, without": "hello from allowed.test",
        "TLS to another name": "TLS",
        "TLS without a name": "TLS",
        "any port of another": banner,
        "a network": greeting,
    }

    direct = outside(lab, allowed | denied)
    assert {leg: said for leg, said in direct.items() if leg in answers} == answers
    assert {direct[leg] for leg in denied} == {banner, greeting, "TLS", "hello from allowed.test"}
    options = f"--allow {V4}:5432,{V4}:443,{V4}:80,[{V6}]:22,203.0.113.13 --allow 198.51.100.14/31:5432"
    result = inside(lab, options, allowed | denied)

    assert {leg: result.said[leg] for leg in answers} == answers
    # The server makes nothing of it, but it got it.
    assert (direct["SSH over port 443"], result.said["SSH over port 443"]) == ("reset", "closed")
    assert {leg: result.said[leg] for leg in denied} == {
        **dict.fromkeys(denied, "reset"),
        "another port, by proxy": "403 port",
        "its name": "403 not-listed",
        "its name's page": "403 not-listed",
    }
    # squid may have kept a connection for plain HTTP; the rest is one each.
    assert {site: count for site, count in arrived(lab).items() if site != "allowed.test 80"} == {
        "allowed.test 22": 1,
        "allowed.test 443": 5,
        "allowed.test 5432": 2,
        "llm.test 22": 1,
        "elsewhere 5432": 1,
    }
    assert requested(lab).count(f"allowed.test GET http://{V4}/") == 2
    assert {(host, port, reason) for host, port, reason in result.denials() if host == V4} == {
        (V4, 22, "port"),
        (V4, 8443, "port"),
    }


# An allowed name that turns to what only this machine or its network should see.
INWARD = {
    "private": "A 10.0.0.5",
    "carrier": "A 100.64.0.1",
    "metadata": f"A {METADATA_V4}",
    "metadata6": f"AAAA {METADATA_V6}",
    "own": "A 127.0.0.1",
    "own6": "AAAA ::1",
    "any": "A 0.0.0.0",
    "unique": "AAAA fd12:3456::5",
    "mapped": "AAAA ::ffff:10.0.0.5",
    "next": "A 10.0.0.6",
}


def pages_of(name: str) -> dict[str, Leg]:
    """The name over HTTP and HTTPS, by proxy and without."""
    return {
        f"{name}, {scheme}, {way}": curl("--insecure", f"{scheme}://{name}.inward.test/", bare=way == "without")
        for scheme in ("http", "https")
        for way in ("by proxy", "without")
    }


def test_a_name_leads_inward_only_where_an_address_is_allowed(lab: Lab) -> None:
    """The name and the address take an entry each, the address at that port; a network opens no metadata service. (A36)"""
    lab.names("".join(f"{name}.inward.test {record}\n" for name, record in INWARD.items()))
    legs = {leg: probe for name in INWARD for leg, probe in pages_of(name).items()}
    own = {"own": curl("https://allowed.test/", bare=True)}
    reachable = {leg: probe for leg, probe in legs.items() if leg.split(",")[0] in ("private", "next", "unique")}

    direct = outside(lab, {leg: probe for leg, probe in reachable.items() if "https" not in leg})
    assert set(direct.values()) == {ELSEWHERE}
    closed = inside(lab, "--allow inward.test,allowed.test", legs | own)
    assert closed.said == {leg: "403 private-address" if ", http," in leg else "cut" for leg in legs} | {
        "own": "hello from allowed.test"
    }
    assert arrived(lab) == {"allowed.test 443": 1}

    opened = inside(
        lab, "--allow inward.test,allowed.test,10.0.0.5:80 --allow 169.0.0.0/8:80 --allow '[fd12::/16]:80'", legs | own
    )
    # squid reads the IPv4 out of an address of IPv6 that carries one, and it is that address which is dialled.
    names = ("private", "mapped", "unique")
    through = {f"{name}, http, {way}" for name in names for way in ("by proxy", "without")}
    assert {leg for leg, said in opened.said.items() if said == ELSEWHERE} == through
    # The gate may have kept a connection: what counts are the requests.
    assert requested(lab) == sorted(
        ["allowed.test GET https://allowed.test/"] + 2 * [f"elsewhere GET http://{name}.inward.test/" for name in names]
    )
    assert {reason for _, _, reason in opened.denials()} == {"private-address"}


def test_a_metadata_service_takes_an_entry_of_its_own(lab: Lab) -> None:
    """By address and by names, through the proxy and past it, with the wider network allowed: refused. (A37)"""
    urls = {
        "v4": f"http://{METADATA_V4}/latest/meta-data/",
        "v6": f"http://[{METADATA_V6}]/latest/meta-data/",
    }
    legs = {
        f"{name}, {way}": curl(url, bare=way == "without")
        for name, url in urls.items()
        for way in ("by proxy", "without")
    }
    token = {
        "with a token": curl("--request", "PUT", "--header", "X-aws-ec2-metadata-token-ttl-seconds: 60", urls["v4"])
    }
    by_name = {
        "by name": curl("http://metadata.google.internal/"),
        "by name, without": curl("http://metadata.google.internal/", bare=True),
        "look-up": look_up("metadata.google.internal"),
    }
    near = {"a neighbour": curl("http://169.254.169.253/"), "a neighbour, v6": curl("http://[fd00:ec2::253]/")}

    # The host itself has no route to the v4 of that network; what the gate is refused elsewhere shows that it tries.
    direct = outside(lab, near | {leg: probe for leg, probe in legs.items() if "v6" in leg})
    assert set(direct.values()) == {ELSEWHERE}
    wide = inside(lab, "--allow allowed.test --allow 169.0.0.0/8 --allow fd00:ec2::/32", legs | token | by_name | near)
    assert {leg: wide.said[leg] for leg in legs | token | by_name} == {
        **dict.fromkeys(legs | token, "403 direct-address"),
        "by name": "403 not-listed",
        "by name, without": "no such name",
        "look-up": "no such name",
    }
    assert {leg: wide.said[leg] for leg in near} == dict.fromkeys(near, ELSEWHERE)
    assert {item["host"] for item in lab.sinks("request")} == {"169.254.169.253", "[fd00:ec2::253]"}

    named = inside(lab, f"--allow {METADATA_V4},[{METADATA_V6}]", legs | near)
    assert named.said == dict.fromkeys(legs, ELSEWHERE) | dict.fromkeys(near, "403 direct-address")


def test_no_word_of_an_address_entry_is_for_a_name(lab: Lab) -> None:
    """A name that resolves to an allowed public address is not allowed by it, and the other way round."""
    legs = {
        "name": curl("https://allowed.test/"),
        "its address": curl("--insecure", f"https://{V4}/"),
        "evil's address": curl("--insecure", f"https://{EVIL_V4}/"),
        "evil's v6": curl("--insecure", f"https://[{EVIL_V6}]/"),
        "evil": curl("https://evil.test/"),
    }

    assert set(outside(lab, legs).values()) == {"hello from allowed.test", "hello from evil.test"}
    said = inside(lab, f"--allow allowed.test,{EVIL_V4}:443", legs).said

    assert said == {
        "name": "hello from allowed.test",
        "its address": "403",
        "evil's address": "hello from evil.test",
        "evil's v6": "403",
        "evil": "403",
    }
    assert asked(lab) <= {"allowed.test"}
    assert len(requested(lab)) == 2


def test_host_bits_are_normalised_and_said(lab: Lab) -> None:
    """A network that was written as an address in it means the whole network, and a start says so. (C07)"""
    result = lab.run("aisb --allow 203.0.113.13/31:5432 -- true")
    printed = lab.run("aisb --allow 203.0.113.13/31:5432 --print-policy")
    whole = lab.run("aisb --allow 203.0.113.12/31:5432 -- true")

    note = "aisb: --allow 203.0.113.13/31:5432 means all of 203.0.113.12/31"
    assert (result.code, result.errors.splitlines().count(note), note in whole.errors) == (0, 1, False), result.errors
    assert "allow.0=203.0.113.12/31:5432\n" in printed.text


def test_a_network_opens_all_but_what_a_start_is_proved_by(lab: Lab) -> None:
    """The addresses whose refusal shows at each start that it is closed: a run begins, and they stay closed in it."""
    beside = {"beside": curl("http://192.0.2.7/"), "beside, v6": curl("http://[2001:db8:ffff::7]/", bare=True)}
    proved_by = {
        "by proxy": curl("http://192.0.2.1/"),
        "without": tcp("192.0.2.1", 22),
        "v6": tcp("2001:db8:ffff::1", 22),
    }

    direct = outside(lab, beside | proved_by)
    assert direct == {leg: "SSH-2.0-laboratory" if leg in ("without", "v6") else ELSEWHERE for leg in direct}
    result = inside(lab, "--allow 192.0.2.0/24 --allow 2001:db8:ffff::/48", beside | proved_by)
    alone = lab.run("aisb --allow 192.0.2.1 -- true")

    assert result.said == dict.fromkeys(beside, ELSEWHERE) | {
        "by proxy": "403 direct-address",
        "without": "reset",
        "v6": "reset",
    }
    assert (alone.code, alone.errors.splitlines()[0]) == (
        2,
        "aisb: --allow '192.0.2.1': by refusing this address each start proves that it is closed",
    )


def test_a_network_does_not_open_the_machine_that_it_holds(lab: Lab) -> None:
    """slirp4netns leads to the host by the host's own addresses, and they are closed like its loopback. (A36)"""
    lab.names("machine.test A 203.0.113.2\nmachine6.test AAAA 2001:db8::2\n")
    machine = {
        "by name": tcp("machine.test", 8000, "hello\n"),
        "by name, v6": tcp("machine6.test", 8000, "hello\n"),
        "by address": tcp("203.0.113.2", 8000, "hello\n"),
        "by address, v6": tcp("2001:db8::2", 8000, "hello\n"),
    }
    neighbour = {"neighbour": tcp(V4, 22), "neighbour, v6": tcp(V6, 22)}

    direct = outside(lab, machine | neighbour)
    assert direct == {**dict.fromkeys(machine, "host canary"), **dict.fromkeys(neighbour, "SSH-2.0-laboratory")}
    options = "--allow 203.0.113.0/24 --allow 2001:db8::/64 --allow machine.test:8000,machine6.test:8000"
    result = inside(lab, options, machine | neighbour)

    assert result.said == {**dict.fromkeys(machine, "reset"), **dict.fromkeys(neighbour, "SSH-2.0-laboratory")}
    assert arrived(lab) == {"allowed.test 22": 2}
