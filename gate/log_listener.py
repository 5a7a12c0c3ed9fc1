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


def listen_for_log(loop: Loop, on_line: Callable[[LogLine], None], *, proxied: bool = False) -> None:
    """Listen where squid's configuration says that its log goes. `proxied`: everything goes through a proxy."""

    def serve(squid: _socket.socket) -> None:
        Lines(loop, squid, _LONGEST_LINE, lambda raw: _hand_on(raw, on_line, proxied=proxied))

    take_in(loop, listen_on_loopback(ports.LOG), serve)


def _hand_on(raw: bytes, on_line: Callable[[LogLine], None], *, proxied: bool) -> None:
    try:
        line = parse_line(raw, proxied=proxied)
    except ValueError as error:
        print(f"bridge: {error}: {raw[:300]!r}", file=sys.stderr, flush=True)
        return
    if line is not None:
        on_line(line)
