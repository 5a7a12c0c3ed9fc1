"""What a client is told when it is refused: who, what, why, the entry that would allow it, and what to do."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import is_address, show_authority
from aisb.domain.rules import SENTENCES, Reason

if TYPE_CHECKING:
    from aisb.domain.rules import Verdict

_GUIDANCE = "Do not work around it: ask the user."


class Refusal(NamedTuple):
    """A denied request, as far as it was understood. `status` is 403, or 400 for what is no request."""

    run: str
    host: str
    port: int
    method: str
    path: str
    reason: str
    add: str
    detail: str = ""
    status: int = 403
    # What decided, where a rule did.
    rule: str = ""
    rule_index: int = 0

    def sentence(self) -> str:
        """Why, in words."""
        return self.detail or SENTENCES.get(self.reason, self.reason)

    def steps(self) -> str:
        """What would allow it."""
        if self.add:
            start = f"to allow it, the user starts the sandbox with: --allow {quote(self.add)}"
            # Methods and paths, addresses, ports of the host and presets are what a run has from its start.
            is_live = " " not in self.add and not self.add.startswith(("@", "host:")) and not is_address(self.host)
            return f"{start}; or, for this one: aisb allow {quote(self.add)}" if is_live else start
        return "no entry is proposed for this"


def refusal_of(run: str, host: str, port: int, method: str, path: str, verdict: Verdict) -> Refusal:
    """The refusal that a verdict leads to. The path loses its query: it may hold a secret."""
    status = 400 if verdict.reason == Reason.BAD_REQUEST else 403
    decided = verdict.rule, verdict.rule_index
    return Refusal(
        run, host, port, method, path.partition("?")[0], verdict.reason, verdict.add, verdict.detail, status, *decided
    )


def text_of(refusal: Refusal) -> str:
    """For people, and for agents that read what they get."""
    first = "403 Access denied by egress policy" if refusal.status == 403 else "400 Bad request"
    fields = {
        "who": f"sandbox {refusal.run}" if refusal.run else "",
        "host": refusal.host,
        "port": str(refusal.port) if refusal.port else "",
        "method": refusal.method,
        "path": refusal.path,
        "reason": f"{refusal.reason} ({refusal.sentence()})",
        "next": refusal.steps(),
    }
    lines = [first, *(f"{name}: {printable(value)}" for name, value in fields.items() if value), _GUIDANCE]
    return "\n".join(lines) + "\n"


def json_of(refusal: Refusal) -> str:
    """For programs."""
    return json.dumps({
        "error": "egress_denied" if refusal.status == 403 else "bad_request",
        "detail": refusal.sentence(),
        "reason": refusal.reason,
        "layer": "egress",
        "host": refusal.host,
        "port": refusal.port,
        "method": refusal.method,
        "path": refusal.path,
        "rule_missing": refusal.add,
        "next_steps": [refusal.steps()],
        "agent_guidance": _GUIDANCE,
    }) + "\n"  # fmt: skip


def response_of(refusal: Refusal, wants_json: bool) -> bytes:
    """The whole answer. A CONNECT client shows its user the status line at most: the reason is in it."""
    words = "Access denied by egress policy" if refusal.status == 403 else "Bad request"
    where = f" {show_authority(refusal.host, refusal.port)}" if refusal.host and refusal.port else ""
    body = (json_of(refusal) if wants_json else text_of(refusal)).encode()
    kind = "application/json" if wants_json else "text/plain; charset=utf-8"
    head = (
        f"HTTP/1.1 {refusal.status} {words}: {refusal.reason}{printable(where)}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def printable(text: str) -> str:
    """`text` with everything that could move a terminal's cursor or begin a new line made visible."""
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)
