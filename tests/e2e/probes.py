"""
What the network tests try, on a host and in a sandbox: sent there whole, followed by a call of `main`.

Standard library only. Each probe is a function that says in one line what came of it; nothing here judges.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import struct
import subprocess
import time
from typing import Any

# Longer than any refusal may take: whoever is not answered until then is left hanging.
SECONDS = 5.0
GATE_SOCKET = "/run/aisb/gate/gate.sock"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY")

_UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM}
_TLS_RECORDS = {0x15: "alert", 0x16: "TLS"}
_CURL_CUT = {7, 35, 52, 55, 56, 97}
_CURL_NO_NAME = 6
_DNS_CODES = {0: "no answer", 2: "SERVFAIL", 3: "NXDOMAIN"}


class Refused(Exception):
    """The way through a proxy was refused; the text is status and reason."""


def curl(*arguments: str) -> str:
    """What curl printed, without the newline; why it printed nothing."""
    done = _run(("curl", "--silent", "--show-error", "--max-time", str(SECONDS), *arguments))
    if done.returncode == 0:
        return _short(done.stdout.decode(errors="replace").strip())
    if b"response 403" in done.stderr:
        return "403"
    if done.returncode in _CURL_CUT:
        return "cut"
    return "no such name" if done.returncode == _CURL_NO_NAME else f"curl {done.returncode}"


def _short(text: str) -> str:
    """The page of a refusal as status and reason, every other text whole."""
    lines = text.splitlines()
    reasons = [line.split(" ")[1] for line in lines if line.startswith("reason: ")]
    return f"{lines[0][:3]} {reasons[0]}" if reasons else text


def run(*argv: str) -> str:
    """What a program printed, or its exit status."""
    done = _run(argv)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else f"exit {done.returncode}"


def _run(argv: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20 * SECONDS, check=False)


def tcp(host: str, port: int, say: str = "", via: str = "") -> str:
    """The first line that a server says, after `say` has been sent to it."""
    with _dial(host, port, via) as connection:
        if say:
            connection.sendall(say.encode("latin-1"))
        return _first_line(connection)


def wait(host: str, port: int, seconds: float) -> str:
    """What happens to a client that connects and says nothing."""
    with _dial(host, port, "") as connection:
        connection.settimeout(seconds)
        return _first_line(connection)


def tls(host: str, port: int, name: str | None, via: str = "") -> str:
    """What answers a TLS hello with `name` as it stands, or without any: "TLS", or "alert"."""
    with _dial(host, port, via) as connection:
        connection.sendall(_client_hello(None if name is None else name.encode("latin-1")))
        data = connection.recv(1)
        return _TLS_RECORDS.get(data[0], f"byte {data[0]}") if data else "closed"


def udp(host: str, port: int, say: str = "probe") -> str:
    """What came back for a datagram, or that it went off into silence."""
    with socket.socket(_family_of(host), socket.SOCK_DGRAM) as sender:
        sender.settimeout(0.2)
        sender.connect((host, port))
        sender.send(say.encode("latin-1"))
        with contextlib.suppress(TimeoutError):
            return f"{len(sender.recv(4096))} bytes"
        return "sent"


def ask(server: str, name: str, kind: str = "A", over: str = "udp") -> str:
    """What a name server answers: addresses, or the code of its refusal."""
    number = {"A": 1, "AAAA": 28, "TXT": 16, "PTR": 12}[kind]
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", number, 1)
    with socket.socket(_family_of(server), socket.SOCK_STREAM if over == "tcp" else socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        client.connect((server, 53))
        if over == "tcp":
            client.sendall(struct.pack("!H", len(question)) + question)
            client.recv(2)
        else:
            client.send(question)
        reply = client.recv(4096)
    code, answers = struct.unpack_from("!H", reply, 2)[0] & 15, struct.unpack_from("!H", reply, 6)[0]
    if not answers:
        return _DNS_CODES.get(code, f"code {code}")
    made_up = kind == "A" and reply[-4:-2] in {b"\xc6\x12", b"\xc6\x13"}
    return "made up" if made_up else f"{answers} answers" if answers > 1 else "1 answer"


def look_up(name: str) -> str:
    """The families of the addresses that the system's resolver finds."""
    done = _run(("getent", "ahosts", name))
    addresses = done.stdout.decode().split("\n")
    families = {"v6" if ":" in line.split()[0] else "v4" for line in addresses if line}
    return " ".join(sorted(families)) or "no such name"


def speak(family: str, kind: str, protocol: int, host: str, port: int) -> str:
    """What a socket of any kind gets for a few bytes, if the kernel gives one out at all."""
    with socket.socket(getattr(socket, family), getattr(socket, kind), protocol) as connection:
        connection.settimeout(SECONDS if kind == "SOCK_STREAM" else 0.2)
        connection.connect((host, port))
        connection.send(b"probe")
        return connection.recv(200).decode("latin-1").strip() or "closed"


def write(path: str) -> str:
    """Whether a file can be written."""
    with open(path, "a", encoding="utf-8") as file:
        file.write("nameserver 203.0.113.53\n")
    return "written"


def _dial(host: str, port: int, via: str) -> socket.socket:
    proxy = os.environ.get("https_proxy", "")
    if via == "proxy" and proxy:
        address, _, number = proxy.rpartition("//")[2].rpartition(":")
        return _tunnel(socket.create_connection((address, int(number)), SECONDS), host, port)
    if via == "socket" and os.path.exists(GATE_SOCKET):
        gate = socket.socket(socket.AF_UNIX)
        gate.settimeout(SECONDS)
        gate.connect(GATE_SOCKET)
        return _tunnel(gate, host, port)
    return socket.create_connection((host, port), SECONDS)


def _tunnel(connection: socket.socket, host: str, port: int) -> socket.socket:
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(1)
        if not data:
            connection.close()
            raise Refused("closed")
        head += data
    line = head.partition(b"\r\n")[0].decode("latin-1")
    if not line.startswith("HTTP/1.1 200"):
        connection.close()
        raise Refused(_status_of(line))
    return connection


def _first_line(connection: socket.socket) -> str:
    data = b""
    while b"\n" not in data and len(data) < 200:
        piece = connection.recv(200)
        if not piece:
            break
        data += piece
    line = data.decode("latin-1").partition("\n")[0].strip()
    return (_status_of(line) if line.startswith("HTTP/1.1 403 ") else line) or "closed"


def _status_of(line: str) -> str:
    """HTTP/1.1 403 Access denied by egress policy: REASON HOST:PORT as status and reason; squid's own has none."""
    status = line.partition(" ")[2]
    return f"{status[:3]} {status.partition(': ')[2].partition(' ')[0]}".strip()


def _family_of(host: str) -> socket.AddressFamily:
    return socket.getaddrinfo(host, None)[0][0]


def _client_hello(name: bytes | None) -> bytes:
    def sized(data: bytes) -> bytes:
        return struct.pack("!H", len(data)) + data

    groups = struct.pack("!HH", 0x1D, 0x17)
    signatures = struct.pack("!7H", 0x403, 0x804, 0x401, 0x503, 0x805, 0x501, 0x806)
    extensions = b"" if name is None else struct.pack("!H", 0) + sized(sized(b"\0" + sized(name)))
    extensions += struct.pack("!H", 10) + sized(sized(groups)) + struct.pack("!H", 11) + sized(b"\x01\0")
    extensions += struct.pack("!H", 13) + sized(sized(signatures))
    ciphers = struct.pack("!6H", 0xC02F, 0xC030, 0xC02B, 0xC02C, 0xCCA8, 0xCCA9)
    body = b"\x03\x03" + os.urandom(32) + b"\0" + sized(ciphers) + b"\x01\0" + sized(extensions)
    handshake = b"\x01" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\x03\x01" + sized(handshake)


def outcome(kind: str, arguments: list[Any]) -> str:
    """What came of a probe, whatever it was."""
    try:
        return str(globals()[kind](*arguments))
    except Refused as status:
        return str(status)
    except TimeoutError:
        return "silence"
    except socket.gaierror:
        return "no such name"
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    except ConnectionRefusedError:
        return "refused"
    except OSError as error:
        return "unreachable" if error.errno in _UNREACHABLE else error.strerror or str(error)


def main(probes: dict[str, dict[str, Any]]) -> None:
    """Run the probes one after the other, and print outcome and seconds of each."""
    given = dict(os.environ)
    bare = {name: value for name, value in given.items() if name not in PROXY_VARIABLES}
    told = {}
    for name, probe in probes.items():
        os.environ.clear()
        os.environ.update((bare if probe["bare"] else given) | probe["env"])
        started = time.monotonic()
        text = outcome(probe["kind"], probe["arguments"])
        told[name] = text, time.monotonic() - started
    print(json.dumps(told), flush=True)
