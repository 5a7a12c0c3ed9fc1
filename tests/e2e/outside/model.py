"""
Runs on a host, as the account: a model on the host's own loopback, and the command beside it.

    python3 model.py PORT COMMAND...

Answers each request for a model with the token that came with it. The command's exit code is ours.
"""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Speaks the OpenAI chat-completions format, streamed."""

    def do_POST(self) -> None:  # the library's name
        """One message, and the end."""
        self.rfile.read(int(self.headers["Content-Length"]))
        text = f"the local model was told: {self.headers['Authorization']}"
        choices = [
            {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in choices:
            event = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> int:
    """Serve until the command ends."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return subprocess.run(sys.argv[2:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
