"""
A web server on this host's loopback for as long as a command runs; `{address}` in its words is the server's.

SCRIPT in the environment is for `sh -c`. STATUS, where it is set, answers everything; else files below `served` do.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from typing import Any


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files, or the one status that was asked for."""

    def send_head(self) -> Any:
        """What the answer to GET and HEAD begins with."""
        status = os.environ.get("STATUS")
        if status is None:
            return super().send_head()
        self.send_error(int(status))
        return None

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory="served"))
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"127.0.0.1:{server.server_port}"
script = os.environ["SCRIPT"].replace("{address}", address)
sys.exit(subprocess.run(("sh", "-c", script), stdin=subprocess.DEVNULL, check=False).returncode)
