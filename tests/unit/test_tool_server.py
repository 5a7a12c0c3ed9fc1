"""The tool server as a process of its own, spoken to as aisb speaks to it: what must not end it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

import pytest

from aisb.domain.frames import MOST_HEADER_BYTES, Frame, Reader, encode, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER = "from gate.tools import main; main({b'PATH': b'/usr/bin:/bin'})"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# As much as it reads at once.
PIECE_BYTES = 1 << 18


class Tools:
    """A tool server, and its answers in the order in which they came."""

    def __init__(self, place: Path, errors: IO[bytes], before: bytes) -> None:
        reading, self._into = os.pipe2(os.O_CLOEXEC)
        fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.write(self._into, before)
        self._errors = errors
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=reading, stdout=subprocess.PIPE, stderr=self._errors, cwd=place, env={"PYTHONPATH": ROOT},
        )  # fmt: skip
        os.close(reading)
        self._frames = self._read()
        next(self._frames)

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout
        reader = Reader()
        while data := os.read(self.process.stdout.fileno(), PIECE_BYTES):
            for frame in reader.feed(data):
                yield frame.header

    def say(self, data: bytes) -> None:
        """Frames, as bytes."""
        os.write(self._into, data)

    def answer(self) -> Any:
        """What the next answer says: the result, or code and errno; None where none comes any more."""
        header = next((header for header in self._frames if "id" in header), None)
        if header is None or "result" in header:
            return header and header["result"]
        return header["error"]["code"], header["error"].get("data", {}).get("errno")

    def call(self, method: str, **params: object) -> Any:
        """A request and its answer."""
        self.say(request(1, method, **params))
        return self.answer()

    def descriptors(self) -> set[int]:
        """What it has open."""
        return set(map(int, os.listdir(f"/proc/{self.process.pid}/fd")))

    def end(self) -> tuple[int, bytes]:
        """How it ended, and what it said of that."""
        os.close(self._into)
        for _ in self._frames:
            pass
        code = self.process.wait(20)
        self._errors.seek(0)
        return code, self._errors.read()


@contextlib.contextmanager
def tools(place: Path, before: bytes = b"") -> Iterator[Tools]:
    """One that has to be there at the end."""
    # A file: of a pipe that nobody reads a long complaint would wait for ever.
    with tempfile.TemporaryFile() as errors:
        server = Tools(place, errors, before)
        with server.process:
            try:
                yield server
                assert server.end() == (0, b"")
            finally:
                server.process.kill()


def request(number: int, method: str, body: bytes = b"", **params: object) -> bytes:
    return encode(Frame({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, body))


def note(method: str, body: bytes = b"", **params: object) -> bytes:
    return encode(Frame({"jsonrpc": "2.0", "method": method, "params": params}, body))


def test_a_reading_that_is_cancelled_as_it_begins_ends_alone(tmp_path: Path) -> None:
    """The word comes between the decision to read on and the reading."""
    (tmp_path / "large").write_bytes(bytes(3 * PIECE_BYTES))
    reading = request(1, "readFile", path="large")
    head = len(note("data", b"", id=9, last=False))
    before = note("data", bytes(PIECE_BYTES - len(reading) - head), id=9, last=False) + reading
    assert len(before) == PIECE_BYTES

    with tools(tmp_path, before + note("cancel", id=1)) as server:
        assert (server.answer(), server.call("access", path=".")) == ((-32003, None), {})


@pytest.mark.parametrize("method", ["readFile", "writeFile", "stat", "readdir", "mkdir", "access", "exec"])
@pytest.mark.parametrize("letter", ["a", "\udcff"], ids=["", "not UTF-8"])
def test_a_path_as_long_as_a_frame_is_refused_and_nothing_else(tmp_path: Path, method: str, letter: str) -> None:
    """Where the answer repeated it, it was longer than a frame may be."""
    name = "cwd" if method == "exec" else "path"
    more: dict[str, object] = {"command": ["true"]} if method == "exec" else {}
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**more, name: ""}}
    room = MOST_HEADER_BYTES - (len(head_of(frame, 0)) - 8)
    path = letter * (room // len(letter.encode("utf-8", "backslashreplace")))

    with tools(tmp_path) as server:
        assert (server.call(method, **more, **{name: path}), server.call("access", path=".")) == (
            (-32010, "ENAMETOOLONG"),
            {},
        )


def test_what_was_too_much_for_a_moment_leaves_nothing_open(tmp_path: Path) -> None:
    """A command takes some descriptors to begin; where there are not enough, those that there were are free again."""
    with tools(tmp_path) as server:
        server.call("access", path=".")
        before = server.descriptors()
        room = [number for number in range(64) if number not in before][:6]
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (room[-1] + 1, 64))
        refused = [server.call("exec", command=["true"], stdin=True) for _ in range(3)]
        after = server.descriptors()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        later = server.call("exec", command=["true"], stdin=True)

    assert (refused, after, later["exitCode"]) == ([(-32010, "EMFILE")] * 3, before, 0)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("new/", "EISDIR"), ("new/.", "EISDIR"), ("file/", "EISDIR"), ("file/..", "EISDIR"), ("sub", "EISDIR"), ("/", "EISDIR"),
        ("none/../new", "ENOENT"), ("file/../new", "ENOTDIR"), ("none/new", "ENOENT"), ("loop", "ELOOP"), ("loop/new", "ELOOP"),
    ],
)  # fmt: skip
def test_what_the_kernel_has_no_file_of_is_not_written(tmp_path: Path, path: str, why: str) -> None:
    """Nor anything else in its place."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "sub").mkdir()
    os.symlink("loop", tmp_path / "loop")

    with tools(tmp_path) as server:
        server.say(request(1, "writeFile", b"x", path=path))
        assert server.answer() == (-32010, why)

    assert sorted(os.listdir(tmp_path)) == ["file", "loop", "sub"]
    assert (tmp_path / "file").read_text() == "kept"
