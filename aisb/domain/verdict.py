"""
What the engine answers: yes or no, the reason in one word, the rule that decided, and the entry that would allow it.

The gate's image carries this file, so it needs nothing but the standard library.
"""

from __future__ import annotations

from typing import NamedTuple


class Reason:
    """Why something was refused: the same word in the answer, the audit and the summary."""

    NOT_LISTED = "not-listed"
    PORT = "port"
    METHOD = "method"
    PATH = "path"
    PATH_FORM = "path-form"
    NAME_MISMATCH = "name-mismatch"
    NOT_TLS = "not-tls"
    PRIVATE_ADDRESS = "private-address"
    DIRECT_ADDRESS = "direct-address"
    SECRET = "secret-wrong-host"  # noqa: S105  # the name of a reason
    DNS = "dns"
    LIMIT = "limit"
    BAD_REQUEST = "bad-request"


# The rule of what is allowed only to learn of it.
LEARNED = "aisb learn"
# In the words of a refusal.
CLOSED = "the user has closed it for this run"
# The method of the last line of a record that is full.
CUT_OFF = "AUDIT"


class Failure:
    """Why nothing came of what was allowed: a word in the audit."""

    UNRESOLVED = "unresolved"
    UNANSWERED = "unanswered"
    UNTRUSTED = "untrusted"
    UPSTREAM = "upstream"


SENTENCES = {
    Reason.NOT_LISTED: "no entry of the policy covers this host",
    Reason.PORT: "the host is allowed, but not on this port",
    Reason.METHOD: "the host and the path are allowed, but not with this method",
    Reason.PATH: "the host is allowed, but not this path",
    Reason.PATH_FORM: "the path is not in the one form that every server reads alike",
    Reason.NAME_MISMATCH: "the names in the request are not one and the same",
    Reason.NOT_TLS: "what was said on port 443 is not TLS, or names no host",
    Reason.PRIVATE_ADDRESS: "the name leads to a private address",
    Reason.DIRECT_ADDRESS: "no entry of the policy covers this address",
    Reason.SECRET: "a secret was about to be sent to another host than it is for, or not in its header over TLS",
    Reason.DNS: "no entry of the policy covers this name",
    Reason.LIMIT: "too much at once, or a rule that takes too long with this path",
    Reason.BAD_REQUEST: "the gate does not take a request in this form",
    Failure.UNRESOLVED: "is allowed, but its name does not resolve",
    Failure.UNANSWERED: "is allowed, but does not answer",
    Failure.UNTRUSTED: "is allowed, but the gate, which reads the requests to it, does not trust its certificate",
    Failure.UPSTREAM: "is allowed, but the proxy that everything goes through did not pass it on",
}


class Verdict(NamedTuple):
    """
    The engine's answer.

    `rule` is what decided: the entry that allowed it, or the method and path rule that matched last, which is number
    `rule_index` of its host, from 1. Both are empty where nothing matched. `add` is the entry that would have allowed
    it, empty where none would; `detail` the reason in words where its code alone says too little.
    """

    allowed: bool
    reason: str = ""
    rule: str = ""
    add: str = ""
    detail: str = ""
    rule_index: int = 0
