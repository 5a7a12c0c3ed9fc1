"""
The client of the bench: does what it is told on its standard input, a JSON object a line, and says what it measured.

The same program runs in a sandbox, and in a container that has the host's network. It needs nothing but the standard
library, and checks no certificates: whoever opens TLS on the way has an authority of its own.
"""

from __future__ import annotations

import json
import math
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60.0
END = b"\r\n\r\nok"
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_TLS.check_hostname = False
_TLS.verify_mode = ssl.CERT_NONE


def request(job: dict[str, Any], number: int = 0) -> bytes:
    """A request of this job. Each is another, where the path has a place for its number."""
    path = job["path"].replace("NUMBER", str(number))
    more = f"Authorization: Bearer {os.environ.get(job['secret'], 'none')}\r\n" if "secret" in job else ""
    return f"GET {path} HTTP/1.1\r\nHost: {job['name']}\r\nUser-Agent: bench\r\n{more}\r\n".encode()


def dial(job: dict[str, Any], way: str) -> socket.socket:
    """A connection to the job's port, 443 unless it says so: by a proxy at `way`, by the gate's socket, or straight there."""
    wanted = job.get("port", 443)
    if way.startswith("/"):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(SECONDS)
        plain.connect(way)
    else:
        host, _, port = way.partition(":")
        plain = socket.create_connection((host, int(port or wanted)), timeout=SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not port:
            return plain
    target = f"{job['name']}:{wanted}"
    plain.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = plain.recv(4096)
        if not piece:
            raise ConnectionError("the proxy has closed")
        head += piece
    if head.split(b" ", 2)[1] != b"200":
        raise ConnectionError(head.decode("latin-1"))
    return plain


def connect(job: dict[str, Any]) -> ssl.SSLSocket:
    """TLS to the job's host, by its way; by the name where that is ""."""
    return _TLS.wrap_socket(dial(job, job["way"] or address(job)), server_hostname=job["name"])


def hear(secure: ssl.SSLSocket) -> None:
    """One whole answer. Raises where it is another than that of the rules."""
    answer = b""
    while not answer.endswith(END):
        piece = secure.recv(65536)
        answer += piece
        if not piece or not answer.startswith(b"HTTP/1.1 200 "[: len(answer)]):
            raise ConnectionError(answer.decode("latin-1"))


def rates(count: int, seconds: float, times: list[float]) -> dict[str, float]:
    """Requests a second, and the milliseconds within which half of them and 99 in a hundred were answered."""
    ordered = sorted(times)
    p50, p99 = (1000 * ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.99))
    return {"rate": count / seconds, "p50": p50, "p99": p99}


def kept(job: dict[str, Any]) -> dict[str, float]:
    """The rates of connections that are kept, each asked anew as soon as it has answered."""
    poll = select.epoll()
    clients = [connect(job) for _ in range(job["connections"])]
    buffers = {}
    by_number = {client.fileno(): client for client in clients}
    for number, client in by_number.items():
        client.sendall(request(job))
        hear(client)
        client.setblocking(False)
        buffers[number] = b""
        poll.register(number, select.EPOLLIN)
        client.send(request(job))
    times = []
    began = time.monotonic()
    asked = dict.fromkeys(by_number, began)
    end = began + job["seconds"]
    while (now := time.monotonic()) < end:
        for number, _ in poll.poll(1):
            client = by_number[number]
            try:
                while True:
                    piece = client.recv(65536)
                    buffers[number] += piece
                    if not piece or not buffers[number].startswith(b"HTTP/1.1 200 "[: len(buffers[number])]):
                        raise ConnectionError(buffers[number].decode("latin-1"))
                    if buffers[number].endswith(END):
                        answered = time.monotonic()
                        times.append(answered - asked[number])
                        asked[number] = answered
                        buffers[number] = b""
                        client.send(request(job, len(times)))
            except ssl.SSLWantReadError:
                continue
    for client in clients:
        client.close()
    return rates(len(times), now - began, times)


def new(job: dict[str, Any]) -> dict[str, float]:
    """The rates of requests, each on a connection of its own, a few at a time."""
    times: list[float] = []

    def ask(number: int) -> None:
        words = request(job, number)
        asked = time.monotonic()
        with connect(job) as secure:
            secure.sendall(words)
            hear(secure)
            times.append(time.monotonic() - asked)

    return rates(job["count"], a_few_at_a_time(job, ask), times)


def a_few_at_a_time(job: dict[str, Any], ask: Callable[[int], None]) -> float:
    """Call `ask` with each number below the job's count, so many side by side; how many seconds all took."""
    left = list(range(job["count"]))
    faults: list[Exception] = []

    def work() -> None:
        while left and not faults:
            try:
                ask(left.pop())
            except IndexError:
                return
            except OSError as error:
                faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(job["connections"])]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return time.monotonic() - began


def bulk(job: dict[str, Any]) -> float:
    """Megabytes a second of one download."""
    buffer = bytearray(1 << 18)
    with connect(job) as secure:
        secure.sendall(request(job))
        began = time.monotonic()
        count = 0
        while count < job["bytes"]:
            got = secure.recv_into(buffer)
            if not got:
                raise ConnectionError(f"it ended after {count} bytes")
            count += got
        return count / 1e6 / (time.monotonic() - began)


def latency(job: dict[str, Any]) -> dict[str, list[float]]:
    """Milliseconds until a new connection has its first answer, by each of the ways in turn. "" is by the name."""
    words = request(job)
    times: dict[str, list[float]] = {way: [] for way in job["ways"]}
    for _ in range(job["count"]):
        for way, found in times.items():
            began = time.monotonic()
            with _TLS.wrap_socket(dial(job, way or address(job)), server_hostname=job["name"]) as secure:
                secure.sendall(words)
                hear(secure)
                found.append(1000 * (time.monotonic() - began))
    return times


def verdicts(job: dict[str, Any]) -> dict[str, list[float]]:
    """Milliseconds until a proxy has said of a name that is allowed, and of one that is not, what it thinks of it."""
    times: dict[str, list[float]] = {"allowed": [], "denied": []}
    for _ in range(job["count"]):
        for kind, found in times.items():
            began = time.monotonic()
            try:
                dial({"name": job[kind]}, job["way"]).close()
                is_allowed = True
            except ConnectionError:
                is_allowed = False
            found.append(1000 * (time.monotonic() - began))
            if is_allowed != (kind == "allowed"):
                raise ConnectionError(f"{job[kind]} is not {kind}")
    return times


def address(job: dict[str, Any]) -> str:
    """What the job's name stands for here."""
    return socket.gethostbyname(job["name"])


def churn(job: dict[str, Any]) -> None:
    """
    So many connections one after the other, a byte to and fro on each, by the ways in turn.

    No more than `a_second`: of a run that is faster the gate soon has as many at once as it takes.
    """
    ways = [way or address(job) for way in job["ways"]]
    began = time.monotonic()

    def ask(number: int) -> None:
        # They are asked for from the last number down.
        due = began + (job["count"] - number) / job["a_second"]
        time.sleep(max(0.0, due - time.monotonic()))
        with dial(job, ways[number % len(ways)]) as plain:
            plain.sendall(b"x")
            if plain.recv(1) != b"x":
                raise ConnectionError("nothing comes back")

    a_few_at_a_time(job, ask)


def timed(job: dict[str, Any]) -> float:
    """Seconds that a command takes, after others that do not count."""
    environment = os.environ | job.get("environment", {})
    for argv in job.get("before", ()):
        subprocess.run(argv, check=True, cwd=job["directory"], stdout=subprocess.DEVNULL)
    began = time.monotonic()
    done = subprocess.run(
        job["argv"], check=False, cwd=job["directory"], env=environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    took = time.monotonic() - began
    if done.returncode:
        raise OSError(f"{job['argv']} exited {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return took


def hello(_job: dict[str, Any]) -> str:
    """That the client is here."""
    return "hello"


def many(job: dict[str, Any]) -> int:
    """How many of so many connections that are open at once have an answer."""
    clients: list[ssl.SSLSocket] = []
    threads = [threading.Thread(target=lambda: clients.append(connect(job))) for _ in range(job["connections"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.sendall(request(job))
    for client in clients:
        hear(client)
    return len(clients)


def answered(name: str, way: str, quiet: int) -> None:
    """An answer that has begun goes on after a silence."""
    with connect({"name": name, "way": way or socket.gethostbyname(name)}) as secure:
        secure.settimeout(quiet + SECONDS)
        secure.sendall(request({"name": name, "path": f"/stream/{quiet}"}))
        answer = b""
        while END not in answer:
            piece = secure.recv(65536)
            answer += piece
            if not piece:
                raise ConnectionError(answer.decode("latin-1"))


def asked(name: str, way: str, quiet: int) -> None:
    """A question after a silence is heard."""
    with connect({"name": name, "way": way}) as secure:
        time.sleep(quiet)
        secure.sendall(request({"name": name, "path": "/"}))
        hear(secure)


def echoed(name: str, quiet: int) -> None:
    """Bytes that are no HTTP go on after a silence."""
    with socket.create_connection((name, 5432), timeout=SECONDS) as plain:
        plain.sendall(b"before")
        if plain.recv(100) != b"before":
            raise ConnectionError("nothing comes back")
        time.sleep(quiet)
        plain.sendall(b"after")
        if plain.recv(100) != b"after":
            raise ConnectionError("nothing comes back any more")


def silence(job: dict[str, Any]) -> dict[str, str]:
    """What becomes of streams of every kind on which nothing is said for so many seconds: "" where all is well."""
    passed, ruled, way, quiet = job["passed"], job["ruled"], job["way"], job["seconds"]
    kinds = {
        "an answer passed on unread, by the proxy": lambda: answered(passed, way, quiet),
        "an answer passed on unread, by the name": lambda: answered(passed, "", quiet),
        "an answer of a host with rules, by the proxy": lambda: answered(ruled, way, quiet),
        "an answer of a host with rules, by the name": lambda: answered(ruled, "", quiet),
        "a question passed on unread, after it": lambda: asked(passed, way, quiet),
        "bytes that are no HTTP": lambda: echoed(passed, quiet),
    }
    found = {}

    def one(kind: str) -> None:
        try:
            kinds[kind]()
            found[kind] = ""
        except OSError as error:
            found[kind] = f"{type(error).__name__}: {error}"[:200]

    threads = [threading.Thread(target=one, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def first_byte(job: dict[str, Any]) -> list[float]:
    """Milliseconds until the first bytes of a streamed answer are here, and until the last ones are."""
    with connect(job) as secure:
        began = time.monotonic()
        secure.sendall(request(job))
        answer = b""
        found = []
        for mark in (b"first", END):
            while mark not in answer:
                piece = secure.recv(65536)
                if not piece:
                    raise ConnectionError(answer.decode("latin-1"))
                answer += piece
            found.append(1000 * (time.monotonic() - began))
        return found


def main() -> None:
    """Do what comes, until nothing comes any more."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            print(json.dumps({"found": globals()[job["do"]](job)}), flush=True)
        except (OSError, ValueError, KeyError) as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}), flush=True)


if __name__ == "__main__":
    main()
