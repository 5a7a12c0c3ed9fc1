"""The tool server as a process of its own, spoken to as aisb speaks to it: what must not end it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

import pytest

from aisb.domain.frames import MOST_HEADER_BYTES, Frame, Reader, encode, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SERVER = "from gate.tools import main; main({b'PATH': b'/usr/bin:/bin'})"
PLAIN = (sys.executable, "-c", SERVER)
# As on a file system that has no files without a name.
WITHOUT_NAMELESS = (sys.executable, "-c", f"import os; os.O_TMPFILE = os.O_DIRECTORY; {SERVER}")
# As on a machine that has time for a keeper.
PATIENT = (sys.executable, "-c", f"from gate import tool_exec; tool_exec._PATIENCE_SECONDS = 60; {SERVER}")
# root writes what it may not, unless this is taken from it.
UNPRIVILEGED = (
    *(("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()),
    sys.executable,
    "-c",
    SERVER,
)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# As much as it reads at once.
PIECE_BYTES = 1 << 18


class Tools:
    """A tool server, and its answers in the order in which they came."""

    def __init__(self, place: Path, errors: IO[bytes], before: bytes, argv: Sequence[str]) -> None:
        reading, self._into = os.pipe2(os.O_CLOEXEC)
        fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, 1 << 20)
        os.write(self._into, before)
        self._errors = errors
        self.process = subprocess.Popen(
            argv,
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

    def hear(self, method: str) -> None:
        """Wait for a notification, which comes next."""
        assert next(self._frames)["method"] == method

    def answer(self) -> Any:
        """What the next answer says: the result, or code and errno; None where none comes any more."""
        header = next((header for header in self._frames if "id" in header), None)
        if header is None or "result" in header:
            return header and header["result"]
        return header["error"]["code"], header["error"].get("data", {}).get("errno")

    def is_heard(self, seconds: float) -> bool:
        """Whether it says something within that time."""
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

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
def tools(place: Path, before: bytes = b"", argv: Sequence[str] = PLAIN) -> Iterator[Tools]:
    """One that has to be there at the end."""
    # A file: of a pipe that nobody reads a long complaint would wait for ever.
    with tempfile.TemporaryFile() as errors:
        server = Tools(place, errors, before, argv)
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


@pytest.mark.parametrize("argv", [PLAIN, WITHOUT_NAMELESS], ids=["nameless", "named"])
def test_a_directory_that_vanishes_under_a_file_that_is_written_fails_that_call_alone(
    tmp_path: Path, argv: tuple[str, ...]
) -> None:
    """Its descriptor was closed twice then, which ended the session."""
    (tmp_path / "sub").mkdir()

    with tools(tmp_path, argv=argv) as server:
        server.say(request(1, "writeFile", b"x", path="sub/new", more=True))
        server.hear("taken")
        shutil.rmtree(tmp_path / "sub")
        server.say(note("data", b"y", id=1, last=True))
        assert (server.answer(), server.call("access", path=".")) == ((-32010, "ENOENT"), {})


@pytest.mark.parametrize("end", ["cancel", "end of file"])
def test_what_is_written_under_a_name_may_be_taken_away_by_anybody(tmp_path: Path, end: str) -> None:
    """A clean-up of the project, for one, while a write is cancelled or the session ends."""
    with tools(tmp_path, argv=WITHOUT_NAMELESS) as server:
        server.say(request(1, "writeFile", b"x", path="new", more=True))
        server.hear("taken")
        for path in tmp_path.iterdir():
            path.unlink()
        if end == "cancel":
            server.say(note("cancel", id=1))
            assert (server.answer(), server.call("access", path=".")) == ((-32003, None), {})

    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_very_many_names_keeps_nobody_waiting_and_can_be_cancelled(tmp_path: Path) -> None:
    """It was read in one go, and again for each of its pages."""
    for number in range(5_000):
        os.mknod(tmp_path / f"{number:04}")

    with tools(tmp_path) as server:
        server.say(request(1, "readdir", path=".") + request(2, "access", path="x") + note("cancel", id=1))
        first, second = server.answer(), server.answer()
        third = server.call("readdir", path=".")

    assert (first, second, third) == ((-32010, "ENOENT"), (-32003, None), {"more": False})


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[Path]:
    """A file in a directory that cannot be written."""
    (tmp_path / "fixed").mkdir()
    path = tmp_path / "fixed" / "file"
    path.write_bytes(b"what was there\n" * 1000)
    path.parent.chmod(0o555)
    yield path
    path.parent.chmod(0o755)


@pytest.mark.parametrize("size", [0, 1, 15_000, 700_000])
def test_a_file_is_written_in_place_where_nothing_can_be_put_beside_it(tmp_path: Path, fixed: Path, size: int) -> None:
    """Shorter or longer than it was, and by a mode that lets nobody read it."""
    fixed.chmod(0o200)

    with tools(tmp_path, argv=UNPRIVILEGED) as server:
        server.say(request(1, "writeFile", b"n" * size, path="fixed/file"))
        assert server.answer() == {"bytes": size, "created": False, "atomic": False}

    assert (fixed.stat().st_mode & 0o777, fixed.chmod(0o600)) == (0o200, None)
    assert fixed.read_bytes() == b"n" * size


@pytest.mark.parametrize(
    ("sent", "last", "answer"),
    [
        (b"x", note("cancel", id=1), (-32003, None)),
        (b"x" * 40_000, note("data", b"x" * 40_000, id=1, last=True), (-32010, "EFBIG")),
        (b"x" * 50_000, b"", None),
    ],
    ids=["cancelled", "no room", "end of file"],
)
def test_a_file_in_place_keeps_what_was_there_until_all_of_the_new_has_come(
    tmp_path: Path, fixed: Path, sent: bytes, last: bytes, answer: object
) -> None:
    """It was emptied by the first bytes."""
    before = fixed.read_bytes()

    with tools(tmp_path, argv=UNPRIVILEGED) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (65_536, 65_536))
        server.say(request(1, "writeFile", sent, path="fixed/file", more=True))
        server.hear("taken")
        if last:
            server.say(last)
            assert (server.answer(), server.call("access", path=".")) == (answer, {})

    assert fixed.read_bytes() == before


def test_a_command_whose_keeper_was_stopped_is_ended_once_there_are_descriptors_for_it(tmp_path: Path) -> None:
    """Whoever looks for its processes opens files: where none could be opened just then, that ended the session."""
    with tools(tmp_path) as server:
        server.say(request(1, "exec", command=["sh", "-c", "kill -STOP $PPID; echo stopped; exec sleep 100"]))
        server.hear("data")
        # Longer than a keeper has to obey.
        server.say(request(2, "exec", command=["sh", "-c", "echo begun; exec sleep 1.5"]))
        server.hear("data")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, 64))
        server.say(note("cancel", id=1))
        first = server.answer()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        second = server.answer()

    assert [first and first["ended"], second and second["ended"]] == ["exit", "cancel"]


# By a pipe that all of them have open: it ends with the last one. Each goes by itself where nobody ends it.
BEGINS = """
import os, signal, sys
def deaf():
    for number in (1, 2, 15):
        signal.signal(number, signal.SIG_IGN)
    signal.alarm(60)
if not os.fork():
    os.setsid()
    if not os.fork():
        deaf(); os.write(1, b"."); signal.pause()
    os._exit(0)
deaf()
if sys.argv[1] == "stops its keeper":
    os.kill(os.getppid(), signal.SIGSTOP)
elif sys.argv[1] == "ends":
    os._exit(3)
signal.pause()
"""


@pytest.mark.parametrize("how", ["stays", "stops its keeper"])
@pytest.mark.parametrize("ended", ["timeout", "cancel"])
def test_all_that_a_command_began_ends_with_it(tmp_path: Path, how: str, ended: str) -> None:
    """Also what left its parent and its session, and where the command has stopped what keeps it."""
    os.mkfifo(tmp_path / "held")
    words = ["sh", "-c", 'exec "$0" -c "$1" "$2" >held', sys.executable, BEGINS, how]
    more = {"timeoutMs": 6000} if ended == "timeout" else {}

    with tools(tmp_path, argv=PATIENT if how == "stays" else PLAIN) as server:
        server.say(request(1, "exec", command=words, **more))
        with open(tmp_path / "held", "rb", buffering=0) as held:
            assert held.read(1) == b"."
            if ended == "cancel":
                server.say(note("cancel", id=1))
            assert server.is_heard(20)
            answer = server.answer()
            # By then nobody is left; where somebody else had to end them they may be just about to go.
            assert select.select([held], [], [], 0 if how == "stays" else 15)[0]
            assert held.read(1) == b""

    assert (answer["exitCode"], answer["signal"], answer["ended"]) == (None, "SIGKILL", ended)


def test_what_a_command_leaves_behind_lives_on(tmp_path: Path) -> None:
    """It ends by itself, and nobody said that the others are to."""
    os.mkfifo(tmp_path / "held")
    words = ["sh", "-c", 'exec "$0" -c "$1" "$2" >held', sys.executable, BEGINS, "ends"]

    with tools(tmp_path) as server:
        server.say(request(1, "exec", command=words))
        with open(tmp_path / "held", "rb", buffering=0) as held:
            assert held.read(1) == b"."
            assert server.answer()["exitCode"] == 3
            assert not select.select([held], [], [], 1)[0]
