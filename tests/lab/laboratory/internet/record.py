"""
The log of all that arrived: one JSON object a line, written before the server answers.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
from typing import Any

from laboratory.settings import SITES


class Log:
    """
    Appends events; several processes may share the file, because each event is one write.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def add(self, event: str, /, **fields: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event} | fields)
        os.write(self._file, line.encode() + b"\n")


def plain(address: str) -> str:
    """
    An address without the dress that a two-family socket gives it: `::ffff:203.0.113.1` is 203.0.113.1.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(parsed)


def sink_of(address: str) -> str:
    """
    Whose address this is: a name of the fake internet, or "elsewhere" for the rest of the world.
    """
    return next((name for name, addresses in SITES.items() if address in addresses), "elsewhere")
