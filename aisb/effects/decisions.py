"""What a gate allows a run and refuses it, told while it happens."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from aisb.domain.lasting import lasting
from aisb.domain.live import CLOSING, read_live
from aisb.domain.records import Record, read_record
from aisb.domain.verdict import CLOSED, SENTENCES
from aisb.effects.records import AUDIT
from aisb.render.cures import cure_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator

    from aisb.effects.session import Session

_PAUSE_SECONDS = 0.1
_MOST_AT_ONCE = 10
_PIECE = 1 << 20
# Of the gate, in the run's directory: what the user has said since the run began.
_LIVE = "live.json"


class News(NamedTuple):
    """How many decisions there were, and what there is to tell of them: a notification's method and params."""

    allowed: int
    denied: int
    told: tuple[tuple[str, dict[str, object]], ...]


def follow_decisions(session: Session, tell: Callable[[News], None], ended: threading.Event) -> None:
    """
    Read the run's record as it grows, until the run has ended.

    Equal decisions are told together, and of very many at once the rest is only counted.
    """
    rest, is_last = b"", False
    words = _Words(session)
    with contextlib.ExitStack() as stack:
        file = None
        while not is_last:
            is_last = ended.wait(_PAUSE_SECONDS)
            if (lasts := words.news()) is not None:
                tell(News(0, 0, (("opened", {"entries": lasts}),)))
            file = file or _opened(f"{session.path}/{AUDIT}", stack)
            if file is None:
                continue
            *lines, rest = (rest + file.read(_PIECE)).split(b"\n")
            records = [record for line in lines if (record := read_record(line)) is not None]
            if decisions := [record for record in records if not (record.is_probe or record.is_cut_off)]:
                tell(news_of(decisions))


class _Words:
    """What was allowed in a run until it ends, looked at from time to time."""

    def __init__(self, session: Session) -> None:
        self._path = f"{session.path}/{_LIVE}"
        self._last: list[str] = []
        self._file = ""

    def news(self) -> list[str] | None:
        """All of it where it has changed; None where it has not, or where the run has ended."""
        try:
            status = os.stat(self._path)
            file = f"{status.st_ino} {status.st_mtime_ns}"
            if file == self._file:
                return None
            with open(self._path, encoding="ascii") as opened:
                now = lasting(read_live(opened.read()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            # What cannot be read holds for nobody.
            file, now = "", []
        self._file = file
        is_new, self._last = now != self._last, now
        return now if is_new else None


@contextlib.contextmanager
def denied_meanwhile(session: Session) -> Iterator[list[str]]:
    """The lines by which the run's record has grown, there at the end of the block: of whatever ran in it meanwhile."""
    path, lines = f"{session.path}/{AUDIT}", list[str]()
    with contextlib.ExitStack() as stack:
        file = _opened(path, stack)
        before = file.seek(0, os.SEEK_END) if file else 0
        try:
            yield lines
        finally:
            file = file or _opened(path, stack)
            if file is not None:
                file.seek(before)
                lines += file.read().decode("ascii", "replace").splitlines()


def _opened(path: str, stack: contextlib.ExitStack) -> BinaryIO | None:
    """A run whose gate has decided nothing has none. At the end it is moved away, and is read all the same."""
    try:
        return stack.enter_context(open(path, "rb"))
    except FileNotFoundError:
        return None


def news_of(decisions: Iterable[Record]) -> News:
    """What there is to say of these."""
    last = {_key(record): record for record in decisions}
    counts = Counter(_key(record) for record in decisions)
    told = [
        (method, {**params, "count": counts[key]})
        for is_allowed in (False, True)
        for key, _ in Counter({key: count for key, count in counts.items() if key[0] == is_allowed}).most_common(
            _MOST_AT_ONCE
        )
        for method, params in [_told(last[key])]
    ]
    allowed = sum(count for key, count in counts.items() if key[0])
    return News(allowed, counts.total() - allowed, tuple(told))


def _key(record: Record) -> tuple[bool, str, int, str, str, str]:
    return record.allowed, record.host, record.port, record.method, record.path, record.reason


def _told(record: Record) -> tuple[str, dict[str, object]]:
    params: dict[str, object] = {
        "time": record.time,
        "host": record.host,
        "port": record.port,
        "method": record.method,
        "path": record.path,
    }
    if record.allowed:
        return "allowed", params
    if record.rule.startswith(CLOSING):
        closed = record.rule.removeprefix(CLOSING)
        return "denied", {**params, "reason": record.reason, "message": CLOSED, "entry": None, "closed": closed}
    return "denied", {
        **params,
        "reason": record.reason,
        "message": SENTENCES.get(record.reason, record.reason),
        "entry": cure_of(record.host, record.port, record.reason, record.add) or None,
    }
