"""
The fake internet's web server: one connection, request after request, each one recorded.

    /                    "hello from SITE"
    /bytes/N             N bytes
    /headers             the request's own headers, as JSON
    /redirect/URL        302 to URL
    /status/CODE         an empty answer with that status
    /repo.git/...        a git repository (files of the site's directory, as a plain web server gives them)
    /private.git/...     one that can be pushed to, for whoever sends a password that ends in `-accepted`
    /smart/NAME.git/...  a git repository of a test's own, by git's own server: it takes pushes
    /files/...           files of a test's own; where there is NAME.location for NAME, 302 to what it says
    /events/KEY/N        N events, the first at once, each later one with a request for /next/KEY
    /ws/...              a WebSocket that repeats what it gets
    POST /v1/chat/completions, GET /v1/models    the model
    POST /v1/messages                            the same in the Messages format
"""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from laboratory.internet import messages, model, private, repository, streams

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from laboratory.internet.record import Log

MAX_LINE = 65536
MAX_BODY = 256 * 1024 * 1024


class Request(NamedTuple):
    """
    One request as it was read.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def keeps_open(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class Answer(NamedTuple):
    """
    What the server has to say.
    """

    status: int = 200
    body: bytes = b""
    kind: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


def serve(connection: socket.socket | ssl.SSLSocket, log: Log, fields: dict[str, Any], files: Path) -> None:
    """
    Answer the requests of a connection until it ends.
    """
    scheme = "https" if isinstance(connection, ssl.SSLSocket) else "http"
    with connection.makefile("rb") as reader:
        while request := read_request(reader):
            log.add(
                "request", scheme=scheme, **fields, method=request.method, path=request.path,
                host=request.headers.get("host"), headers=request.headers, bytes=len(request.body),
            )  # fmt: skip
            if request.path.startswith("/ws/") and request.headers.get("upgrade", "").lower() == "websocket":
                streams.websocket(connection, reader, request.headers)
                return
            if request.path.startswith("/events/"):
                _, _, key, count = request.path.split("/")
                streams.events(connection, key, int(count))
                continue
            answer = respond(request, fields["sink"], files / fields["sink"])
            connection.sendall(_serialise(answer, request))
            if not request.keeps_open:
                return


def read_request(reader: BinaryIO) -> Request | None:
    """
    The next request, None at the end or where there is none to be read.
    """
    words = reader.readline(MAX_LINE).decode("latin-1").split()
    if len(words) != 3:
        return None
    headers: dict[str, str] = {}
    while (line := reader.readline(MAX_LINE).decode("latin-1")) not in {"\r\n", "\n", ""}:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(reader)
    else:
        body = reader.read(min(int(headers.get("content-length") or 0), MAX_BODY))
    return Request(words[0], words[1], headers, body)


def _read_chunks(reader: BinaryIO) -> bytes:
    parts = []
    while size := int(reader.readline(MAX_LINE).partition(b";")[0] or b"0", 16):
        parts.append(reader.read(size))
        reader.readline(MAX_LINE)
    while reader.readline(MAX_LINE) not in {b"\r\n", b"\n", b""}:
        pass
    return b"".join(parts)


def respond(request: Request, site: str, files: Path) -> Answer:
    path = request.path.partition("?")[0]
    first, _, rest = path.lstrip("/").partition("/")
    if path == "/v1/chat/completions" and request.method == "POST":
        return _said(lambda: model.reply(request.body))
    if path == messages.PATH and request.method == "POST":
        return _said(lambda: messages.reply(request.body))
    if path == messages.COUNT_PATH:
        return _said(messages.count)
    if path == "/v1/models":
        listing = {
            "object": "list",
            "data": [{"id": "stub", "object": "model", "created": 0, "owned_by": "lab"}],
        }
        return Answer(body=json.dumps(listing).encode(), kind="application/json")
    if first == private.NAME:
        status, headers, body = private.respond(request.method, request.path, request.headers, request.body)
        return Answer(status, body, headers.pop("content-type", "text/plain"), tuple(headers.items()))
    if first == "smart":
        return _git(request, files / first)
    return _page(request, first, rest) or _file(files / path.lstrip("/"), first, site)


def _page(request: Request, first: str, rest: str) -> Answer | None:
    """
    What a path means, None where it is a file's.
    """
    if first == "next":
        streams.call(rest)
        return Answer()
    if first == "bytes" and rest.isdecimal():
        return Answer(body=b"x" * int(rest), kind="application/octet-stream")
    if first == "headers":
        return Answer(body=json.dumps(request.headers).encode(), kind="application/json")
    if first == "redirect":
        return Answer(302, headers=(("Location", rest),))
    if first == "status" and rest.isdecimal():
        return Answer(int(rest))
    return None


def _file(file: Path, first: str, site: str) -> Answer:
    if file.is_dir():
        file /= "index.html"
    if ".." not in file.parts and file.is_file():
        kind = "text/html" if file.suffix == ".html" else "application/octet-stream"
        return Answer(body=file.read_bytes(), kind=kind)
    moved = file.with_name(f"{file.name}.location")
    if ".." not in file.parts and moved.is_file():
        return Answer(302, headers=(("Location", moved.read_text()),))
    if first.endswith(".git") or first == "files":
        return Answer(404, b"not found\n")
    return Answer(body=f"hello from {site}\n".encode())


def _git(request: Request, root: Path) -> Answer:
    status, headers, body = repository.smart(root, request.method, request.path, request.headers, request.body)
    kind = headers.pop("Content-Type", "text/plain")
    return Answer(status, body, kind, tuple(headers.items()))


def _said(reply: Callable[[], tuple[str, bytes]]) -> Answer:
    try:
        kind, text = reply()
    except ValueError as error:
        return Answer(400, f"{error}\n".encode())
    return Answer(body=text, kind=kind)


def _serialise(answer: Answer, request: Request) -> bytes:
    reason = http.client.responses.get(answer.status, "Unknown")
    headers = [
        ("Content-Type", answer.kind),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "keep-alive" if request.keeps_open else "close"),
        *answer.headers,
    ]
    head = f"HTTP/1.1 {answer.status} {reason}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers)
    return head.encode() + b"\r\n" + (b"" if request.method == "HEAD" else answer.body)
