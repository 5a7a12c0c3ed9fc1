"""
The ground on which `aisb doctor --deep` stands: a project that is thrown away, services of this machine that listen for
whoever comes out, a value that must not be inside, and the words that go in and out.

Nothing of the user's is in it, and nothing of it is left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from aisb.assets import asset_path
from aisb.domain.attempts import BOMB, LONGEST_REPORT, OWNED, RAW_V6, UNHEARD, UNTOUCHED, VSOCK, Seen
from aisb.effects.host import host_addresses
from aisb.effects.process import Command
from aisb.effects.session import start_time
from aisb.effects.signals import left_to_others
from aisb.effects.state import has_room_for_sockets, make_private, read_if_there
from aisb.errors import AisbError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aisb.effects.process import Runner
    from aisb.effects.session import Session
    from aisb.effects.state import Directories

# No such host can be (RFC 6761); it is allowed, so that a policy allows something, and nobody ever dials it.
NAME = "doctor.invalid"
INJECTED = "DOCTOR_TOKEN"
VARIABLE = "DOCTOR_WORDS"
# Everything that a value may hold.
WORDS = bytes(range(1, 256))
MOST_PROCESSES = 256
SECONDS = 60
_GATE_SECONDS = 30.0
_PYTHON = "/usr/bin/python3"
# Reads as much as it is told to, and leaves the rest to the program.
_BEGIN = "import sys;s=sys.stdin.buffer;exec(s.read(int(s.readline())))"
COMMAND = (_PYTHON, "-I", "-S", "-c", _BEGIN)
# Each after those that it needs.
MODULES = (
    "dns",
    "attempts_kernel",
    "attempts_network",
    "attempts_files",
    "attempts_rules",
    "attempts_work",
    "attempts",
)
_PROGRAM = """
import json, sys, types
package = sys.modules["gate"] = types.ModuleType("gate")
package.__path__ = []
for name, text in json.loads({sources!r}):
    module = sys.modules["gate." + name] = types.ModuleType("gate." + name)
    setattr(package, name, module)
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules["gate.attempts"].main(json.loads({given!r}))
"""
_GIT = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    "hooks/pre-commit": "#!/bin/sh\nexit 0\n",
    "info/attributes": "",
}
_CANARY = "beside the project\n"
_AF_VSOCK = 40


def program(given: Mapping[str, object]) -> bytes:
    """What a Python that was started by COMMAND reads, to try everything and say what came of it."""
    sources = [(name, _source(name)) for name in MODULES]
    text = _PROGRAM.format(sources=json.dumps(sources), given=json.dumps(given)).encode("ascii")
    return b"%d\n%b" % (len(text), text)


def _source(name: str) -> str:
    with open(asset_path("gate", f"{name}.py"), encoding="utf-8") as file:
        return file.read()


class Ground(NamedTuple):
    """Where it all is: aisb's own directories for this one run, the project, and what lies beside it."""

    directories: Directories
    project: str
    outside: str
    listeners: Listeners
    # What only the gate is to have, and what it is known by.
    secret: str
    salt: str

    def given(self, user: str, left_out: Mapping[str, str]) -> dict[str, object]:
        """What the program inside has to know."""
        return {
            "where": "sandbox",
            "left_out": list(left_out),
            "name": NAME,
            "listening": self.listeners.places,
            "abstract": self.listeners.abstract,
            # One of a link alone is none without the name of a device, which there is not inside.
            "addresses": [address for address in host_addresses() if not address.startswith("fe80:")],
            "outside": self.outside,
            "token": INJECTED,
            "salt": self.salt,
            "hash": hashlib.sha256(f"{self.salt}{self.secret}".encode("ascii")).hexdigest(),
            "variable": VARIABLE,
            "variable_hash": hashlib.sha256(WORDS).hexdigest(),
            "user": user,
            "has_v6": has_v6(),
            "most_processes": MOST_PROCESSES,
        }

    def seen(self) -> dict[str, Seen]:
        """What came of it on this machine."""
        made = f"{self.project}/made"
        is_ours = os.path.isfile(made) and os.lstat(made).st_uid == os.getuid()
        is_left_alone = os.listdir(self.outside) == ["canary"] and _read(f"{self.outside}/canary") == _CANARY
        is_left_alone = is_left_alone and all(_read(f"{self.project}/.git/{name}") == _GIT[name] for name in _GIT)
        heard = self.listeners.heard
        return {
            OWNED: Seen("yes" if is_ours else "no", 0.0),
            UNTOUCHED: Seen("as it was" if is_left_alone else "changed", 0.0),
            UNHEARD: Seen(f"{heard} connections" if heard else "nothing", 0.0),
        }


@contextlib.contextmanager
def ground(where: Directories) -> Iterator[Ground]:
    """One, and nothing of it afterwards."""
    cache = make_private(where.cache)
    with contextlib.ExitStack() as stack:
        # Short: a socket's path has an end.
        runtime = stack.enter_context(_directory("aisb-deep-", os.path.dirname(where.runtime)))
        if not has_room_for_sockets(runtime):
            raise Unavailable(f"XDG_RUNTIME_DIR {os.path.dirname(runtime)} is too long for a socket's path")
        place = stack.enter_context(_directory("deep-", cache))
        listeners = stack.enter_context(listening())
        project, outside = f"{place}/project", f"{place}/outside"
        for directory in (outside, f"{project}/.git/objects", f"{project}/.git/refs/heads"):
            os.makedirs(directory)
        _write(f"{outside}/canary", _CANARY)
        for name, text in _GIT.items():
            _write(f"{project}/.git/{name}", text)
        os.chmod(f"{project}/.git/hooks/pre-commit", 0o700)
        os.symlink(outside, f"{project}/out")
        own = where._replace(runtime=runtime, state=f"{place}/state")
        yield Ground(own, project, outside, listeners, os.urandom(20).hex(), os.urandom(8).hex())


@contextlib.contextmanager
def _directory(prefix: str, parent: str) -> Iterator[str]:
    """One of this process's own, and none any more of processes that were killed."""
    for name in os.listdir(parent):
        if _is_left(name, prefix):
            shutil.rmtree(f"{parent}/{name}", ignore_errors=True)
    path = f"{parent}/{prefix}{os.getpid()}-{start_time('self')}-{os.urandom(2).hex()}"
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _is_left(name: str, prefix: str) -> bool:
    """Whether a directory is one of a process that is gone."""
    parts = name.removeprefix(prefix).split("-") if name.startswith(prefix) else []
    return len(parts) == 3 and parts[0].isdecimal() and start_time(parts[0]) != parts[1]


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _read(path: str) -> str:
    """A file, "" where it is none any more."""
    return (read_if_there(path) or b"").decode("utf-8", "replace") if os.path.isfile(path) else ""


def has_v6() -> bool:
    """Whether this machine has IPv6."""
    return bool(read_if_there("/proc/net/if_inet6"))


def left_out(unkept: tuple[str, ...], why: str) -> dict[str, str]:
    """What cannot be tried on this machine, and why. `unkept` are the caps that it cannot keep, for that reason."""
    reasons = {} if has_v6() else {RAW_V6: "this machine has no IPv6"}
    if "pids-limit" in unkept:
        reasons[BOMB] = f"nothing would end it: {why}"
    if not _has_vsock():
        reasons[VSOCK] = "this machine's kernel has no such sockets"
    return reasons


def _has_vsock() -> bool:
    try:
        socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


class Listeners:
    """Services of this machine that nobody inside may reach: on its loopback, and by an abstract name."""

    def __init__(self, sockets: list[socket.socket], abstract: str) -> None:
        self._sockets = sockets
        self.abstract = abstract
        self.places = [place[:2] for place in (item.getsockname() for item in sockets) if isinstance(place, tuple)]
        self.heard = 0

    def listen(self, ended: int) -> None:
        """Count who comes, until that descriptor can be read."""
        while True:
            waiting: list[int | socket.socket] = [ended, *self._sockets]
            ready = select.select(waiting, [], [])[0]
            for item in ready:
                if isinstance(item, socket.socket):
                    with contextlib.suppress(OSError):
                        who = item.accept()[0]
                        # Before it can notice.
                        self.heard += 1
                        who.close()
            if ended in ready:
                return


@contextlib.contextmanager
def listening() -> Iterator[Listeners]:
    """Listen, in a thread, to the end of the block."""
    abstract = f"aisb-doctor-{os.urandom(8).hex()}"
    with contextlib.ExitStack() as stack:
        sockets = []
        for family, address in _places(abstract):
            item = stack.enter_context(socket.socket(family))
            item.bind(address)
            item.listen()
            sockets.append(item)
        listeners = Listeners(sockets, abstract)
        ended, end = os.pipe2(os.O_CLOEXEC)
        thread = threading.Thread(target=listeners.listen, args=(ended,), daemon=True)
        with left_to_others():
            thread.start()
        try:
            yield listeners
        finally:
            os.close(end)
            thread.join()
            os.close(ended)


def _places(abstract: str) -> list[tuple[int, tuple[str, int] | str]]:
    v6: list[tuple[int, tuple[str, int] | str]] = [(socket.AF_INET6, ("::1", 0))] if has_v6() else []
    return [(socket.AF_INET, ("127.0.0.1", 0)), *v6, (socket.AF_UNIX, f"\0{abstract}")]


class Talk:
    """What goes into a sandbox and what comes out; `beside` is done meanwhile, and the sandbox stays until it is."""

    # As which the run is known while it lasts.
    name = "doctor"

    def __init__(self, words: bytes, beside: Callable[[Session], bytes]) -> None:
        self._words = words
        self._beside = beside
        self._threads: list[threading.Thread] = []
        self.report = b""
        self.report_beside = b""

    def lend(self, session: Session) -> tuple[int, int]:
        """Stdin and stdout of the sandbox of that run, which is about to begin."""
        theirs_in, ours_in = os.pipe2(os.O_CLOEXEC)
        ours_out, theirs_out = os.pipe2(os.O_CLOEXEC)
        self._threads = [
            threading.Thread(target=self._speak, args=(ours_in, session), daemon=True),
            threading.Thread(target=self._hear, args=(ours_out,), daemon=True),
        ]
        with left_to_others():
            for thread in self._threads:
                thread.start()
        return theirs_in, theirs_out

    def is_to_end(self) -> None:
        """Nobody of it waits for anybody."""

    def gate_has_ended(self, words: str) -> None:
        """What has to work does not then, and is said."""

    def is_over(self) -> bool:
        """It is the sandbox that ends."""
        return False

    def finish(self) -> None:
        """Wait for what is still being said."""
        for thread in self._threads:
            thread.join()

    def _speak(self, descriptor: int, session: Session) -> None:
        # A sandbox that does not start reads nothing.
        with contextlib.suppress(OSError), os.fdopen(descriptor, "wb", buffering=0) as sandbox:
            sandbox.write(self._words)
            self.report_beside = self._beside(session)

    def _hear(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as sandbox:
            while data := sandbox.read(65536):
                self.report = (self.report + data)[: LONGEST_REPORT + 1]


def in_gate(argv: tuple[str, ...], words: bytes, runner: Runner) -> bytes:
    """What the same program says in a gate; nothing where it cannot be started there."""
    try:
        return runner.run(Command(argv=argv, timeout_seconds=_GATE_SECONDS, input=words)).stdout
    except AisbError:
        return b""
