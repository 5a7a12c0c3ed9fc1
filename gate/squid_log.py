"""
squid's log, one line a request: what came after the first request of a connection, and what squid found
inside a tunnel that the bridge had let begin.
"""

from __future__ import annotations

from typing import NamedTuple

from aisb.domain.rules import Failure, Reason
from gate.identity import run_of

_FIELDS = 16
# squid's configuration cuts a path here; aisb/render/gate_files.py renders the same number.
LONGEST_PATH = 5600
_REASONS = frozenset(value for name, value in vars(Reason).items() if name.isupper())
# squid's names of what goes wrong with a host; the pages of aisb/render/gate_files.py, and a test compares them.
UNREACHED = frozenset({
    "ERR_CANNOT_FORWARD", "ERR_CONNECT_FAIL", "ERR_DNS_FAIL", "ERR_INVALID_RESP", "ERR_READ_ERROR", "ERR_READ_TIMEOUT",
    "ERR_SECURE_CONNECT_FAIL", "ERR_WRITE_ERROR", "ERR_ZERO_SIZE_OBJECT",
})  # fmt: skip
_SQUIDS_OWN = "/squid-internal-"
# What the helper gives as its reason when it agrees: a refusal after that is squid's own, for the address.
AGREED = "ok"


class LogLine(NamedTuple):
    """
    One request as squid saw it. `reason` is empty for what squid let through, `failed` for what reached its host.

    `is_cut`: its path is longer than this.
    """

    run: str
    connection: int
    method: str
    host: str
    port: int
    path: str
    reason: str
    named: str
    failed: str
    is_last: bool
    bytes_out: int
    bytes_in: int
    seconds: float
    is_cut: bool = False


def parse_line(line: bytes, *, proxied: bool = False) -> LogLine | None:
    """
    The line as a value; None for one that says nothing about a request.

    `proxied`: everything goes through a proxy, and what comes to nothing does so there.

    Raises ValueError for a line that is not in the rendered format.
    """
    fields = [_plain(field) for field in line.decode("ascii", "replace").split(" ")]
    if len(fields) != _FIELDS:
        raise ValueError(f"squid's log line has {len(fields)} fields")
    source, number, method, host, port, path, status, outcome, error, mode, sni, said, sent, got, spent, server = fields
    if not method and status == "0":
        # The end of a connection on which nothing was asked.
        return None
    reason = _reason(status, outcome, error, mode, said, server, path)
    failed = ""
    if not reason and (_has_failed(method, status, outcome, error) or (proxied and _is_kept_back(method, status))):
        # What squid finds in TLS that it opened itself is about the host.
        failed = Failure.UPSTREAM if proxied and mode != "bump" else _failure(error, server)
    return LogLine(
        run=run_of(source),
        connection=int(number),
        method=method,
        host=bare(with_brackets(host)),
        port=int(port or 0),
        path=path.partition("?")[0],
        reason=reason,
        named=sni if reason == Reason.NAME_MISMATCH else "",
        failed=failed,
        is_last=bool(reason or error or failed) or outcome.startswith("TCP_TUNNEL"),
        bytes_out=int(sent),
        bytes_in=int(got),
        seconds=int(spent) / 1000,
        is_cut=len(path) >= LONGEST_PATH,
    )


def with_brackets(text: str) -> str:
    """What squid has percent-encoded, with the brackets of IPv6 addresses as they were."""
    return text.replace("%5B", "[").replace("%5D", "]")


def bare(host: str) -> str:
    """A host as the engine takes it: an IPv6 address out of its brackets."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _has_failed(method: str, status: str, outcome: str, error: str) -> bool:
    """Whether squid itself, and not the server, had to say that nothing came of it."""
    if not status.startswith("5"):
        return False
    # squid 5 writes 500 about a tunnel that went well.
    return error in UNREACHED or (method == "CONNECT" and (status, outcome) != ("500", "TCP_TUNNEL"))


def _is_kept_back(method: str, status: str) -> bool:
    """Whether a proxy further on refused: no host answers a CONNECT, and none asks for a proxy's password."""
    return status == "407" or (method == "CONNECT" and status.startswith("4"))


def _failure(error: str, server: str) -> str:
    if error == "ERR_SECURE_CONNECT_FAIL":
        return Failure.UNTRUSTED
    # Without a name that resolves there is no address to try.
    return Failure.UNANSWERED if server else Failure.UNRESOLVED


def _plain(field: str) -> str:
    return "" if field == "-" else field


def _reason(status: str, outcome: str, error: str, mode: str, said: str, server: str, path: str) -> str:
    if "DENIED" in outcome or mode == "terminate":
        if path.startswith(_SQUIDS_OWN):
            # Refused before anybody was asked: what was said is about an earlier request of the connection.
            return Reason.BAD_REQUEST
        if said == AGREED:
            return Reason.PRIVATE_ADDRESS
        return said if said in _REASONS else Reason.BAD_REQUEST
    if error == "ERR_PROTOCOL_UNKNOWN" and mode == "peek":
        return Reason.NOT_TLS
    if outcome.startswith("NONE_NONE") and status[:1] == "4":
        # Answered by squid itself: it could make nothing of it.
        return Reason.BAD_REQUEST
    if error.startswith("ERR_") and error not in UNREACHED and status[:1] == "5" and not server:
        # Neither could it here: it asked nobody.
        return Reason.BAD_REQUEST
    return ""
