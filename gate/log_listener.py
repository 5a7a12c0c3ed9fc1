"""Takes in squid's log lines over TCP, and hands each on as a value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gate import ports
from gate.lines import Lines
from gate.listening import listen_on_loopback, take_in
from gate.squid_log import parse_line

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

    from gate.loop import Loop
    from gate.squid_log import LogLine

_LONGEST_LINE = 131072


def listen_for_log(loop: Loop, on_line: Callable[[LogLine], None]) -> None:
    """Listen where squid's configuration says that its log goes."""
    take_in(loop, listen_on_loopback(ports.LOG), lambda squid: _serve(loop, squid, on_line))


def _serve(loop: Loop, squid: _socket.socket, on_line: Callable[[LogLine], None]) -> None:
    Lines(loop, squid, _LONGEST_LINE, lambda raw: _hand_on(raw, on_line))


def _hand_on(raw: bytes, on_line: Callable[[LogLine], None]) -> None:
    try:
        line = parse_line(raw)
    except ValueError as error:
        print(f"bridge: {error}: {raw[:300]!r}", file=sys.stderr, flush=True)
        return
    if line is not None:
        on_line(line)
