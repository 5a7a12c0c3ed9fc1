"""
In front of the registry on 127.0.0.1:5000, one that breaks: for each of FAULTS the script is run, with the address.

Manifests and blobs of the repository are handed on; FAULT decides what becomes of them. While there is a file `waits`, a
client that asks too often is not told when to ask again.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import urllib.error
import urllib.request

REAL = "http://127.0.0.1:5000"
KINDS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.manifest.v1",
        "oci.image.index.v1",
        "docker.distribution.manifest.v2",
        "docker.distribution.manifest.list.v2",
    )
)
ELSEWHERE = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            {
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": "sha256:" + "0" * 64,
                "size": 2,
                "platform": {"os": "linux", "architecture": "s390x"},
            }
        ],
    }
).encode()
fault = ""


class Handler(http.server.BaseHTTPRequestHandler):
    """Breaks as it is told to."""

    def do_GET(self) -> None:
        """A page of the real registry, or what stands in for it."""
        if self.path == "/v2/":
            self._answer(200, b"{}", "application/json")
        elif fault.isdecimal():
            self._answer(int(fault), b'{"errors": []}', "application/json")
        elif fault == "elsewhere":
            self._answer(200, ELSEWHERE, "application/vnd.oci.image.index.v1+json")
        elif fault == "garbage":
            self._answer(200, b"<html>", "text/html")
        else:
            self._hand_on()

    def do_HEAD(self) -> None:
        """The same without its body."""
        self.do_GET()

    def _hand_on(self) -> None:
        # The tag has moved: to an image that nobody has fetched yet.
        path = self.path.replace("/manifests/1", "/manifests/moved") if fault == "truncated" else self.path
        try:
            with urllib.request.urlopen(urllib.request.Request(REAL + path, headers={"Accept": KINDS})) as answer:
                data, kind = answer.read(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            self._answer(error.code, error.read(), "application/json")
            return
        self._answer(200, data, kind, cut=fault == "truncated" and "/blobs/" in path)

    def _answer(self, status: int, data: bytes, kind: str, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        # Whoever is not told how long to wait waits for longer each time.
        if status == http.HTTPStatus.TOO_MANY_REQUESTS and not os.path.exists("waits"):
            self.send_header("Retry-After", "0")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[: len(data) // 2] if cut else data)

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for fault in os.environ["FAULTS"].split():
    if fault == "down":
        server.shutdown()
        server.server_close()
    subprocess.run(
        ("sh", "-c", os.environ["SCRIPT"]), stdin=subprocess.DEVNULL, env=os.environ | {"FAULT": fault}, check=True
    )
