"""
What is open in one run, and one record for each decision in it.

The bridge decides the first request of a connection; squid and the helper decide what comes later, and
what is found inside a tunnel. squid's log line may come a moment before or after the end of the
connection, so a connection waits for its line, briefly, before it is written down.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aisb.domain.hosts import is_address
from aisb.domain.rules import OWN_SUFFIX, PROBE_NAME, PROBED, Reason, Verdict, honest_request
from gate.audit import Decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.rules import Engine
    from gate.audit import Audit
    from gate.heads import Request
    from gate.loop import Loop
    from gate.origins import Origins
    from gate.refusal import Refusal
    from gate.squid_log import LogLine

# How long a connection that has ended waits for squid's line about it.
GRACE_SECONDS = 0.2
_MOST_NUMBERS = 65535
_PROVING = frozenset({PROBE_NAME, *(host for host in PROBED if host.endswith("." + OWN_SUFFIX))})


class Passage:
    """One connection that the bridge has let through: to squid, or to a port of the host."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "ended",
        "failed",
        "is_read",
        "is_squids",
        "line",
        "lines",
        "request",
        "rule",
        "started",
    )

    def __init__(self, request: Request, rule: str, is_read: bool, is_squids: bool) -> None:
        self.request = request
        self.rule = rule
        # Whether squid reads what is said in it: over plain HTTP, and inside TLS that it opens.
        self.is_read = is_read
        self.is_squids = is_squids
        self.started = time.monotonic()
        self.ended = False
        self.lines = 0
        self.line: LogLine | None = None
        self.bytes_out = 0
        self.bytes_in = 0
        self.failed = ""

    @property
    def is_one_decision(self) -> bool:
        """A tunnel is one decision; where squid reads what is in it, each request is."""
        return self.request.is_tunnel and not self.is_read

    @property
    def is_opened(self) -> bool:
        """Whether this is TLS that squid opens."""
        return self.is_read and self.request.port == 443

    @property
    def is_complete(self) -> bool:
        """
        Whether nothing more will be said of it once it has ended.

        A start's own probe is written down then too: a short run would have to wait for squid's line about it.
        """
        return not self.is_squids or self.request.host.endswith("." + OWN_SUFFIX)


class Ledger:
    """The open connections of a run by their numbers, and the audit that they end up in."""

    def __init__(self, loop: Loop, audit: Audit, engine: Engine, origins: Origins) -> None:
        self._loop = loop
        self._audit = audit
        self.engine = engine
        self._origins = origins
        self._passages: dict[int, Passage] = {}
        self._last_number = 0
        self._on_empty: Callable[[], None] | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """Allowed and denied so far."""
        return self._audit.allowed, self._audit.denied

    def refused(self, refusal: Refusal) -> None:
        """The bridge has refused this."""
        self._write(
            Decision(
                host=refusal.host,
                port=refusal.port,
                method=refusal.method,
                path=refusal.path,
                allowed=False,
                reason=refusal.reason,
                rule=refusal.rule,
                rule_index=refusal.rule_index,
                add=refusal.add,
            )
        )

    def opened(self, request: Request, rule: str) -> int:
        """A connection goes on; its number, which no other one of the run has meanwhile."""
        number = self._last_number
        while True:
            number = number % _MOST_NUMBERS + 1
            if number not in self._passages:
                break
        self._last_number = number
        self._passages[number] = Passage(
            request, rule, self._is_read(request), is_squids=not self.engine.is_host(request.host)
        )
        return number

    def _is_read(self, request: Request) -> bool:
        if is_address(request.host) or self.engine.is_host(request.host):
            return False
        return request.port == 80 or (request.port == 443 and self.engine.is_bumped(request.host))

    def is_at_its_first(self, number: int) -> bool:
        """Whether squid has said nothing yet about that connection: it is at the request that it began with."""
        return not self._passages[number].lines

    def ended(self, number: int, bytes_out: int, bytes_in: int, failed: str = "") -> None:
        """A connection has ended, with so many bytes from and to the sandbox; `failed` before it stood."""
        passage = self._passages[number]
        passage.ended = True
        passage.bytes_out = bytes_out
        passage.bytes_in = bytes_in
        passage.failed = failed
        if passage.is_complete or (passage.is_one_decision and passage.line is not None):
            self._settle(number)
        else:
            self._loop.after(GRACE_SECONDS, lambda: self._settle(number))

    def logged(self, line: LogLine) -> None:
        """squid has said something about a connection."""
        passage = self._passages.get(line.connection)
        if passage is None:
            return
        if line.method == "CONNECT" and passage.is_opened and not (line.reason or line.failed):
            # The beginning of a tunnel that was opened. What follows in it are the decisions.
            return
        passage.lines += 1
        if not passage.is_one_decision:
            self._write(self._of_request(passage, line))
        elif line.is_last:
            passage.line = line
            if passage.ended:
                self._settle(line.connection)

    def when_empty(self, then: Callable[[], None]) -> None:
        """Call `then` once all that is open has ended and is written down."""
        self._on_empty = then
        self._tell_if_empty()

    def _settle(self, number: int) -> None:
        passage = self._passages.pop(number, None)
        if passage is None:
            return
        if passage.is_one_decision or not passage.lines:
            self._write(_of_tunnel(passage))
        self._tell_if_empty()

    def _tell_if_empty(self) -> None:
        if self._on_empty is not None and not self._passages:
            then, self._on_empty = self._on_empty, None
            then()

    def _of_request(self, passage: Passage, line: LogLine) -> Decision:
        host = line.host or passage.request.host
        port = line.port or passage.request.port
        if passage.is_opened and line.failed and host != passage.request.host:
            # A name that the server's certificate does not hold: squid refuses it before it asks.
            line = line._replace(reason=Reason.NAME_MISMATCH, failed="")
        verdict = self._verdict_on(line, host, port, passage)
        return Decision(
            host=host,
            port=port,
            method=line.method,
            path=line.path,
            allowed=not line.reason,
            reason=line.reason,
            rule=verdict.rule,
            rule_index=verdict.rule_index,
            add=verdict.add,
            failed=line.failed,
            bytes_out=line.bytes_out,
            bytes_in=line.bytes_in,
            seconds=line.seconds,
        )

    def _verdict_on(self, line: LogLine, host: str, port: int, passage: Passage) -> Verdict:
        """What was decided in the helper, found again: squid hands its reason on and no more of it."""
        if line.method == "CONNECT" or line.is_cut:
            # Of a path that is not all there no rule is named.
            verdict = self.engine.judge(host, port)
        else:
            scheme = "https" if passage.is_opened else "http"
            verdict = self.engine.judge_request(honest_request(line.method, scheme, host, port, line.path))
        is_the_same = (verdict.allowed, verdict.reason) == (not line.reason, line.reason)
        return verdict if is_the_same else Verdict(allowed=False)

    def _write(self, decision: Decision) -> None:
        # By these two a sandbox proves its way out, and that there is no other; nobody asked for them.
        if decision.host in _PROVING:
            return
        origin = self._origins.of(decision.host, decision.port, decision.rule, decision.rule_index)
        self._audit.write(decision._replace(origin=origin))


def _of_tunnel(passage: Passage) -> Decision:
    request = passage.request
    reason = passage.line.reason if passage.line else ""
    return Decision(
        host=request.host,
        port=request.port,
        method=request.method,
        path=request.path,
        allowed=not reason,
        reason=reason,
        rule="" if reason else passage.rule,
        named=passage.line.named if passage.line else "",
        failed=passage.line.failed if passage.line else "" if passage.is_squids else passage.failed,
        bytes_out=passage.bytes_out,
        bytes_in=passage.bytes_in,
        seconds=time.monotonic() - passage.started,
    )
