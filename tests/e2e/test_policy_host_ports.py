"""Ports of the host: those that an entry names, by its name and on the sandbox's own localhost, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.legs import arrived, curl, inside, look_up, needs_sinks, outside, run, tcp

if TYPE_CHECKING:
    from tests.e2e.lab import Lab

pytestmark = needs_sinks

CANARY = "host canary"
HOST = "host.aisb.internal"
WAYS = {"by name": (HOST, ""), "on localhost": ("localhost", ""), "v4": ("127.0.0.1", ""), "v6": ("::1", "")}
BY_HAND = {"by proxy": (HOST, "proxy"), "by socket": (HOST, "socket"), "localhost by socket": ("localhost", "socket")}


def test_a_port_of_the_host_is_reached_and_its_neighbour_is_not(lab: Lab) -> None:
    """By name and on the own localhost, v4 and v6, through the proxy too; where the host listens on ::1 alone as well."""
    reached = {
        f"{port}, {way}": tcp(host, port, "", via)
        for port in (11434, 8000)
        for way, (host, via) in (WAYS | BY_HAND).items()
    }
    next_to_it = {
        f"{port}, {way}": tcp(host, port, "", via)
        for port in (5432, 6379)
        for way, (host, via) in (WAYS | BY_HAND).items()
    }
    nobody = {f"9, {way}": tcp(host, 9, "", via) for way, (host, via) in (WAYS | BY_HAND).items()}
    addresses = {f"{host} 8000": tcp(host, 8000) for host in ("203.0.113.2", "2001:db8::2", "10.0.2.2", "169.254.1.2")}
    own = {
        "own": curl("https://allowed.test/", bare=True),
        "its name": look_up(HOST),
        "a port of its own": run(
            "sh",
            "-c",
            "python3 -m http.server 5432 --bind 127.0.0.1 >/dev/null 2>&1 & n=0; until curl -so /dev/null http://localhost:5432/; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.05; done; kill $!; echo served",
        ),
    }
    on_the_host = {
        f"{port}": tcp(host, port)
        for port, host in ((11434, "127.0.0.1"), (8000, "::1"), (5432, "127.0.0.1"), (6379, "127.0.0.1"))
    }

    assert outside(lab, on_the_host) == dict.fromkeys(on_the_host, CANARY)
    result = inside(
        lab, "--allow allowed.test,host:11434,host:8000,host:9", reached | next_to_it | nobody | addresses | own
    )

    assert result.said == {
        **dict.fromkeys(reached, CANARY),
        **dict.fromkeys(next_to_it, "refused"),
        **{f"{port}, by name": "reset" for port in (5432, 6379)},
        **{f"{port}, {way}": "403 not-listed" for port in (5432, 6379) for way in BY_HAND},
        **dict.fromkeys(nobody, "reset"),
        **{f"9, {way}": "502" for way in BY_HAND},
        **dict.fromkeys(addresses, "reset"),
        "own": "hello from allowed.test",
        "its name": "v4",
        "a port of its own": "served",
    }
    assert {site: count for site, count in arrived(lab).items() if site.startswith("host")} == {
        "host 11434": 7,
        "host 8000": 7,
    }
    allowed = [
        (item["host"], item["port"], item["rule"], item.get("failed", ""))
        for item in result.audit
        if item["decision"] == "allow" and item["port"] not in (80, 443)
    ]
    assert set(allowed) == {
        (HOST, 11434, "host:11434", ""),
        ("localhost", 11434, "host:11434", ""),
        (HOST, 8000, "host:8000", ""),
        ("localhost", 8000, "host:8000", ""),
        (HOST, 9, "host:9", "unanswered"),
        ("localhost", 9, "host:9", "unanswered"),
    }
    assert (
        f"aisb: denied {HOST}:5432: no entry of the policy covers this host; to allow it, add: --allow host:5432"
        in result.errors.replace(" (3 times)", "")
    )


SERVE = """
import http.server, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        size = int(self.path[1:])
        self.send_response(200); self.send_header("Content-Length", str(size)); self.end_headers()
        for _ in range(size // 65536): self.wfile.write(b"x" * 65536)
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left: left -= len(self.rfile.read(min(left, 65536)))
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 18080), Page).serve_forever()
"""


def test_what_passes_is_passed_whole(lab: Lab) -> None:
    """Large both ways, many at once; a program with its proxy variables needs no setting for it."""
    command = (
        "curl -s http://localhost:18080/67108864 | wc -c; head -c 33554432 /dev/zero | curl -s --data-binary @- http://host.aisb.internal:18080/; "
        "for n in $(seq 40); do curl -s http://localhost:18080/65536 & done | wc -c; wait"
    )
    result = lab.run(
        f"python3 -c '{SERVE}' & server=$!; until curl -so /dev/null http://127.0.0.1:18080/0; do sleep 0.05; done; "
        f"aisb -q --allow host:18080 -- sh -c '{command}'; kill $server"
    )

    assert result.text == "67108864\nok2621440\n", result.errors


def test_the_way_to_the_host_ends_with_aisb(lab: Lab) -> None:
    """Also by kill -9; and no run has the door of another, with the same gate."""
    leads = (
        'python3 -c \'import signal, socket; s = socket.create_connection(("127.0.0.1", 11434)); '
        'print(s.recv(9), flush=True); open("here", "w"); signal.pause()\''
    )
    # The hosts share one table of processes.
    port = 45871 if lab.name == "debian13" else 45872
    forwarders = f"pgrep -ax sandbox-ports | grep -c ' 11434 {port}$'"
    result = lab.run(
        f"aisb -q --allow host:11434,host:{port} -- {leads} & run=$!; until [ -e here ]; do sleep 0.05; done; {forwarders}; "
        "id=$(podman ps --filter name=aisb-run- --format '{{.Names}}'); doors=$(echo $XDG_RUNTIME_DIR/aisb/g/*/r/${id#aisb-run-}/h); stat -c %a $doors $doors/*; kill -9 $run; wait $run; "
        f"n=0; while {forwarders} >/dev/null && [ $n -lt 200 ]; do n=$((n+1)); sleep 0.05; done; {forwarders}; "
        f'aisb -q --allow host:11434,host:{port} -- sh -c \'ls -A /run/aisb /run/aisb/gate | tr "\\n" " "\''
    )

    *said, listing = result.text.splitlines()
    assert sorted(said) == sorted(["1", "700", "600", "600", "b'host cana'", "0"]), result.errors
    assert (" h " in f" {listing} ", "gate.sock" in listing) == (False, True)
