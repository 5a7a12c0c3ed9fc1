"""
What `aisb doctor --deep` tries, which outcome is right, and what it means where it is not.

What a sandbox says of its attempts is untrusted text: read strictly, bounded, and an attempt of which nothing is said
has failed, for "could not tell" is no proof.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from aisb.domain.doctor import FAIL as RED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ATTACK, WORK = KINDS = ("attack", "work")
PASS, FAIL, UNTRIED = VERDICTS = ("pass", "fail", "not tried")
# Who tries it: the command of a sandbox, squid's user in its gate, or aisb itself, which looks at what came of it.
SANDBOX, GATE, HOST = "sandbox", "gate", "host"

LONGEST_REPORT = 64 * 1024
_LONGEST_SEEN = 100
_NOTHING = "nothing was said of it"


class Attempt(NamedTuple):
    """
    Something to try: `right` are the outcomes that are as they should be, `means` what another one means.

    `absent` is what is said where the image has nothing to try it with.
    """

    name: str
    kind: str
    right: tuple[str, ...]
    means: str
    where: str = SANDBOX
    absent: str = ""


class Seen(NamedTuple):
    """What came of an attempt, in the words of whoever tried it, and how long it took."""

    seen: str
    seconds: float


class Result(NamedTuple):
    """An attempt, judged. `evidence` is what was seen, or why it was not tried; `means` is "" where all is well."""

    attempt: str
    kind: str
    verdict: str
    seconds: float
    evidence: str
    means: str = ""


def _attack(name: str, means: str, *right: str, where: str = SANDBOX) -> Attempt:
    return Attempt(name, ATTACK, right, means, where)


def _work(name: str, means: str, right: str = "yes", *, where: str = SANDBOX, absent: str = "") -> Attempt:
    return Attempt(name, WORK, (right,), means, where, absent)


_OUT = "a command can reach hosts that nobody allowed"
_HOST = "a command can reach services of this machine or of the network around it"
_NAMES = "questions for names leave the sandbox, and carry out what they are asked to"
_OTHER = "whoever may reach one host may speak to another one through it"
_MORE = "a command can have more of the kernel than it needs, past the rules of its sandbox"
_LATER = "what an agent writes in a project is run later by git on this machine"

STARTS = "a sandbox starts"
RULES = "lifting the rules"
BOMB = "a fork bomb"
VSOCK = "vsock"
RAW_V6 = "raw connections, IPv6"
BUMPED = "a host inside another's opened TLS"
INWARD = "a name that turns inward"
UNHEARD = "what this machine heard of it"
UNTOUCHED = "what lies beside the project"
OWNED = "files made inside are yours"

ATTEMPTS = (
    _work(STARTS, "no run will do anything here", where=HOST),
    # --- the network ---
    _attack("raw connections, IPv4", _OUT, "403, reset"),
    _attack(RAW_V6, _OUT, "403, reset"),
    _attack("QUIC and other datagrams", _OUT, "EPERM"),
    _attack("ICMP", _OUT, "EACCES, EPERM", "EPERM"),
    _attack("another resolver, by UDP", _NAMES, "its own resolver, no such name"),
    _attack("another resolver, by TCP", _NAMES, "its own resolver, no such name"),
    _attack("another resolver, by TLS", _NAMES, "EPERM, reset"),
    _attack("the cloud's metadata", "a command can have the credentials of this machine in its cloud", "403"),
    _attack("the host's loopback", _HOST, "refused"),
    _attack("the host's addresses", _HOST, "reset"),
    _attack("the host's abstract sockets", "a command can reach this machine's desktop and its agents", "refused"),
    _attack("the network around", _HOST, "reset"),
    _attack(UNHEARD, _HOST, "nothing", where=HOST),
    _attack(VSOCK, "a command can reach the machine that this one is a guest of", "EAFNOSUPPORT"),
    _attack("sockets past the rules", _MORE, "EAFNOSUPPORT"),
    _attack("raw sockets", "a command can send packets that no rule has read", "EPERM"),
    # --- the gate ---
    _attack("a name that is not allowed", _OUT, "403"),
    _attack("CONNECT to an address", _OUT, "403"),
    _attack("CONNECT to a private address", _HOST, "403"),
    _attack("SNI of another host", _OTHER, "cut"),
    _attack("Host of another host", _OTHER, "403"),
    _attack("a second request to another host", _OTHER, "200 403"),
    _attack("a redirect to a private address", _HOST, "200 403, 400, 403"),
    _attack(INWARD, _HOST, "refused", where=GATE),
    _attack(BUMPED, _OTHER, where=HOST),
    _attack("the gate's own pages", "a command can read how its gate is set up", "400, 403, the server's"),
    _attack("the gate's socket", "a command can put itself between the gate and other processes", "EROFS"),
    _attack("a placeholder to another host", "a secret may go to a host that it is not for", "403"),
    _attack("the secret behind a placeholder", "a secret that only the gate is to have is in the sandbox", "not found"),
    # --- the kernel ---
    _attack(RULES, "a command can lift the rules that enclose it", "EPERM; reset"),
    _attack("routes and network devices", "a command can make itself another network", "EPERM; reset"),
    _attack("capabilities", "a command has privileges", "none"),
    _attack("set-id and becoming root", "a command can become root in its sandbox", "EPERM"),
    _attack("devices", "a command can have devices of this machine", "ENOENT, EPERM"),
    _attack("mounts", "a command can uncover what was covered, and cover what it likes", "EPERM"),
    _attack("namespaces", _MORE, "ENOSYS, EPERM"),
    _attack("odd doors of the kernel", _MORE, "ENOSYS, EPERM"),
    _attack("ptrace and the relay's memory", "a command can change the relay beside it", "EACCES, EPERM"),
    _attack(BOMB, "a command can take every process that this machine has", "EAGAIN"),
    # --- files ---
    _attack("aisb's own files", "a command can change what its sandbox is made by", "EACCES, EROFS"),
    _attack("git's hooks and configuration", _LATER, "EROFS"),
    _attack("renaming what holds them", _LATER, "EBUSY"),
    _attack("links out of the project", "a command can read and write files beside the project", "ENOENT"),
    _attack(UNTOUCHED, "a command can write files beside the project", "as it was", where=HOST),
    # --- what has to work ---
    _work("an allowed name resolves", "nothing that is allowed will be found"),
    _work("HTTP, without knowing of a proxy", "programs that know no proxy reach nothing", "200"),
    _work("HTTP by the proxy's variable", "programs that use a proxy reach nothing", "200"),
    _work("TLS, without knowing of a proxy", "programs that know no proxy reach nothing", "a server's word"),
    _work("TLS by the proxy's variable", "programs that use a proxy reach nothing", "a server's word"),
    _work("the gate by its socket", "the relay is all that leads to the gate, or not even that", "200"),
    _work("a refusal says why", "nobody will know which entry is missing"),
    _work("a refusal comes at once", "what is refused looks like a network that hangs", "reset"),
    _work("a server of one's own", "tests that start a server will fail"),
    _work("files in the project", "an agent cannot do its work in a project"),
    _work(OWNED, "what an agent writes you cannot read or remove", where=HOST),
    _work("git in the project", "an agent cannot commit", absent="no git"),
    _work("the home", "programs have no place for their settings"),
    _work("temporary files", "most programs will fail"),
    _work("variables, byte for byte", "--env does not hand on what you have"),
    _work("the user's name", "programs that ask who they are will fail"),
    _work("terminals", "programs for a terminal will fail"),
    _work("processes, threads and signals", "programs that start others will fail"),
    _work("devices that everybody has", "most programs will fail"),
    _work("certificates", "no TLS to what is allowed"),
)
BY_NAME = {attempt.name: attempt for attempt in ATTEMPTS}
# There is no such host: the one that is opened is one of the user's, which nothing here contacts.
NEVER_TRIED = {
    BUMPED: "it takes a host whose TLS the gate opens, which would be one of yours; the gate's own listener has no "
    "certificate",
}


def parse_report(text: bytes, where: str) -> dict[str, Seen]:
    """
    What was said of the attempts that are made at that place: a line each, of exactly this form.

    What is said twice counts as not said, and so does what is said of anything else.
    """
    found: dict[str, Seen] = {}
    twice = set()
    for line in text[:LONGEST_REPORT].split(b"\n"):
        said = _parse_line(line, where)
        if said is None:
            continue
        name, seen = said
        if name in found:
            twice.add(name)
        found[name] = seen
    return {name: seen for name, seen in found.items() if name not in twice}


def _parse_line(line: bytes, where: str) -> tuple[str, Seen] | None:
    try:
        document = json.loads(line)
        if not isinstance(document, dict) or document.keys() != {"attempt", "seen", "seconds"}:
            return None
        name, seen, seconds = document["attempt"], document["seen"], document["seconds"]
    except (ValueError, RecursionError):
        return None
    is_known = isinstance(name, str) and name in BY_NAME and BY_NAME[name].where == where
    is_text = isinstance(seen, str) and len(seen) <= _LONGEST_SEEN and seen.isascii() and seen.isprintable()
    is_time = isinstance(seconds, float) and 0 <= seconds < 1000
    return (name, Seen(seen, seconds)) if is_known and is_text and is_time else None


def judge(found: Mapping[str, Seen], untried: Mapping[str, str]) -> list[Result]:
    """The verdict of every attempt; `untried` says of some why they were not made, as is known before."""
    return [_judge(attempt, found.get(attempt.name), untried.get(attempt.name, "")) for attempt in ATTEMPTS]


def _judge(attempt: Attempt, seen: Seen | None, why_not: str) -> Result:
    if why_not:
        return Result(attempt.name, attempt.kind, UNTRIED, 0.0, why_not)
    if seen is None:
        return Result(attempt.name, attempt.kind, FAIL, 0.0, _NOTHING, f"it could not be told, or: {attempt.means}")
    if attempt.absent and seen.seen == attempt.absent:
        return Result(attempt.name, attempt.kind, UNTRIED, seen.seconds, f"{seen.seen} in the image")
    if seen.seen in attempt.right:
        return Result(attempt.name, attempt.kind, PASS, seen.seconds, seen.seen)
    return Result(attempt.name, attempt.kind, FAIL, seen.seconds, seen.seen or "nothing", attempt.means)


def not_started(why: str) -> list[Result]:
    """The verdicts where there was no sandbox to try anything in."""
    untried = {attempt.name: f"see: {STARTS}" for attempt in ATTEMPTS if attempt.name != STARTS}
    return judge({STARTS: Seen(why, 0.0)}, untried)


def has_failed(results: Iterable[Result]) -> bool:
    """Whether anything is not as it has to be."""
    return any(result.verdict == FAIL for result in results)


def with_attempts(document: dict[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """What doctor found, and what was tried: red where either is."""
    verdict = RED if has_failed(results) else document["verdict"]
    return document | {"verdict": verdict, "attempts": [result._asdict() for result in results]}
