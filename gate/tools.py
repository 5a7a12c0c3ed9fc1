"""
The tool server: does what a session asks for (docs/session-protocol.md), as the sandbox's own user.

It speaks on its stdin and stdout, which aisb holds the other ends of, and ends where the first ends. It is one thread
that never waits for a call: a command runs beside it, and of a file or a directory one piece has its turn at a time.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built into CPython, not in the stubs; `signal` costs 9 ms
import errno
import os
from collections import deque

from aisb.domain.frames import Reader
from gate import tool_files
from gate.loop import READ, Loop
from gate.outbox import Outbox

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, NoReturn

    from aisb.domain.frames import Frame
    from gate.tool_exec import Execution

INVALID_PARAMS = -32602
CANCELLED = -32003
OS_ERROR = -32010
_PIECE_BYTES = 1 << 18
_LONGEST_PATH = 4096
# Of all that commands write, before anything else has its turn.
_MOST_AT_ONCE = 8


def main(environment: dict[bytes, bytes]) -> NoReturn:
    """Serve until stdin ends, or a signal says so. Commands have these variables."""
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT):
        _signal.signal(number, lambda number, _frame: os._exit(128 + number))
    Server(Loop(), environment).run()
    os._exit(0)


class Server:
    """
    The open calls of a session. What arrives has been checked outside, by somebody who is trusted here.
    """

    def __init__(self, loop: Loop, environment: dict[bytes, bytes], source: int = 0, target: int = 1) -> None:
        self._loop = loop
        self._bulk = loop.share(_MOST_AT_ONCE)
        self._source = source
        self._outbox = Outbox(loop, target, self._bulk.hold, self._bulk.go_on)
        self._environment = environment
        self._reader = Reader()
        self._executions: dict[int, Execution] = {}
        self._writings: dict[int, tool_files.Writing] = {}
        self._readings: deque[tuple[int, bytes, Generator[bytes, None, tuple[dict[str, object], bytes]]]] = deque()
        self._at_once: dict[str, Callable[[dict[str, Any]], tuple[dict[str, object], bytes]]] = {
            "stat": _stat,
            "mkdir": _mkdir,
            "access": _access,
        }
        self._ended = False

    def run(self) -> None:
        """Say that we are there, and go on to the end."""
        self._take_in_orphans()
        os.set_blocking(self._source, False)
        self._loop.watch(self._source, READ, self._on_input)
        self._notify("ready", {"protocol": 1})
        # While the first call is on its way here.
        from gate.keeper import close_memory

        close_memory()
        while not self._ended:
            is_reading = bool(self._readings) and self._outbox.has_room
            self._loop.run_once(0 if is_reading else None)
            # The last of them may have been cancelled meanwhile.
            if is_reading and self._readings:
                self._read_on()
        for writing in self._writings.values():
            writing.abandon()

    def _take_in_orphans(self) -> None:
        """As the first process has to: of what ended, and was left by whoever began it, nothing would go otherwise."""
        woken, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda _number, _frame: None)

        def reap(_events: int) -> None:
            os.read(woken, 4096)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return

        self._loop.watch(woken, READ, reap)

    def _on_input(self, _events: int) -> None:
        try:
            data = os.read(self._source, _PIECE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended = True
        for frame in self._reader.feed(data):
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        header: Any = frame.header
        method, params = header["method"], header["params"]
        if "id" not in header:
            self._follow(method, params, frame.body)
            return
        number = header["id"]
        try:
            self._begin(number, method, params, frame.body)
        except OSError as error:
            self._fail(number, error, params.get("path", ""))
        except UnicodeEncodeError:
            self._refuse(number, INVALID_PARAMS, "a text that no name of a file can be")
        except RecursionError:
            # A chain of links that is longer than anybody follows.
            self._fail(number, OSError(errno.ELOOP, os.strerror(errno.ELOOP)), params.get("path", ""))

    def _begin(self, number: int, method: str, params: dict[str, Any], body: bytes) -> None:
        if method == "exec":
            self._execute(number, params)
        elif method == "readFile":
            path = _bytes(params["path"])
            reading = tool_files.read_file(path, params.get("offset", 0), params.get("length"))
            self._readings.append((number, path, reading))
        elif method == "readdir":
            path = _bytes(params["path"])
            self._readings.append((number, path, tool_files.read_directory(path, params.get("after"))))
        elif method == "writeFile":
            self._write(number, params, body)
        else:
            self._answer(number, *self._at_once[method](params))

    def _follow(self, method: str, params: dict[str, Any], body: bytes) -> None:
        """What belongs to a call that has begun; one that has ended meanwhile needs it no more."""
        number = params["id"]
        if number in self._executions:
            if method == "cancel":
                self._executions[number].end("cancel")
            else:
                self._executions[number].add(body, is_last=params.get("last", False))
        elif number in self._writings:
            if method == "cancel":
                self._writings.pop(number).abandon()
                self._refuse(number, CANCELLED, "cancelled")
            else:
                self._write_on(number, body, is_last=params.get("last", False))
        elif method == "cancel":
            self._cancel_reading(number)

    def _cancel_reading(self, number: int) -> None:
        for item in self._readings:
            if item[0] == number:
                self._readings.remove(item)
                item[2].close()
                self._refuse(number, CANCELLED, "cancelled")
                return

    # --- commands ---------------------------------------------------------------------------------

    def _execute(self, number: int, params: dict[str, Any]) -> None:
        from gate.tool_exec import Call, Execution

        directory = params.get("cwd", ".")
        environment = dict(self._environment)
        for name, value in params.get("env", {}).items():
            environment.pop(_bytes(name), None)
            if value is not None:
                environment[_bytes(name)] = _bytes(value)
        call = Call(
            number,
            [_bytes(word) for word in params["command"]],
            _bytes(directory),
            environment,
            takes_input=params.get("stdin", False),
            timeout_seconds=params.get("timeoutMs", 0) / 1000,
        )

        def on_end(result: dict[str, object] | int) -> None:
            del self._executions[number]
            if isinstance(result, int):
                self._fail(number, OSError(result, os.strerror(result)), directory)
            else:
                self._answer(number, result)

        self._executions[number] = Execution(call, self._loop, self._bulk, self._outbox, on_end)

    # --- files ------------------------------------------------------------------------------------

    def _read_on(self) -> None:
        """One piece of one file, or of one directory."""
        number, path, reading = self._readings.popleft()
        try:
            piece = next(reading)
        except StopIteration as end:
            self._answer(number, *end.value)
        except OSError as error:
            self._fail(number, error, tool_files.text_of(path))
        else:
            if piece:
                self._notify("data", {"id": number, "stream": "file"}, piece)
            self._readings.append((number, path, reading))

    def _write(self, number: int, params: dict[str, Any], body: bytes) -> None:
        writing = tool_files.Writing(_bytes(params["path"]), params.get("mode", 0o666))
        self._writings[number] = writing
        self._write_on(number, body, is_last=not params.get("more", False))

    def _write_on(self, number: int, data: bytes, *, is_last: bool) -> None:
        writing = self._writings[number]
        try:
            writing.add(data)
            if not is_last:
                if data:
                    self._notify("taken", {"id": number, "bytes": len(data)})
                return
            result = writing.commit()
        except OSError as error:
            writing.abandon()
            del self._writings[number]
            self._fail(number, error, writing.shown)
            return
        del self._writings[number]
        self._answer(number, result)

    # --- what is said -----------------------------------------------------------------------------

    def _notify(self, method: str, params: dict[str, object], body: bytes = b"") -> None:
        self._outbox.put({"jsonrpc": "2.0", "method": method, "params": params}, body)

    def _answer(self, number: int, result: dict[str, object], body: bytes = b"") -> None:
        self._outbox.put({"jsonrpc": "2.0", "id": number, "result": result}, body)

    def _refuse(self, number: int, code: int, message: str, data: dict[str, object] | None = None) -> None:
        error = {"code": code, "message": message, **({"data": data} if data else {})}
        self._outbox.put({"jsonrpc": "2.0", "id": number, "error": error})

    def _fail(self, number: int, error: OSError, path: str) -> None:
        name = errno.errorcode.get(error.errno or 0, "EIO")
        # A longer one is the name of nothing; in an answer it may be more than a frame carries.
        self._refuse(number, OS_ERROR, error.strerror or name, {"errno": name, "path": path[:_LONGEST_PATH]})


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _stat(params: dict[str, Any]) -> tuple[dict[str, object], bytes]:
    return tool_files.stat_of(_bytes(params["path"]), follow=params.get("follow", True)), b""


def _mkdir(params: dict[str, Any]) -> tuple[dict[str, object], bytes]:
    return tool_files.make_directory(_bytes(params["path"]), recursive=params.get("recursive", False)), b""


def _access(params: dict[str, Any]) -> tuple[dict[str, object], bytes]:
    return tool_files.check_access(_bytes(params["path"]), params.get("mode", "")), b""
