"""
The helper's side of squid's protocol: a line in, a line out, each begun by the number of its channel.

squid asks at each of its doors what it is about to do; the engine answers. Whatever is not exactly the
line that the rendered configuration makes is answered no.
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.hosts import is_address, parse_authority, parse_port
from aisb.domain.injection import Injector, Treatment, read_secrets
from aisb.domain.live import alive, next_end, read_live
from aisb.domain.rules import WEB_PORTS, Engine, HttpRequest, Reason, Verdict
from gate.identity import run_of
from gate.refusal import json_of, refusal_of, text_of
from gate.secret_box import fetch
from gate.squid_log import AGREED, bare, with_brackets
from gate.turns import HURRY, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# channel, source, its connection, method, host, port, scheme, Host header, name meant, SNI, Upgrade header,
# Content-Length, Transfer-Encoding, path, door
_FIELDS = 15
_PATH = 12
_HEADERS = 13
_CODING = 11
_LENGTH = 10
_UPGRADE = 9
_CHANNEL = re.compile(rb"[0-9]{1,9}")
# Names and header values come percent-encoded; none that is allowed needs it, but for the brackets around an IPv6
# address. The star is in some hellos.
_TOKEN = re.compile(r"[A-Za-z0-9._:*-]+|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?")
# A path comes with its query, and exactly as it goes to the server: what squid encodes could not be told apart from
# what the client had encoded, and squid takes no blank in it.
_PATH_TEXT = re.compile(r"[!-~]+")
_PERCENT = re.compile("%([0-9A-Fa-f]{2})")
_NONE = "-"
_NO_SECRETS = Injector()
_TLS_PORT = 443
_LONGEST_LINE = 1 << 20
# More than a gate ever has at once.
_MOST_RUNS = 256
# Each byte as it stands in a token.
_ESCAPED = tuple(b"%c" % byte if chr(byte).isalnum() and byte < 128 else b"%%%02X" % byte for byte in range(256))

EXPLICIT = "explicit"
PLAIN = "plain"
TLS = "tls"
HELLO = "hello"
BUMP = "bump"
BUMPED = "bumped"
# At the end of a door's name: whoever is refused there wants to hear it in JSON.
_JSON = "_json"


class Question(NamedTuple):
    """What squid is about to do, in the words of its line."""

    run: str
    method: str
    host: str
    port: int
    scheme: str
    host_header: str
    meant: str
    sni: str
    upgrade: str
    path: str
    door: str
    wants_json: bool = False
    headers: Mapping[str, str] = {}
    has_body: bool = False


class _Words(NamedTuple):
    """What was said of one run: the file that it was read from, as the system knows it, and when some of it ends."""

    file: tuple[int, int, int]
    end: float
    engine: Engine


class Engines:
    """An engine for each run: the gate's policy, and what the user has said of that run since it began."""

    def __init__(self, base: str) -> None:
        with open(f"{base}/conf/policy.json", encoding="utf-8") as file:
            self._common = Engine.from_json(file.read())
        self._base = base
        self._words: dict[str, _Words] = {}
        # As each run began.
        self._own: dict[str, Engine] = {}

    def injector(self) -> Injector:
        """What puts the secrets of the policy into requests. Raises OSError or ValueError where they cannot be had."""
        injections = self._common.injections
        return Injector(read_secrets(fetch(), injections), injections) if injections else _NO_SECRETS

    def of(self, run: str) -> Engine:
        """The engine to judge by now. Raises ValueError for words that cannot be read: then nothing is allowed."""
        try:
            status = os.stat(f"{self._base}/r/{run}/live.json")
        except FileNotFoundError:
            self._words.pop(run, None)
            return self._begun(run)
        file = status.st_ino, status.st_mtime_ns, status.st_size
        words = self._words.get(run)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if words is None or words.file != file or 0 < words.end <= now:
            words = self._words[run] = self._read(run, file, now)
        return words.engine

    def _read(self, run: str, file: tuple[int, int, int], now: float) -> _Words:
        with open(f"{self._base}/r/{run}/live.json", encoding="utf-8") as opened:
            entries = alive(read_live(opened.read()), now)
        return _Words(file, next_end(entries), self._begun(run).with_live(entries))

    def _begun(self, run: str) -> Engine:
        if run not in self._own:
            if len(self._own) >= _MOST_RUNS:
                self._own.clear()
            self._own[run] = self._common.apart()
        return self._own[run]


def answer(engine_of: Callable[[str], Engine], line: bytes, injector: Injector = _NO_SECRETS) -> bytes:
    """
    The answer to one line, "" to a line that not even has a channel to answer on.

    `engine_of` a run judges it; what it allows, `injector` may still refuse, or say what becomes of its headers.
    """
    channel, _, rest = line.partition(b" ")
    if not _CHANNEL.fullmatch(channel):
        return b""
    try:
        question = parse_question(rest, injector.headers_read)
        verdict = judge(engine_of(question.run), question)
        treatment = _treat(injector, question) if verdict.allowed and injector.headers_read else Treatment()
        verdict = treatment.verdict() if treatment.fault else verdict
    except (ValueError, OSError):
        return channel + b" ERR log=" + Reason.BAD_REQUEST.encode() + b"\n"
    if not verdict.allowed:
        return channel + _no(question, verdict) + b"\n"
    return channel + _yes(question) + _annotations(injector.headers_given, treatment) + b"\n"


def _treat(injector: Injector, question: Question) -> Treatment:
    """What becomes of the headers of a request that was allowed; a tunnel's are nobody's but the gate's."""
    if question.method == "CONNECT":
        return Treatment()
    return injector.treat(_request_of(question, *_meant(question)), question.headers)


def _annotations(headers: Sequence[str], treatment: Treatment) -> bytes:
    """For squid, by the numbers of the headers in its configuration."""
    given = dict(treatment.given)
    words = []
    for number, name in enumerate(headers, start=1):
        if name in treatment.taken:
            words.append(b" taken_%d_=yes" % number)
        if name in given:
            words.append(b" given_%d_=yes value_%d_=" % (number, number) + _escaped(given[name]))
    return b"".join(words)


def parse_question(rest: bytes, names: Sequence[str] = ()) -> Question:
    """
    The fields of a line without its channel. Raises ValueError for anything out of the ordinary.

    `names` are the headers that the line holds besides.
    """
    fields = rest.decode("ascii").rstrip(" ").split(" ")
    if len(fields) != _FIELDS - 1 + len(names):
        raise ValueError(f"{len(fields)} fields")
    texts = fields[_HEADERS : _HEADERS + len(names)]
    del fields[_HEADERS : _HEADERS + len(names)]
    headers = {name: _unescaped(text) for name, text in zip(names, texts, strict=True) if text != _NONE}
    path = _parse_path(fields.pop(_PATH))
    coding, length = fields.pop(_CODING), fields.pop(_LENGTH)
    has_body = coding != _NONE or length not in (_NONE, "0")
    upgrade = _parse_upgrade(fields.pop(_UPGRADE))
    fields = [with_brackets(field) for field in fields]
    if not all(_TOKEN.fullmatch(field) for field in fields):
        raise ValueError("a field has characters that no name has")
    source, _, method, host, port, *others = ("" if field == _NONE else field for field in fields)
    scheme, host_header, meant, sni, door = others
    where = bare(host), parse_port(port)
    names = host_header, meant, sni
    wants_json = door.endswith(_JSON)
    door = door.removesuffix(_JSON)
    return Question(
        run_of(source), method, *where, scheme.lower(), *names, upgrade, path, door, wants_json, headers, has_body
    )


def _unescaped(text: str) -> str:
    return _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)


def _parse_path(field: str) -> str:
    if not _PATH_TEXT.fullmatch(field):
        raise ValueError("a path has characters that squid takes in none")
    return "" if field == _NONE else field


def _parse_upgrade(field: str) -> str:
    """The protocols that are asked for, as a list. Which one a server is told of, squid decides by their names."""
    return "" if field == _NONE else field.replace("%20", " ").replace("%09", " ")


def judge(engine: Engine, question: Question) -> Verdict:
    """Whether squid may go on, by the door at which it asks. Raises ValueError for an unknown door."""
    if engine.is_host(question.host):
        # An entry for it is aisb's to serve: squid would dial something of the gate's own.
        return Verdict(allowed=False, reason=Reason.NOT_LISTED)
    if question.door == EXPLICIT:
        return _judge_explicit(engine, question)
    if question.door == PLAIN:
        return _judge_plain(engine, question)
    if question.door == BUMPED:
        return _judge_bumped(engine, question)
    if question.method != "CONNECT" or question.port != _TLS_PORT:
        return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
    if question.door == TLS and not question.sni:
        return engine.judge(question.host, question.port)
    # Before the hello squid asks at the first of these doors; with it at the second, twice where it passes one on.
    if question.door in (TLS, HELLO):
        return engine.judge_tls(question.host, question.port, question.sni)
    if question.door == BUMP:
        return engine.judge_bump(question.host, question.port, question.sni)
    raise ValueError("no such door")


def _judge_explicit(engine: Engine, question: Question) -> Verdict:
    if question.method == "CONNECT":
        # These two have doors of their own, where what is inside is looked at; of an address nothing is.
        if question.port in WEB_PORTS and not is_address(question.host):
            return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
        return engine.judge(question.host, question.port)
    return engine.judge_request(_request_of(question, *_meant(question)))


def _judge_plain(engine: Engine, question: Question) -> Verdict:
    if question.method == "CONNECT":
        return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
    return engine.judge_request(_request_of(question, *_meant(question)))


def _judge_bumped(engine: Engine, question: Question) -> Verdict:
    """A request inside TLS that was opened: what it names, the hello and the tunnel have to be one host."""
    if question.method == "CONNECT" or not question.sni or not engine.is_bumped(question.sni):
        return Verdict(allowed=False, reason=Reason.BAD_REQUEST)
    return engine.judge_request(_request_of(question, *_meant(question)))


def _meant(question: Question) -> tuple[str, int]:
    """The host and port that the connection was for. Where a URL says both, it was for them."""
    return (question.host, question.port) if question.door == EXPLICIT else parse_authority(question.meant)


def _request_of(question: Question, host: str, port: int) -> HttpRequest:
    return HttpRequest(
        method=question.method,
        path=question.path,
        host=host,
        port=port,
        scheme=question.scheme,
        url_host=question.host,
        url_port=question.port,
        host_header=question.host_header,
        sni=question.sni,
        upgrade=question.upgrade,
        has_body=question.has_body,
    )


def _yes(question: Question) -> bytes:
    # Should squid refuse after this, then for the address behind the name: these are the words for it.
    verdict = Verdict(allowed=False, reason=Reason.PRIVATE_ADDRESS)
    run = b" run_=" + question.run.encode()
    return b" OK log=" + AGREED.encode() + run + b" message=" + _escaped(_words(question, verdict))


def _no(question: Question, verdict: Verdict) -> bytes:
    return b" ERR log=" + verdict.reason.encode() + b" message=" + _escaped(_words(question, verdict))


def _words(question: Question, verdict: Verdict) -> str:
    """What the client is told, but for the first line of a text: that one stands in squid's page already."""
    refusal = refusal_of(question.run, question.host, question.port, question.method, question.path, verdict)
    return json_of(refusal) if question.wants_json else text_of(refusal).partition("\n")[2]


def _escaped(text: str) -> bytes:
    """`text` as one token: everything but letters and digits as %XX."""
    return b"".join([_ESCAPED[byte] for byte in text.encode()])


def serve(base: str, source: int, sink: int) -> None:
    """Answer what comes in on descriptor `source`, each line in its run's turn, until it ends."""
    engines = Engines(base)
    engine_of = engines.of
    injector = engines.injector()
    turns = Turns()
    hurry = f"{base}/{HURRY}"
    rest = b""
    while True:
        ready, _, _ = select.select([source], [], [], turns.wait_seconds())
        answers = b""
        if ready:
            data = os.read(source, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            answers = b"".join([_answer_in_turn(engine_of, injector, turns, line) for line in lines])
            # squid's lines end; one that grows without end is none of its.
            rest = rest[-_LONGEST_LINE:]
        answers += b"".join([answer(engine_of, line, injector) for line in turns.due(hurry=os.path.exists(hurry))])
        while answers:
            answers = answers[os.write(sink, answers) :]


def _answer_in_turn(engine_of: Callable[[str], Engine], injector: Injector, turns: Turns, line: bytes) -> bytes:
    is_due = turns.take(line)
    if is_due is None:
        # Judged all the same; squid cuts what it would have let through.
        return answer(engine_of, line, injector).replace(
            b" OK log=" + AGREED.encode(), b" OK too_many_=yes log=" + Reason.LIMIT.encode(), 1
        )
    return answer(engine_of, line, injector) if is_due else b""
