#!/usr/bin/python3 -IS
"""
The servers of one network namespace.

    serve.py internet|canaries DIRECTORY

`internet` is all of the world but the host; `canaries` are on the host itself, where nothing may ever arrive.
Writes a line to stdout once everything listens. A connection to DIRECTORY/NAME.sock is answered once all that has
arrived before is in the log.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from laboratory.internet import repository
from laboratory.internet.authority import Authority
from laboratory.internet.dns import NameServer
from laboratory.internet.listeners import Datagrams, Internet, Listener, dns, http, https, speaks_first
from laboratory.internet.record import Log
from laboratory.settings import CANARIES

SSH = speaks_first(b"SSH-2.0-laboratory\r\n", b"")
SMTP = speaks_first(b"220 laboratory ESMTP\r\n", b"250 ok\r\n")
ECHO = speaks_first(b"", None)
CANARY = speaks_first(b"host canary\r\n", b"")

TCP_PORTS = {22: SSH, 25: SMTP, 53: dns, 80: http, 443: https, 5432: ECHO, 8443: https}
UDP_PORTS = (9, 53, 123, 443)


def main(role: str, directory: Path) -> None:
    log = Log(str(directory / "sinks.jsonl"))
    internet = Internet(
        log, Authority(directory / "authority"), NameServer(log, directory / "names"), directory / "www"
    )
    servers: list[Listener | Datagrams] = []
    if role == "internet":
        repository.make(directory / "www")
        servers += [Listener(internet, "::", port, handler) for port, handler in TCP_PORTS.items()]
        servers += [Datagrams(internet, address, port) for port in UDP_PORTS for address in ("0.0.0.0", "::")]
    else:
        servers += [Listener(internet, address, port, CANARY, sink="host") for address, port in CANARIES]
    control = directory / f"{role}.sock"
    control.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(control))
        listening.listen()
        os.write(1, b"ready\n")
        os.close(1)
        while True:
            client, _ = listening.accept()
            with client:
                for server in servers:
                    server.drain()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
