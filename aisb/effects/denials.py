"""What a gate refuses a run, told while it happens."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from aisb.domain.records import Record, read_record
from aisb.domain.verdict import SENTENCES
from aisb.effects.records import AUDIT
from aisb.render.cures import cure_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from aisb.effects.session import Session

_PAUSE_SECONDS = 0.1
_MOST_AT_ONCE = 10
_PIECE = 1 << 20


def follow_denials(session: Session, tell: Callable[[dict[str, object]], None], ended: threading.Event) -> None:
    """
    Read the run's record as it grows, until the run has ended.

    `tell` is given the numbers `allowed` and `denied` of what was new, or a denial. Equal ones are told together, and
    of very many at once the rest is only counted.
    """
    path, offset, rest = f"{session.path}/{AUDIT}", 0, b""
    is_last = False
    while not is_last:
        is_last = ended.wait(_PAUSE_SECONDS)
        # A run whose gate has decided nothing has none; at the end it is moved away.
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            file.seek(offset)
            data = file.read(_PIECE)
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            _tell([record for line in lines if (record := read_record(line)) and not record.is_probe], tell)


def _tell(records: list[Record], tell: Callable[[dict[str, object]], None]) -> None:
    if not records:
        return
    decisions = [record for record in records if not record.is_cut_off]
    allowed = sum(record.allowed for record in decisions)
    tell({"allowed": allowed, "denied": len(decisions) - allowed})
    last = {_key(record): record for record in decisions if not record.allowed}
    counts = Counter(_key(record) for record in decisions if not record.allowed)
    for key, count in counts.most_common(_MOST_AT_ONCE):
        tell(_denial(last[key], count))


def _key(record: Record) -> tuple[str, int, str, str, str]:
    return record.host, record.port, record.method, record.path, record.reason


def _denial(record: Record, count: int) -> dict[str, object]:
    return {
        "time": record.time,
        "host": record.host,
        "port": record.port,
        "method": record.method,
        "path": record.path,
        "reason": record.reason,
        "message": SENTENCES.get(record.reason, record.reason),
        "entry": cure_of(record.host, record.port, record.reason, record.add) or None,
        "count": count,
    }
