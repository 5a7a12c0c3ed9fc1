"""
A gate behind a proxy, with a second squid as the proxy: everything goes through it, and nothing past it (B49).

The servers write down from where they were reached, and the proxy what it was asked and what it was told to log in with.
"""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from aisb.domain.entries import parse_entry
from aisb.domain.live import live_entry
from aisb.domain.upstream import encoded_login, parse_upstream
from aisb.render.gate_upstream import WayOut
from tests.tools.gate_box import GateBox, World, allowing, wait_for
from tests.tools.gate_client import connect, connected, get, get_and_close, https, listen, say, through_tunnel, tunnel
from tests.tools.upstream import ADDRESS, ADDRESS6, PORT, PRIVATE, TLS_PORT, Proxy, place_in

if TYPE_CHECKING:
    from collections.abc import Iterator

GATE, GATE6 = "203.0.113.2", "2001:db8::2"
# A password of every kind of byte that may be in one, as long as it may be.
LOGIN = "user:p%20a\"ss'w#o$(r)d `\\{x}é " + "z" * 96
ENTRIES = (
    "allowed.test",
    "allowed.test:22",
    "allowed.test:5432",
    "10.0.0.5:5432",
    "203.0.113.11:8080",
    "inner.test",
    "nowhere.test",
)
RULES = ("GET evil.test/pub/**",)
ZONE = {
    "allowed.test": ["203.0.113.10", "2001:db8::10"],
    "evil.test": ["203.0.113.11"],
    "inner.test": ["10.0.0.5"],
}


class Case(NamedTuple):
    """How the gate speaks to the proxy, and whether it has to log in."""

    scheme: str
    login: str

    @property
    def port(self) -> int:
        """Where the proxy listens for that."""
        return TLS_PORT if self.scheme == "https" else PORT

    @property
    def rules(self) -> tuple[str, ...]:
        """Entries whose requests are read: not behind TLS."""
        return RULES if self.scheme == "http" else ()

    def way_out(self, *addresses: str, host: str = "proxy.test") -> WayOut:
        """The proxy as a gate knows it."""
        upstream = parse_upstream(f"{self.scheme}://{host}:{self.port}", "--proxy")
        return WayOut(upstream, addresses, bool(self.login), own_roots=self.scheme == "https")

    def gate(self, world: World, system: str, way_out: WayOut, **how: Any) -> GateBox:
        """A gate behind it."""
        login = encoded_login(self.login.encode(), "") if self.login else ""
        policy = allowing(*ENTRIES, *self.rules)
        return GateBox(world, policy, system=system, way_out=way_out, login=login, **how)


HTTP, TLS = Case("http", ""), Case("https", "")
CASES = {"http": HTTP, "https": TLS, "http-login": Case("http", LOGIN), "https-login": Case("https", LOGIN)}
ANY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def world(system: str) -> Iterator[World]:
    """A network in which a gate would reach everything by itself, were it let."""
    with World() as world:
        world.answer(ZONE)
        assert world.reaches("203.0.113.10", 443)
        assert world.reaches("203.0.113.10", 22)
        yield world


def sources(world: World) -> set[str]:
    """From where anything has reached a server, the name server too."""
    return {line["source"] for line in world.seen() if "source" in line}


def asked_of(proxy: Proxy) -> set[tuple[str, str]]:
    """What the proxy was asked for. squid tries once, at its start, whether it is there."""
    assert {asked.source for asked in proxy.asked()} <= {GATE, GATE6, "10.0.0.2"}
    return {(asked.method, asked.what) for asked in proxy.asked() if asked.method != "-"}


def first_line(path: str, authority: str, words: bytes = b"") -> bytes:
    """What comes back first in a tunnel. Of one who speaks first it may have come with the answer to the CONNECT."""
    with connected(path) as client:
        answer = tunnel(client, authority)
        assert answer.status == 200, answer
        client.sendall(words)
        came = answer.data.partition(b"\r\n\r\n")[2]
        return came if came.endswith(b"\n") else came + listen(client, until=b"\n").data


def failed(gate: GateBox, lines: int) -> list[tuple[object, ...]]:
    wait_for(lambda: len(gate.audit()) >= lines, f"{lines} lines in the record")
    return [(line["host"], line["port"], line.get("failed", "")) for line in gate.audit()]


@ANY_CASE
def test_everything_goes_through_the_proxy(world: World, system: str, case: Case) -> None:
    """HTTP, TLS, SSH, a client without a server name, a name with a private address, an address: nothing goes past it."""
    with Proxy(place_in(world), case.login) as proxy, case.gate(world, system, case.way_out(ADDRESS)) as gate:
        assert gate.ready == "ready", gate.log()
        path = gate.open()
        world.forget()

        assert say(path, get_and_close("http://allowed.test/x")).data.endswith(b"hello from 203.0.113.10\n")
        assert https(path, "allowed.test:443", "allowed.test").status == 200
        assert first_line(path, "allowed.test:22") == b"SSH-2.0-fake\r\n"
        assert first_line(path, "allowed.test:5432", b"no name\n") == b"no name\n"
        assert first_line(path, "10.0.0.5:5432", b"address\n") == b"address\n"
        # The proxy resolves it: where it leads is for the proxy to judge.
        assert say(path, get_and_close("http://inner.test/")).data.endswith(b"hello from 10.0.0.5\n")
        read = [https(path, "evil.test:443", "evil.test", f"/{where}/a").status for where in ("pub", "other")]
        assert read == ([200, 403] if case.rules else [403, 403])

        proxy.wait_for(6 + len(case.rules))
        assert asked_of(proxy) == {
            ("GET", "http://allowed.test/x"),
            ("CONNECT", "allowed.test:443"),
            ("CONNECT", "allowed.test:22"),
            ("CONNECT", "allowed.test:5432"),
            ("CONNECT", "10.0.0.5:5432"),
            ("GET", "http://inner.test/"),
            *([("CONNECT", "evil.test:443")] if case.rules else []),
        }
        assert len(world.seen()) > 6
        assert sources(world).isdisjoint({GATE, GATE6})
        # Names too are looked up by the proxy alone.
        assert {name for name, _ in world.asked()} >= {"allowed.test", "inner.test"}


@ANY_CASE
def test_what_the_policy_refuses_never_gets_to_the_proxy(world: World, system: str, case: Case) -> None:
    """Names, ports, Host headers, server names, addresses: judged as in any gate, though somebody else resolves."""
    with Proxy(place_in(world), case.login) as proxy, case.gate(world, system, case.way_out(ADDRESS)) as gate:
        path = gate.open()
        world.forget()

        assert say(path, get_and_close("http://other.test/")).status == 403
        assert say(path, get_and_close("http://allowed.test/", host="evil.test")).status in (400, 403)
        assert say(path, connect("allowed.test:8080")).status == 403
        assert say(path, connect("203.0.113.10:443")).status == 403
        assert say(path, connect("127.0.0.1:3132")).status == 403
        assert say(path, connect("169.254.169.254:80")).status == 403
        for name in ("evil.test", None):
            assert https(path, "allowed.test:443", name).status == 0
        assert through_tunnel(path, "allowed.test:443", b"SSH-2.0-x\r\n", 2).data == b""
        assert https(path, "evil.test:443", "evil.test", "/other").status == 403
        # A later request of a connection whose first one passed.
        with connected(path) as client:
            client.sendall(get("http://allowed.test/first"))
            assert listen(client, until=b"203.0.113.10\n").status == 200
            client.sendall(get_and_close("http://other.test/second"))
            assert listen(client).status == 403

        wait_for(
            lambda: ("GET", "http://allowed.test/first") in asked_of(proxy), "the proxy has written down all of it"
        )
        # To read what is asked of it the gate has to open the connection to that host.
        opened = {("CONNECT", "evil.test:443")} if case.rules else set()
        assert asked_of(proxy) - opened == {("GET", "http://allowed.test/first")}
        assert world.arrived()[-1] == ("203.0.113.10", 80, "request")
        assert sources(world).isdisjoint({GATE, GATE6})


@pytest.mark.parametrize("case", [case for case in CASES.values() if case.login], ids=lambda case: case.scheme)
def test_the_password_is_told_to_the_proxy_and_to_nobody_else(world: World, system: str, case: Case) -> None:
    """Not to a server, not even inside TLS that the gate opens; in no file, no log and no list of processes."""
    secrets = {LOGIN, LOGIN.partition(":")[2], encoded_login(LOGIN.encode(), "")}
    secrets |= {base64.b64encode(secret.encode()).decode() for secret in secrets}
    with Proxy(place_in(world), case.login) as proxy, case.gate(world, system, case.way_out(ADDRESS)) as gate:
        path = gate.open()
        assert say(path, get_and_close("http://allowed.test/x")).status == 200
        assert https(path, "allowed.test:443", "allowed.test").status == 200
        assert first_line(path, "allowed.test:22") == b"SSH-2.0-fake\r\n"
        if case.rules:
            assert https(path, "evil.test:443", "evil.test", "/pub/a").status == 200
            assert say(path, get_and_close("http://evil.test/pub/b")).status == 200
        proxy.wait_for(3 + 2 * len(case.rules))
        told = [said for asked, said in zip(proxy.asked(), proxy.told(), strict=True) if asked.method != "-"]
        assert set(told) == {base64.b64encode(LOGIN.encode()).decode()}

        at_servers = str(world.seen())
        processes = "".join(_read(f"/proc/{pid}/{what}") for pid in _processes() for what in ("cmdline", "environ"))
        files = "".join(_read(f"{place}/{name}") for place, _, names in os.walk(gate.scratch) for name in names
                        if os.path.isfile(f"{place}/{name}"))  # fmt: skip
        assert "proxy-authorization" not in at_servers
        for text in (at_servers, processes, files, gate.log(), str(gate.audit())):
            assert [secret for secret in secrets if secret in text] == []
        # Where squid has it: in memory, and for squid alone.
        kept = f"/proc/{gate.processes()['squid']}/root/run/squid/peers"
        assert encoded_login(LOGIN.encode(), "") in _read(kept)
        assert (os.stat(kept).st_mode & 0o777, os.stat(kept).st_uid) == (0o600, 13)


def test_a_proxy_that_is_down_closes_everything_and_is_named(world: World, system: str) -> None:
    """No request goes another way, and each is answered at once, in words; it comes back with the proxy."""
    with Proxy(place_in(world)) as proxy, HTTP.gate(world, system, HTTP.way_out(ADDRESS)) as gate:
        path = gate.open()
        proxy.stop()
        world.forget()
        begun = time.monotonic()
        heard = say(path, get_and_close("http://allowed.test/x"))
        tunnelled = say(path, connect("allowed.test:22"))
        assert (heard.status, tunnelled.status) == (503, 503)
        assert https(path, "allowed.test:443", "allowed.test").status == 0
        assert time.monotonic() - begun < 10
        for said in (heard.data.decode(), tunnelled.data.decode()):
            assert "\nhost: allowed.test\n" in said
            assert "\nreason: the proxy proxy.test:3128, which everything goes through, does not take the" in said
        # Nobody was asked for a name either.
        assert world.seen() == []
        assert failed(gate, 3) == [("allowed.test", port, "upstream") for port in (80, 22, 443)]

        proxy.start()
        wait_for(
            lambda: say(path, get_and_close("http://allowed.test/y")).status == 200, "it comes back with the proxy"
        )
        assert sources(world).isdisjoint({GATE, GATE6})


def test_a_gate_starts_without_its_proxy(world: World, system: str) -> None:
    """Its proof asks nothing of the proxy; what a run asks is refused until there is one."""
    with HTTP.gate(world, system, HTTP.way_out(ADDRESS)) as gate:
        assert gate.ready == "ready", gate.log()
        world.forget()
        heard = say(gate.open(), get_and_close("http://allowed.test/x"))
        assert heard.status in (502, 503)
        assert b"\nreason: the proxy proxy.test:3128, which everything goes through, does not take the" in heard.data
        assert world.seen() == []


def test_a_wrong_password_is_the_proxys_refusal(world: World, system: str) -> None:
    """And nothing that a sandbox sends to log in with is passed on in its place."""
    right = b"Proxy-Authorization: Basic " + base64.b64encode(b"user:right")
    wrong = Case("http", "user:wrong")
    with Proxy(place_in(world), "user:right") as proxy, wrong.gate(world, system, wrong.way_out(ADDRESS)) as gate:
        path = gate.open()
        world.forget()
        assert say(path, get_and_close("http://allowed.test/x", right.decode())).status == 407
        assert say(path, connect("allowed.test:22")[:-2] + right + b"\r\n\r\n").status == 407
        assert https(path, "allowed.test:443", "allowed.test").status == 0
        proxy.wait_for(3)
        assert set(proxy.told()) == {"-", base64.b64encode(b"user:wrong").decode()}
        assert world.arrived() == []
        assert failed(gate, 3) == [("allowed.test", port, "upstream") for port in (80, 22, 443)]


def test_a_sandbox_logs_in_nowhere(world: World, system: str) -> None:
    """Behind a proxy for which the gate has no password a sandbox's own is not passed on."""
    with Proxy(place_in(world), "user:right") as proxy, HTTP.gate(world, system, HTTP.way_out(ADDRESS)) as gate:
        right = "Proxy-Authorization: Basic " + base64.b64encode(b"user:right").decode()
        assert say(gate.open(), get_and_close("http://allowed.test/x", right)).status == 407
        proxy.wait_for(1)
        assert set(proxy.told()) == {"-"}


@pytest.mark.parametrize(
    ("host", "replaced"),
    [
        ("proxy.other", ()),
        ("proxy.test", (("roots.pem", "-----BEGIN", "-----NOT"),)),
    ],
    ids=["another-name", "another-authority"],
)
def test_a_proxy_whose_certificate_is_not_trusted_gets_nothing(
    world: World, system: str, host: str, replaced: tuple[tuple[str, str, str], ...]
) -> None:
    """Its name and its authority count, and no password is told before."""
    case = CASES["https-login"]
    way_out = case.way_out(ADDRESS, host=host)
    if replaced:
        # Without the user's own roots the system's are all there are.
        way_out = way_out._replace(own_roots=False)
    with Proxy(place_in(world), case.login) as proxy, case.gate(world, system, way_out) as gate:
        path = gate.open()
        world.forget()
        heard = say(path, get_and_close("http://allowed.test/x"))
        assert heard.status == 503
        assert f"certificate of this host, or of the proxy {host}:{TLS_PORT}" in heard.data.decode()
        assert https(path, "allowed.test:443", "allowed.test").status == 0
        assert asked_of(proxy) == set()
        assert set(proxy.told()) <= {"-"}
        assert world.arrived() == []
        assert sources(world).isdisjoint({GATE, GATE6})


@pytest.mark.parametrize("address", [PRIVATE, ADDRESS6])
def test_the_proxy_may_be_at_any_address(world: World, system: str, address: str) -> None:
    """A private one is the user's word; the next port of it stays closed, and so does every other private address."""
    with Proxy(place_in(world)) as proxy, HTTP.gate(world, system, HTTP.way_out(address)) as gate:
        assert gate.ready == "ready", gate.log()
        assert say(gate.open(), get_and_close("http://allowed.test/x")).status == 200
        proxy.wait_for(1)
        assert asked_of(proxy) >= {("GET", "http://allowed.test/x")}


def test_one_of_two_addresses_is_enough(world: World, system: str) -> None:
    with Proxy(place_in(world)), HTTP.gate(world, system, HTTP.way_out("203.0.113.11", ADDRESS)) as gate:
        path = gate.open()
        assert [say(path, get_and_close(f"http://allowed.test/{n}")).status for n in range(3)] == [200] * 3
        with connected(path) as client:
            assert tunnel(client, "allowed.test:22").status == 200


@pytest.mark.parametrize(
    "instead",
    ["never_direct allow probe_tree", "never_direct allow probe_tree\nalways_direct allow !probe_tree"],
    ids=["not-never", "always"],
)
def test_a_squid_that_would_go_direct_cannot(world: World, system: str, instead: str) -> None:
    """The ruleset holds by itself: to the proxy's address and port, or nowhere; not even to a name server."""
    replaced = (("squid.conf", "never_direct allow all", instead),)
    with HTTP.gate(world, system, HTTP.way_out(ADDRESS), replaced=replaced) as gate:
        path = gate.open()
        world.forget()
        assert say(path, get_and_close("http://203.0.113.11:8080/x")).status == 503
        assert say(path, connect("10.0.0.5:5432")).status == 503
        # It asks for a name, and nobody answers.
        say(path, get_and_close("http://allowed.test/x"), seconds=1)
        assert world.seen() == []


def test_live_entries_go_through_the_proxy_too(world: World, system: str) -> None:
    """squid reads its lists anew and forgets neither the proxy nor the password."""
    case = CASES["http-login"]
    with Proxy(place_in(world), case.login) as proxy, case.gate(world, system, case.way_out(ADDRESS)) as gate:
        path = gate.open()
        assert say(path, get_and_close("http://v6.test/x")).status == 403
        world.answer(ZONE | {"v6.test": ["203.0.113.10"]})
        items = [live_entry("allow", parse_entry("v6.test"))._asdict()]  # type: ignore[arg-type]  # a name
        assert gate.ask({"op": "say", "run": "1a2b3c4d", "entries": items, "seconds": 0}, 40) == {"ok": True}
        assert say(path, get_and_close("http://v6.test/x")).status == 200
        wait_for(lambda: ("GET", "http://v6.test/x") in asked_of(proxy), "the proxy has written it down")
        assert sources(world).isdisjoint({GATE, GATE6})


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
