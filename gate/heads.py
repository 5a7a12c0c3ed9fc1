"""
The first request of a connection, read strictly: one grammar, a bound on its size, and no second guess.

What is not exactly in this form is refused. squid reads the request again by its own rules and judges
what it understood, so a difference between the two can only refuse more.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aisb.domain.hosts import parse_authority

LARGEST_HEAD = 32768
_MOST_HEADERS = 200
_END = b"\r\n\r\n"

# The longest first: a request line and header lines, all of printable ASCII but for a header's value. No two parts of
# a line may match the same bytes: of blanks before a byte that does not belong there, each way to share them out would
# be tried.
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z-]{0,31}) ([\x21-\x7e]+) (HTTP/1\.[01]|AISB/1)")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_URL = re.compile(r"http://([^/?#\\@]+)((?:[/?][^#]*)?)")

CONNECT = "CONNECT"
RESOLVE = "RESOLVE"


class BadRequest(ValueError):
    """What was sent is not a request that the gate takes. The text says why, in words that hold nothing of it."""


class Request(NamedTuple):
    """
    One request to the gate.

    For CONNECT `path` and `host_header` are empty; for RESOLVE the port is 0.
    """

    method: str
    host: str
    port: int
    path: str = ""
    host_header: str = ""
    wants_json: bool = False
    upgrade: str = ""
    has_body: bool = False

    @property
    def is_tunnel(self) -> bool:
        """Whether the client wants bytes passed on rather than one request answered."""
        return self.method == CONNECT


def split_head(data: bytes) -> tuple[bytes, bytes] | None:
    """
    The head with its empty line, and what came after it; None where more has to come.

    Raises BadRequest once it cannot become a head any more: too long, or a first byte that begins no method.
    """
    if data and not data[:1].isupper():
        raise BadRequest("this is not a request to a proxy")
    end = data.find(_END, 0, LARGEST_HEAD)
    if end >= 0:
        return data[: end + len(_END)], data[end + len(_END) :]
    if len(data) >= LARGEST_HEAD:
        raise BadRequest(f"the head is longer than {LARGEST_HEAD} bytes")
    return None


def parse_head(head: bytes) -> Request:
    """The request that a whole head makes. Raises BadRequest."""
    lines = head[: -len(_END)].split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(lines[0])
    if match is None:
        raise BadRequest("the request line is not METHOD TARGET HTTP/1.1")
    method, target, version = (part.decode("ascii") for part in match.groups())
    if (version == "AISB/1") != (method == RESOLVE):
        raise BadRequest("RESOLVE, and nothing else, is asked in AISB/1")
    if method == RESOLVE and len(lines) > 1:
        raise BadRequest("RESOLVE has no header lines")
    headers = _parse_headers(lines[1:])
    if method == RESOLVE:
        # Judged as it stands: a name that is none is an answer, not a fault.
        return Request(method, target, 0)
    wants_json = any(b"application/json" in value.lower() for name, value in headers if name == b"accept")
    if method == CONNECT:
        host, port = _authority(target)
        return Request(method, host, port, wants_json=wants_json)
    return _absolute(method, target, headers, wants_json)


def _parse_headers(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    if len(lines) > _MOST_HEADERS:
        raise BadRequest(f"there are more than {_MOST_HEADERS} header lines")
    headers = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadRequest("a header line is not NAME: VALUE")
        headers.append((match[1].lower(), match[2].strip(b" \t")))
    return headers


def _absolute(method: str, target: str, headers: list[tuple[bytes, bytes]], wants_json: bool) -> Request:
    match = _URL.fullmatch(target)
    if match is None:
        raise BadRequest("a proxy is asked with CONNECT host:port or with an absolute http:// URL")
    host, port = _url_authority(match[1])
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) != 1:
        raise BadRequest("there must be one Host header")
    upgrade = b", ".join(value for name, value in headers if name == b"upgrade").decode("latin-1")
    has_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers
    )
    return Request(method, host, port, match[2] or "/", hosts[0].decode("latin-1"), wants_json, upgrade, has_body)


def _authority(text: str) -> tuple[str, int]:
    try:
        return parse_authority(text)
    except ValueError as error:
        raise BadRequest("the target is not HOST:PORT") from error


def _url_authority(text: str) -> tuple[str, int]:
    # A port is what follows the last colon, unless that colon is inside an IPv6 address.
    bare = ":" not in text or text.endswith("]")
    return _authority(f"{text}:80" if bare else text)
