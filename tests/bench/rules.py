"""
The rules of the bench, as the addon of another proxy: the same lines as in the policy that the gate gets.

The last rule that matches wins; what none matches is refused, and so is every other host.
"""

from __future__ import annotations

import os
import re
from typing import Any

from mitmproxy import http

# `ACTION METHOD PATH`, by a blank each; PATH as in a policy file.
LINES = os.environ["BENCH_RULES"].splitlines()
HOST = os.environ["BENCH_NAME"]
# The one that gets the secret, whatever is asked.
INJECTED, SECRET = os.environ["BENCH_INJECTED"], os.environ["BENCH_SECRET"]
RULES = [
    (action == "ALLOW", method, re.compile(path)) for action, method, path in (line.split(" ", 2) for line in LINES)
]


class Rules:
    """Answers 403 in a server's place where the rules say no."""

    def request(self, flow: Any) -> None:
        """One request whose head is here."""
        asked = flow.request
        allowed = False
        if asked.pretty_host == HOST:
            path = asked.path.partition("?")[0]
            for allows, method, pattern in RULES:
                if method in ("*", asked.method) and pattern.fullmatch(path):
                    allowed = allows
        elif asked.pretty_host == INJECTED:
            allowed = True
            asked.headers["Authorization"] = f"Bearer {SECRET}"
        if not allowed:
            flow.response = http.Response.make(403, b"refused\n")


addons = [Rules()]
