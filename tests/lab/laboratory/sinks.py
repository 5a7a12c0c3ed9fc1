"""
What reached the fake internet: the log, and which part of it belongs to a call.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from laboratory.settings import Host, LabError


def position(host: Host) -> int:
    """
    The end of the log, after all that has already arrived is in it.
    """
    for control in sorted(host.cache.glob("*.sock")):
        with contextlib.suppress(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(control))
            client.recv(1)
    try:
        return host.log.stat().st_size
    except FileNotFoundError:
        return 0


def write_record(host: Host, start: int, extra: str | None = None) -> None:
    """
    Note that the last call's part of the log begins at `start` and ends here.
    """
    record = json.dumps({"start": start, "end": position(host)})
    for file in (host.cache / "last.json", *([Path(extra)] if extra else [])):
        file.write_text(record)


def read_record(host: Host, file: str | None = None) -> bytes:
    """
    The log's lines of the call whose record is `file`, or of the last call.
    """
    try:
        record = json.loads((Path(file) if file else host.cache / "last.json").read_text())
    except FileNotFoundError:
        raise LabError(f"no call has been made on {host.name}") from None
    return read(host, record["start"], record["end"])


def read(host: Host, start: int, end: int) -> bytes:
    """
    The log's lines between two positions.
    """
    if not host.log.exists():
        return b""
    with host.log.open("rb") as log:
        log.seek(start)
        return log.read(end - start)
