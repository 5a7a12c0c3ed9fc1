"""Ways out of a sandbox past its gate, and past what the gate has been told; each ends in a word or two."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gate import dns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Given = Mapping[str, Any]

# Longer than any refusal may take: whoever is not answered until then is left hanging, and that is no refusal.
SECONDS = 10.0
PROXY = ("127.0.0.1", 3128)
GATE = "/run/aisb/gate/gate.sock"
# The gate answers the first of these itself, no policy can allow the second.
ALLOWED = "ok.aisb.internal"
DENIED = "denied.aisb.internal"
# Addresses that belong to nobody: documentation (RFC 5737 and 3849).
NOBODY = "192.0.2.1"
NOBODY_V6 = "2001:db8:ffff::1"
RESOLVER = "192.0.2.53"
METADATA = ("169.254.169.254", "fd00:ec2::254")
# Where slirp4netns and pasta show the host.
HOST = ("10.0.2.2", "169.254.1.2")
PRIVATE = ("10.0.0.1", "100.64.0.1", "172.16.0.1", "192.168.0.1")
# 198.18.0.0/15, from which the sandbox's own resolver takes the addresses that it makes up.
MADE_UP = (b"\xc6\x12", b"\xc6\x13")
_LONGEST = 65536
_AT_ONCE = 32
_ALERT, _HANDSHAKE = 0x15, 0x16


def same(words: Iterable[str]) -> str:
    """One word where all are the same, else all that there are."""
    return ", ".join(sorted(set(words)))


def dial(address: tuple[str, int] | str) -> socket.socket:
    """A connection to an address, or to a unix socket."""
    if isinstance(address, str):
        client = socket.socket(socket.AF_UNIX)
    else:
        client = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    client.settimeout(SECONDS)
    try:
        client.connect(address)
    except OSError:
        client.close()
        raise
    return client


def word(error: OSError) -> str:
    """What an error is called here."""
    if isinstance(error, TimeoutError):
        return "silence"
    known = {errno.ECONNRESET: "reset", errno.EPIPE: "reset", errno.ECONNREFUSED: "refused"}
    return known.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "error")


def said(address: tuple[str, int] | str, *requests: bytes) -> bytes:
    """All that comes back for requests, each sent once the one before it was answered; until it hangs up."""
    with dial(address) as client:
        answer = b""
        for request in requests:
            client.sendall(request)
            piece = client.recv(_LONGEST)
            answer += piece
            if not piece:
                break
        while len(answer) < _LONGEST and (piece := client.recv(_LONGEST)):
            answer += piece
        return answer


def begun(address: tuple[str, int] | str, request: bytes) -> bytes:
    """How the answer to a request begins, whether or not it ends."""
    with dial(address) as client:
        client.sendall(request)
        return client.recv(_LONGEST)


def status(answer: bytes) -> str:
    """The number in the first line of an answer."""
    words = answer.partition(b"\r\n")[0].split(b" ")
    is_one = len(words) > 1 and words[0].startswith((b"HTTP/", b"AISB/")) and words[1].isdigit()
    return words[1].decode("ascii") if is_one else "no answer"


def get(target: str, host: str, *, more: str = "", close: bool = True) -> bytes:
    """A request."""
    end = "Connection: close\r\n" if close else ""
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}{end}\r\n".encode("ascii")


def connect(host: str, port: int) -> bytes:
    """A request for a tunnel."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("ascii")


def ways(address: tuple[str, int] | str, requests: Iterable[bytes]) -> str:
    """The statuses of requests, each over a connection of its own."""
    return same(status(said(address, request)) for request in requests)


def raw(address: str, port: int) -> str:
    """How far a connection to an address gets."""
    try:
        return status(said((address, port), b"GET / HTTP/1.0\r\n\r\n"))
    except OSError as error:
        return word(error)


def reach(addresses: Iterable[str], ports: Iterable[int]) -> str:
    """How far connections get, all tried at once: where nothing refuses them each waits for its silence."""
    places = [(address, port) for address in addresses for port in ports]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return same(pool.map(lambda place: raw(*place), places))


def hello(name: str | None) -> bytes:
    """What a client of TLS says first to a server of that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(there, here, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return here.read()
    raise ValueError("no hello")


def greeted(client: socket.socket, greeting: bytes) -> str:
    """What comes back for a hello: a server's word, or nothing."""
    try:
        client.sendall(greeting)
        first = client.recv(1)
    except OSError as error:
        return "cut" if word(error) == "reset" else word(error)
    kinds = {b"": "cut", bytes((_ALERT,)): "a server's word", bytes((_HANDSHAKE,)): "a server's word"}
    return kinds.get(first, "bytes")


def tunnel(host: str, port: int) -> socket.socket:
    """A tunnel through the gate. Raises ValueError where it is refused."""
    client = dial(PROXY)
    client.sendall(connect(host, port))
    head = b""
    while not head.endswith(b"\r\n\r\n") and (piece := client.recv(1)):
        head += piece
    if status(head) != "200":
        client.close()
        raise ValueError(status(head))
    return client


def made_up(name: str) -> str:
    """The address that the sandbox's own resolver makes up for a name."""
    return str(socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def datagram(address: str, port: int, data: bytes) -> str:
    """What comes of a datagram."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0.5)
        try:
            sender.connect((address, port))
            sender.send(data)
            sender.recv(_LONGEST)
        except OSError as error:
            return word(error)
        return "an answer"


def _raw_v4(_given: Given) -> str:
    return reach([NOBODY], (22, 80, 443, 8443))


def _raw_v6(_given: Given) -> str:
    return reach([NOBODY_V6], (22, 80, 443, 8443))


def _quic(given: Given) -> str:
    addresses = [NOBODY, *HOST, *([NOBODY_V6] if given["has_v6"] else [])]
    # The long header of a first packet, version 1.
    return same(datagram(address, port, b"\xc0\0\0\0\1" + bytes(1195)) for address in addresses for port in (443, 4433))


def _icmp(_given: Given) -> str:
    seen = []
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sender:
                sender.sendto(b"\x08\0\xf7\xff\0\0\0\0", (NOBODY, 0))
            seen.append("sent")
        except OSError as error:
            seen.append(word(error))
    return same(seen)


def _resolver_udp(_given: Given) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        client.connect((RESOLVER, 53))

        def ask(question: bytes) -> bytes:
            client.send(question)
            return client.recv(_LONGEST)

        return _answers(ask)


def _resolver_tcp(_given: Given) -> str:
    def ask(question: bytes) -> bytes:
        return begun((RESOLVER, 53), struct.pack("!H", len(question)) + question)[2:]

    return _answers(ask)


def _answers(ask: Callable[[bytes], bytes]) -> str:
    """Who answers: the name that there is for the sandbox's own resolver alone is none for any other."""
    asked = dns.ask(int.from_bytes(os.urandom(2), "big"), ALLOWED)
    address = dns.address_in(ask(asked), asked) or b""
    own = "its own resolver" if address[:2] in MADE_UP else "another resolver"
    question = dns.ask(int.from_bytes(os.urandom(2), "big"), f"{os.urandom(8).hex()}.{DENIED}")
    return f"{own}, {'no such name' if dns.is_no_such_name(ask(question), question) else 'an answer'}"


def _resolver_tls(_given: Given) -> str:
    return same((raw(RESOLVER, 853), datagram(RESOLVER, 853, b"?")))


def _metadata(given: Given) -> str:
    addresses = METADATA if given["has_v6"] else METADATA[:1]
    hosts = [f"[{address}]" if ":" in address else address for address in addresses]
    proxied = ways(PROXY, [get(f"http://{host}/latest/", host) for host in hosts])
    return same((*reach(addresses, [80]).split(", "), proxied))


def _loopback(given: Given) -> str:
    return same(raw(address, port) for address, port in given["listening"])


def _host(given: Given) -> str:
    ports = [port for _, port in given["listening"]]
    own = [address for address in given["addresses"] if given["has_v6"] or ":" not in address]
    return reach((*HOST, *own), ports)


def _abstract(given: Given) -> str:
    try:
        with dial("\0" + given["abstract"]):
            return "connected"
    except OSError as error:
        return word(error)


def _lan(_given: Given) -> str:
    return reach(PRIVATE, (22, 443))


def _name(_given: Given) -> str:
    asked = b"RESOLVE " + DENIED.encode("ascii") + b" AISB/1\r\n\r\n"
    tunnels = [connect(DENIED, port) for port in (22, 80, 443)]
    seen = [ways(address, tunnels) for address in (PROXY, GATE)]
    return same((*seen, ways(PROXY, [get(f"http://{DENIED}/", DENIED)]), status(begun(GATE, asked))))


def _connect_address(given: Given) -> str:
    addresses = [NOBODY, *([NOBODY_V6] if given["has_v6"] else [])]
    return ways(PROXY, [connect(address, port) for address in addresses for port in (22, 80, 443)])


def _connect_private(given: Given) -> str:
    ports = [port for _, port in given["listening"]]
    inner = [connect(address, port) for address in ("127.0.0.1", "::1", *HOST) for port in ports]
    return ways(PROXY, [*inner, *(connect(address, 443) for address in (*PRIVATE, *METADATA, *given["addresses"]))])


def _sni(_given: Given) -> str:
    greetings = [hello(DENIED), hello(f"x.{ALLOWED}"), hello(None), b"SSH-2.0-x\r\n"]
    seen = []
    for greeting in greetings:
        with tunnel(ALLOWED, 443) as client:
            seen.append(greeted(client, greeting))
    with dial((made_up(ALLOWED), 443)) as client:
        seen.append(greeted(client, greetings[0]))
    return same(seen)


def _host_header(given: Given) -> str:
    other = given["name"]
    plain = [get("/", DENIED), get("/", other), get(f"http://{other}/", ALLOWED), get("/", f"{ALLOWED}:22")]
    spoken = [get(f"http://{ALLOWED}/", other), get(f"http://{ALLOWED}/", DENIED)]
    return same((ways((made_up(ALLOWED), 80), plain), ways(PROXY, spoken)))


def _second(given: Given) -> str:
    """What comes of the second request of a kept connection, for another host. None is for one that squid may dial."""
    made = (made_up(ALLOWED), 80)
    first, spoken = get("/", ALLOWED, close=False), get(f"http://{ALLOWED}/", ALLOWED, close=False)
    seen = [_kept(made, first, get("/", host)) for host in (DENIED, given["name"])]
    return same((*seen, _kept(PROXY, spoken, get(f"http://{DENIED}/", DENIED))))


def _kept(address: tuple[str, int], *requests: bytes) -> str:
    """The statuses of two requests over one connection, the second one `cut` where nothing comes."""
    answer = said(address, *requests)
    begin = answer.find(b"HTTP/1.1 ", 1)
    return f"{status(answer)} {status(answer[begin:]) if begin > 0 else 'cut'}"


def _redirect(given: Given) -> str:
    """What a client asks for that was sent there: as itself, and over the connection of the host that sent it."""
    inner = [f"127.0.0.1:{port}" for _, port in given["listening"]]
    names = ("localhost", "2130706433", "0x7f.1", "host.aisb.internal")
    places = [*inner, *PRIVATE, METADATA[0], f"[{METADATA[1]}]", *names]
    followed = ways(PROXY, [get(f"http://{place}/", place) for place in places])
    kept = _kept(PROXY, get(f"http://{ALLOWED}/", ALLOWED, close=False), get(f"http://{places[0]}/", places[0]))
    return same((followed, kept))


def _pages(_given: Given) -> str:
    """squid's own pages, by each way that leads to them in some squid."""
    paths = ("/squid-internal-mgr/info", "/squid-internal-mgr/config", "/squid-internal-static/icons/x.gif")
    hosts = ("gate.aisb.internal", "127.0.0.1:3129", "localhost")
    asked = [get(f"http://{host}{path}", host) for host in hosts for path in paths]
    asked += [get(f"cache_object://{host}/info", host) for host in ("gate.aisb.internal", ALLOWED)]
    seen = {status(said(PROXY, request)) for request in asked}
    # By its own name they are the server's, which says ok to everything.
    for path in paths:
        answer = said(PROXY, get(f"http://{ALLOWED}{path}", ALLOWED))
        seen.add("the server's" if answer.endswith(b"\r\n\r\nok\n") else status(answer))
    return same(seen)


def _placeholder(given: Given) -> str:
    """What stands for a secret, in a request to a host that it is not for."""
    held = os.environ[given["token"]]
    header = f"Authorization: Bearer {held}\r\n"
    return ways(PROXY, [get(f"http://{ALLOWED}/", ALLOWED, more=header)])


def _inward(given: Given) -> str:
    """In the gate, as squid: what a name that turned inward would have it dial."""
    v6 = [METADATA[1], "fd00::2", "::1"] if given["has_v6"] else []
    addresses = (*PRIVATE, *HOST, METADATA[0], *v6, *given["addresses"])
    return reach(addresses, (80, given["listening"][0][1]))


ATTEMPTS: Mapping[str, Callable[[Given], str]] = {
    "raw connections, IPv4": _raw_v4,
    "raw connections, IPv6": _raw_v6,
    "QUIC and other datagrams": _quic,
    "ICMP": _icmp,
    "another resolver, by UDP": _resolver_udp,
    "another resolver, by TCP": _resolver_tcp,
    "another resolver, by TLS": _resolver_tls,
    "the cloud's metadata": _metadata,
    "the host's loopback": _loopback,
    "the host's addresses": _host,
    "the host's abstract sockets": _abstract,
    "the network around": _lan,
    "a name that is not allowed": _name,
    "CONNECT to an address": _connect_address,
    "CONNECT to a private address": _connect_private,
    "SNI of another host": _sni,
    "Host of another host": _host_header,
    "a second request to another host": _second,
    "a redirect to a private address": _redirect,
    "the gate's own pages": _pages,
    "a placeholder to another host": _placeholder,
}
IN_THE_GATE: Mapping[str, Callable[[Given], str]] = {"a name that turns inward": _inward}
