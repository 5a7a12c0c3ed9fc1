"""
A client of `aisb serve`: a text of a test follows this one, and both run on the host.

`Session(FLAG...)` starts it and waits for its first word. `call` waits for an answer; `begin` and `wait` are its halves.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import struct
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = struct.Struct(">II")
PATIENCE_SECONDS = 60.0
RUNTIME = os.environ["XDG_RUNTIME_DIR"] + "/aisb"


class Answer:
    """What came of a request: result or error, the body, and its streams."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.result: Any = None
        self.error: Any = None
        self.body = b""
        self.streams: dict[str, bytes] = collections.defaultdict(bytes)
        self.bytes = 0
        self.pieces = 0
        self.taken = 0
        self.done = threading.Event()
        self.heard = threading.Condition()

    @property
    def stdout(self) -> str:
        """The command's output, for comparing."""
        return self.streams["stdout"].decode("utf-8", "replace")

    @property
    def code(self) -> int:
        """Of an error."""
        return int(self.error["code"]) if self.error else 0

    def wait_for(self, text: bytes) -> None:
        """Until the command has written that."""
        with self.heard:
            assert self.heard.wait_for(lambda: text in self.streams["stdout"] or self.done.is_set(), PATIENCE_SECONDS)


class Session:
    """`aisb serve`, and what it says. Without `keep` output is counted and forgotten."""

    def __init__(self, *flags: str, keep: bool = True, env: dict[str, str] | None = None) -> None:
        self.began = time.monotonic()
        pipe = subprocess.PIPE
        environment = None if env is None else os.environ | env
        self.process = subprocess.Popen(
            ["aisb", "serve", *flags], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        assert self.process.stdin
        self.into = self.process.stdin
        self.keep = keep
        self.hello: Any = None
        self.failed: Any = None
        self.greeted = threading.Event()
        self.notes: list[tuple[str, Any]] = []
        self.noted = threading.Condition()
        self.answers: dict[int | None, Answer] = {}
        self.next = 1
        self.lock = threading.Lock()
        self.errors = ""
        self.threads = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for thread in self.threads:
            thread.start()
        self.greeted.wait()
        self.seconds = time.monotonic() - self.began

    def _exactly(self, count: int) -> bytes:
        assert self.process.stdout
        data = self.process.stdout.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def _read_errors(self) -> None:
        assert self.process.stderr
        self.errors = self.process.stderr.read().decode()

    def _read(self) -> None:
        try:
            while True:
                header, body = LENGTHS.unpack(self._exactly(8))
                self._take(json.loads(self._exactly(header)), self._exactly(body) if body else b"")
        except EOFError:
            self.greeted.set()
            for answer in self.answers.values():
                answer.done.set()

    def _take(self, header: Any, body: bytes) -> None:
        if "method" not in header:
            answer = self.answers.setdefault(header["id"], Answer(0))
            answer.result, answer.error, answer.body = header.get("result"), header.get("error"), body
            answer.done.set()
            with answer.heard:
                answer.heard.notify_all()
            return
        method, params = header["method"], header["params"]
        if method in ("data", "taken"):
            answer = self.answers[params["id"]]
            assert not answer.done.is_set(), "something comes after the answer"
            with answer.heard:
                answer.taken += params.get("bytes", 0)
                answer.bytes += len(body)
                answer.pieces += method == "data"
                if self.keep and method == "data":
                    answer.streams[params["stream"]] += body
                answer.heard.notify_all()
            return
        with self.noted:
            self.notes.append((method, params))
            self.noted.notify_all()
        if method in ("hello", "failed"):
            setattr(self, method, params)
            self.greeted.set()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """A frame."""
        text = json.dumps({"jsonrpc": "2.0", **header}).encode()
        self.send_bytes(LENGTHS.pack(len(text), len(body)) + text + body)

    def send_bytes(self, data: bytes) -> None:
        """What may be no frame."""
        with self.lock, contextlib.suppress(BrokenPipeError):
            self.into.write(data)
            self.into.flush()

    def begin(self, method: str, body: bytes = b"", **params: Any) -> Answer:
        """A request, not waited for."""
        number = self.next
        self.next += 1
        answer = self.answers[number] = Answer(number)
        self.send({"id": number, "method": method, "params": params}, body)
        return answer

    def wait(self, answer: Answer) -> Answer:
        """The answer, once it is there."""
        assert answer.done.wait(PATIENCE_SECONDS), "no answer"
        return answer

    def call(self, method: str, body: bytes = b"", **params: Any) -> Answer:
        """A request and its answer."""
        return self.wait(self.begin(method, body, **params))

    def tell(self, method: str, body: bytes = b"", **params: Any) -> None:
        """A notification."""
        self.send({"method": method, "params": params}, body)

    def sh(self, text: str, **params: Any) -> Answer:
        """A text for a shell."""
        return self.call("exec", command=["sh", "-c", text], **params)

    def note(self, wanted: str, fits: Callable[[Any], bool] = bool) -> Any:
        """The first notification of that name that fits, waited for."""

        def found() -> list[Any]:
            return [params for name, params in self.notes if name == wanted and fits(params)]

        with self.noted:
            assert self.noted.wait_for(found, PATIENCE_SECONDS), f"no {wanted}: {self.notes}"
            return found()[0]

    def end(self) -> int:
        """End of file, and the exit code."""
        with contextlib.suppress(BrokenPipeError):
            self.into.close()
        return self.wait_for_end()

    def wait_for_end(self) -> int:
        """The exit code."""
        code = self.process.wait(PATIENCE_SECONDS)
        for thread in self.threads:
            thread.join()
        return code


def names(directory: str) -> list[str]:
    """What is there."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(os.listdir(directory))
    return []


def left() -> list[str]:
    """What there is of our sandboxes: containers, directories of runs, volumes without a name."""
    argv = ("podman", "ps", "-aq", "--filter", "label=aisb.role=sandbox")
    containers = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return [*containers, *(volumes() - VOLUMES), *(directories() - DIRECTORIES)]


def directories() -> set[str]:
    """Of runs: their ids."""
    parents = [f"{RUNTIME}/r", *(f"{RUNTIME}/g/{gate}/r" for gate in names(f"{RUNTIME}/g"))]
    return {name for parent in parents for name in names(parent)}


def volumes() -> set[str]:
    """All of them; none where there is no podman."""
    with contextlib.suppress(OSError):
        argv = ("podman", "volume", "ls", "-q")
        return set(subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split())
    return set()


VOLUMES = volumes()
# A test that was killed with all that it had started leaves some, until a run like its own begins.
DIRECTORIES = directories()


def nap(number: int) -> str:
    """How long a `sleep` of this session's takes: no other host's, with which this one shares its processes, says so."""
    return f"{number}.{os.getpid():08}"


def asleep(*numbers: int) -> list[str]:
    """The `sleep`s of those names that there are on the host."""
    found = []
    for number in numbers:
        argv = ("pgrep", "-xf", f"sleep {nap(number)}")
        found += subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    return found


def remains(look: Callable[[], list[str]]) -> list[str]:
    """What is still there when all of it has had time to go."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def report(**found: Any) -> None:
    """For the test."""
    print(json.dumps(found))
