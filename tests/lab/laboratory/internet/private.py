"""
A git repository behind a password, which can be pushed to: git's own server behind the fake internet's web server.
"""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile

NAME = "private.git"
ACCEPTED = "-accepted"
_made: list[tempfile.TemporaryDirectory[str]] = []
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def respond(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
    """
    Status, headers and body of the answer; 401 without a password that is accepted.
    """
    if not _password(headers.get("authorization", "")).endswith(ACCEPTED):
        return 401, {"www-authenticate": 'Basic realm="private"'}, b"who are you?\n"
    path, _, query = target.partition("?")
    environment = _ENVIRONMENT | {
        "GIT_PROJECT_ROOT": _root(),
        "GIT_HTTP_EXPORT_ALL": "yes",
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "REMOTE_USER": "somebody",
    }
    done = subprocess.run(("git", "http-backend"), input=body, stdout=subprocess.PIPE, env=environment, check=True)
    head, _, answer = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
    return int(fields.pop("status", "200").split()[0]), fields, answer


def _password(header: str) -> str:
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    return base64.b64decode(text).decode("latin-1").partition(":")[2]


def _root() -> str:
    """
    Where the repository is, made for the first who comes.
    """
    if not _made:
        folder = tempfile.TemporaryDirectory()
        subprocess.run(
            ("git", "init", "--quiet", "--bare", "--initial-branch=main", os.path.join(folder.name, NAME)),
            check=True, env=_ENVIRONMENT,
        )  # fmt: skip
        _made.append(folder)
    return _made[0].name
