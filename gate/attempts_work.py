"""What has to work inside a sandbox, for a wall that nothing gets through may be one that nobody can work behind."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import socket
import ssl
import stat
import subprocess
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from gate.attempts_network import (
    ALLOWED,
    DENIED,
    GATE,
    MADE_UP,
    NOBODY,
    PROXY,
    begun,
    connect,
    dial,
    get,
    greeted,
    hello,
    made_up,
    raw,
    said,
    status,
    tunnel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Given = Mapping[str, Any]

YES, NO = "yes", "no"
_SECONDS = 20.0
_AT_ONCE_SECONDS = 5.0
_MANY = 24


def _yes(holds: object) -> str:
    return YES if holds else NO


def _run(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    return YES if done.returncode == 0 else f"exit {done.returncode}"


def _resolves(_given: Given) -> str:
    return _yes(socket.inet_aton(made_up(ALLOWED))[:2] in MADE_UP)


def _http(_given: Given) -> str:
    return status(said((made_up(ALLOWED), 80), get("/", ALLOWED)))


def _http_by_proxy(_given: Given) -> str:
    variable = os.environ["http_proxy"]
    return status(said(_place_of(variable), get(f"http://{ALLOWED}/", ALLOWED)))


def _place_of(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("//")[2].strip("/").rpartition(":")
    return host, int(port)


def _tls(_given: Given) -> str:
    with dial((made_up(ALLOWED), 443)) as client:
        return greeted(client, hello(ALLOWED))


def _tls_by_proxy(_given: Given) -> str:
    if _place_of(os.environ["https_proxy"]) != PROXY:
        return "another proxy"
    with tunnel(ALLOWED, 443) as client:
        return greeted(client, hello(ALLOWED))


def _by_socket(_given: Given) -> str:
    return status(begun(GATE, connect(ALLOWED, 443)))


def _refused_in_words(_given: Given) -> str:
    answer = said(PROXY, get(f"http://{DENIED}/", DENIED))
    return _yes(status(answer) == "403" and b"reason: " in answer and DENIED.encode("ascii") in answer)


def _refused_at_once(_given: Given) -> str:
    started = time.monotonic()
    seen = raw(NOBODY, 443)
    return seen if time.monotonic() - started < _AT_ONCE_SECONDS else "late"


def _own_server(given: Given) -> str:
    for address in ("127.0.0.1", *(["::1"] if given["has_v6"] else [])):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
            server.bind((address, 0))
            server.listen()
            with dial((address, server.getsockname()[1])) as client:
                served = server.accept()[0]
                served.sendall(b"mine")
                served.close()
                if client.recv(4) != b"mine":
                    return NO
    return YES


def _project(_given: Given) -> str:
    with open("made.new", "w", encoding="ascii") as file:
        file.write("made inside\n")
        os.fsync(file.fileno())
    os.rename("made.new", "made")
    os.mkdir("folder")
    os.symlink("../made", "folder/link")
    with open("folder/link", encoding="ascii") as file:
        return _yes(file.read() == "made inside\n")


def _git(_given: Given) -> str:
    if not any(os.access(f"{place}/git", os.X_OK) for place in os.environ["PATH"].split(":")):
        return "no git"
    with open("committed", "w", encoding="ascii") as file:
        file.write("committed inside\n")
    identity = ("-c", "user.name=doctor", "-c", "user.email=doctor@aisb.internal")
    added = _run("git", "add", "committed")
    return added if added != YES else _run("git", *identity, "commit", "--quiet", "--message", "inside")


def _home(_given: Given) -> str:
    home = os.environ["HOME"]
    found = os.stat(home)
    with tempfile.NamedTemporaryFile(dir=home) as file:
        file.write(b"x")
    return _yes(found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0)


def _temporary(_given: Given) -> str:
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        with tempfile.NamedTemporaryFile(dir=place) as file:
            file.write(b"x")
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/script"
        with open(path, "w", encoding="ascii") as script:
            script.write("#!/bin/sh\nexit 0\n")
        os.chmod(path, 0o700)
        return _run(path)


def _variables(given: Given) -> str:
    found = os.environb.get(given["variable"].encode("ascii"), b"")
    return _yes(hashlib.sha256(found).hexdigest() == given["variable_hash"])


def _user(given: Given) -> str:
    return _yes(pwd.getpwuid(os.getuid()).pw_name == given["user"] == os.environ["USER"])


def _terminal(_given: Given) -> str:
    ours, theirs = _open_terminal()
    os.write(ours, b"line\n")
    found = os.isatty(theirs) and os.read(theirs, 64) == b"line\n"
    for descriptor in (ours, theirs):
        os.close(descriptor)
    return _yes(found)


def _open_terminal() -> tuple[int, int]:
    """A new one. The machine has so many for all who are on it, and another program may use them up for a moment."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return os.openpty()
        except OSError as error:
            if error.errno != errno.ENOSPC or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _many(_given: Given) -> str:
    """Processes and threads at the same time, and one that is ended by a signal."""
    children = [subprocess.Popen(("/bin/sleep", "60"), stdin=subprocess.DEVNULL) for _ in range(_MANY)]
    for child in children:
        child.terminate()
    ended = {child.wait(_SECONDS) for child in children}
    heard: list[int] = []
    threads = [threading.Thread(target=heard.append, args=(number,)) for number in range(_MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _yes(ended == {-15} and len(heard) == _MANY)


def _devices(_given: Given) -> str:
    with open("/dev/urandom", "rb", buffering=0) as random, open("/dev/zero", "rb", buffering=0) as zero:
        found = len(random.read(16)) == 16 and zero.read(4) == bytes(4)
    with open("/dev/null", "wb", buffering=0) as null:
        return _yes(found and null.write(b"x") == 1)


def _certificates(_given: Given) -> str:
    return _yes(ssl.create_default_context().cert_store_stats()["x509_ca"])


ATTEMPTS: Mapping[str, Callable[[Given], str]] = {
    "an allowed name resolves": _resolves,
    "HTTP, without knowing of a proxy": _http,
    "HTTP by the proxy's variable": _http_by_proxy,
    "TLS, without knowing of a proxy": _tls,
    "TLS by the proxy's variable": _tls_by_proxy,
    "the gate by its socket": _by_socket,
    "a refusal says why": _refused_in_words,
    "a refusal comes at once": _refused_at_once,
    "a server of one's own": _own_server,
    "files in the project": _project,
    "git in the project": _git,
    "the home": _home,
    "temporary files": _temporary,
    "variables, byte for byte": _variables,
    "the user's name": _user,
    "terminals": _terminal,
    "processes, threads and signals": _many,
    "devices that everybody has": _devices,
    "certificates": _certificates,
}
