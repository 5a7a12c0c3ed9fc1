"""
Run in namespaces of its own: `load.py CONNECTIONS`. Starts the relay as a sandbox does, behind the real
ruleset, puts it through many connections of all kinds, and prints as JSON what it held before and after.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from aisb.render.sandbox import ruleset  # noqa: E402  # found by the path above
from gate import dns  # noqa: E402  # found by the path above
from tests.tools.fake_bridge import FakeBridge  # noqa: E402  # found by the path above
from tests.tools.packets import ip, local_routes  # noqa: E402  # found by the path above

GATE = "/run/aisb/gate"
START = f'import sys; sys.path.insert(0, "{ROOT}"); from gate.relay import main; main()'
BULK_BYTES = 1 << 28
PIECE = b"x" * 65536


def serve(client: socket.socket, host: str) -> None:
    """Say what was meant; on port 9 take in all that comes, and say how much it was."""
    if not host.endswith(":9"):
        client.sendall(client.recv(100))
        return
    count = 0
    while data := client.recv(1 << 18):
        count += len(data)
    client.sendall(b"%d" % count)


def start_relay() -> int:
    """Start the relay; when its first process ends it is ready. The id of the one that stays."""
    subprocess.run(["/usr/bin/python3", "-I", "-S", "-c", START], check=True)
    found = subprocess.run(["pgrep", "-f", "from gate.relay"], capture_output=True, check=True)
    return int(found.stdout.split()[0])


def held(process: int) -> dict[str, int]:
    """How many descriptors a process has, its share of memory, and the part of it that no file is behind."""
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
        memory = dict(line.split(":", 1) for line in file if ":" in line)
    return {
        "descriptors": len(os.listdir(f"/proc/{process}/fd")),
        "pss_kb": int(memory["Pss"].split()[0]),
        "anonymous_kb": int(memory["Pss_Anon"].split()[0]),
    }


def held_when_idle(process: int, descriptors: int) -> dict[str, int]:
    """What is held when the last connections are gone, or after a while if they do not go."""
    deadline = time.monotonic() + 10
    while held(process)["descriptors"] > descriptors and time.monotonic() < deadline:
        time.sleep(0.05)
    return held(process)


def resolve(name: str) -> str:
    """The address of a name, from the relay."""
    question = dns.ask(1, name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.connect(("198.18.0.1", 53))
        client.send(question)
        address = dns.address_in(client.recv(512), question)
    assert address is not None
    return socket.inet_ntoa(address)


def talk(address: tuple[str, int], words: bytes) -> bytes:
    """Say something, hear the answer."""
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(words)
        return client.recv(1000)


def one_of_each(allowed: str, index: int) -> bool:
    """One connection, of another kind each time; whether it ended as it had to."""
    kind = index % 6
    if kind < 2:
        return talk((allowed, 443), b"hello") == b"hello"
    if kind == 2:
        return b" 403 " in talk(("203.0.113.11", 80), b"GET / HTTP/1.1\r\n\r\n")
    if kind == 3:
        return talk(("127.0.0.1", 3128), b"GET http://allowed.test/ HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    if kind == 4:
        socket.create_connection((allowed, 443), timeout=10).close()
        return True
    try:
        talk(("203.0.113.11", 443), b"")
    except ConnectionResetError:
        return True
    return False


def bulk(allowed: str) -> float:
    """Megabytes a second through the relay."""
    began = time.monotonic()
    with socket.create_connection((allowed, 9), timeout=60) as client:
        for _ in range(BULK_BYTES // len(PIECE)):
            client.sendall(PIECE)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"%d" % BULK_BYTES
    return BULK_BYTES / 1e6 / (time.monotonic() - began)


def main() -> None:
    """See the module."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    os.makedirs(GATE)
    ip("link set lo up")
    local_routes()
    subprocess.run(["nft", "-f", "-"], input=ruleset("allow").encode(), check=True)
    bridge = FakeBridge(f"{GATE}/gate.sock", frozenset({"allowed.test"}), serve)
    threading.Thread(target=bridge.run, daemon=True).start()
    relay = start_relay()
    allowed = resolve("allowed.test")
    idle = held(relay)["descriptors"]
    failed = sum(not one_of_each(allowed, index) for index in range(100))
    before = held_when_idle(relay, idle)
    count = int(sys.argv[1])
    began = time.monotonic()
    failed += sum(not one_of_each(allowed, index) for index in range(count))
    seconds = time.monotonic() - began
    together = [socket.create_connection((allowed, 443), timeout=10) for _ in range(400)]
    for client in together:
        client.sendall(b"all at once")
    answered = sum(client.recv(100) == b"all at once" for client in together)
    most = held(relay)
    for client in together:
        client.close()
    speed = bulk(allowed)
    print(
        json.dumps(
            {
                "failed": failed,
                "answered": answered,
                "before": before,
                "most": most,
                "after": held_when_idle(relay, idle),
                "a_second": round(count / seconds),
                "mb_a_second": round(speed),
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
