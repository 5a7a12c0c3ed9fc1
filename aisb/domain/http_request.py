"""
One HTTP request with every name that it says, and whether they are one.

squid judges what stands in the request while the bytes go where the connection leads, so a request that names
two hosts would be judged as one and arrive at the other. The gate's image carries this file, so it needs
nothing but the standard library.
"""

from __future__ import annotations

from typing import NamedTuple

from aisb.domain.hosts import canonical_host, parse_authority, show_authority

HTTP = "http"
HTTPS = "https"
_DEFAULT_PORT = {HTTP: 80, HTTPS: 443}
_WEBSOCKET = "websocket"
_WITHOUT_BODY = ("GET", "HEAD")
# What is no message from a client to a server, whoever the server is.
_METHOD_FAULTS = {
    "TRACE": "TRACE is answered with the request as it arrived, and what a proxy put into it is not for you",
    "PURGE": "PURGE speaks to a cache, and the gate keeps none",
}


class HttpRequest(NamedTuple):
    """
    A request over a connection that was meant for `host` and `port`.

    `path` may carry a query. `sni` is the name in the TLS hello around the request, empty for plain HTTP;
    `upgrade` the value of its Upgrade header; `has_body` whether it announces a body.
    """

    method: str
    path: str
    host: str
    port: int
    scheme: str
    url_host: str
    url_port: int
    host_header: str
    sni: str = ""
    upgrade: str = ""
    has_body: bool = False


def honest_request(method: str, scheme: str, host: str, port: int, path: str) -> HttpRequest:
    """The request of a client that says one name everywhere."""
    sni = host if scheme == HTTPS else ""
    return HttpRequest(method, path, host, port, scheme, host, port, show_authority(host, port), sni)


def names_agree(request: HttpRequest) -> bool:
    """Whether connection, URL, Host header and, inside TLS, the hello name one host and one port."""
    if request.scheme not in _DEFAULT_PORT or request.url_port != request.port:
        return False
    if (request.scheme == HTTPS) != bool(request.sni):
        return False
    try:
        header_host, header_port = _split_host_header(request.host_header, _DEFAULT_PORT[request.scheme])
        names = {canonical_host(name) for name in (request.host, request.url_host, header_host)}
        if request.sni:
            names.add(canonical_host(request.sni))
    except ValueError:
        return False
    return len(names) == 1 and header_port == request.port


def method_fault(request: HttpRequest) -> str:
    """Why no host may be sent this method, "" where its rules or entries decide."""
    return _METHOD_FAULTS.get(request.method, "")


def body_fault(request: HttpRequest) -> str:
    """
    Why the body of a request that is judged by rules may not come along, "" where it may or there is none.

    These methods have none as a rule. Of one that comes all the same some servers take nothing, and read the next
    request in its place, which nobody has judged.
    """
    if not request.has_body or request.method not in _WITHOUT_BODY:
        return ""
    return f"a {request.method} has no body where there are rules: some servers read another request in its place"


def upgrade_fault(request: HttpRequest) -> str:
    """
    Why the connection may not be turned into another protocol, "" where it may or nobody asks for it.

    Behind an upgrade nothing is judged any more. A WebSocket begins with a GET. Every other protocol is taken out of
    the request before it goes on, so that the server does not hear of it: some clients ask for HTTP/2 by habit, and
    are as well served without.
    """
    asked = {token.strip().partition("/")[0].lower() for token in request.upgrade.split(",")}
    if _WEBSOCKET not in asked or request.method == "GET":
        return ""
    return "only a GET may be upgraded to a websocket"


def _split_host_header(text: str, default_port: int) -> tuple[str, int]:
    is_bare = ":" not in text or text.endswith("]")
    return parse_authority(f"{text}:{default_port}" if is_bare else text)
