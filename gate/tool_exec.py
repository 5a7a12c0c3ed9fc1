"""One command of a session: its streams, its time, and how it ended."""

from __future__ import annotations

import os
import time
from collections import deque
from functools import partial

from gate.keeper import KILL, RELEASE, Descriptors, end_all_of, keep
from gate.loop import READ, WRITE
from gate.tool_stream import Stream

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop, Timer
    from gate.outbox import Outbox

EXIT, TIMEOUT, CANCEL = "exit", "timeout", "cancel"
# A process in the background may hold a command's output open for ever.
_IDLE_SECONDS = 0.1
_LONGEST_SECONDS = 2.0
# A keeper is the agent's to stop; it has this long to end what it keeps.
_PATIENCE_SECONDS = 1.0
_SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip


class Call:
    """What an `exec` asks for."""

    __slots__ = ("command", "directory", "environment", "number", "takes_input", "timeout_seconds")

    def __init__(
        self,
        number: int,
        command: list[bytes],
        directory: bytes,
        environment: dict[bytes, bytes],
        *,
        takes_input: bool,
        timeout_seconds: float,
    ) -> None:
        self.number = number
        self.command = command
        self.directory = directory
        self.environment = environment
        self.takes_input = takes_input
        self.timeout_seconds = timeout_seconds


class Execution:
    """
    A command from its start to its answer. `on_end` is given the result, or the error number of its directory.

    `bulk` is the part of the loop that is held while nobody takes what commands write.
    """

    def __init__(
        self, call: Call, loop: Loop, bulk: Loop, outbox: Outbox, on_end: Callable[[dict[str, object] | int], None]
    ) -> None:
        self._number = call.number
        self._loop = loop
        self._bulk = bulk
        self._outbox = outbox
        self._on_end = on_end
        self._began = time.monotonic()
        self._ended = EXIT
        self._keeper = 0
        self._late: Timer | None = None
        self._exit: tuple[int | None, str | None] | None = None
        self._exited_at = 0.0
        self._is_over = False
        self._rest = b""
        self._input: deque[bytes] = deque()
        self._has_last = False
        self._idle: Timer | None = None
        self._start(call)
        self._timer = loop.after(call.timeout_seconds, lambda: self.end(TIMEOUT)) if call.timeout_seconds else None

    def _start(self, call: Call) -> None:
        opened: list[int] = []

        def pipe() -> tuple[int, int]:
            ends = os.pipe2(os.O_CLOEXEC)
            opened.extend(ends)
            return ends

        try:
            if call.takes_input:
                stdin, self._stdin = pipe()
                os.set_blocking(self._stdin, False)
            else:
                stdin, self._stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), -1
                opened.append(stdin)
            outputs = {name: pipe() for name in ("stdout", "stderr")}
            self._status, status = pipe()
            orders, self._orders = pipe()
            self._keeper = os.fork()
        except OSError:
            # Of descriptors or of processes there are too many just now: none of these is to stay.
            for descriptor in opened:
                os.close(descriptor)
            raise
        theirs = (stdin, outputs["stdout"][1], outputs["stderr"][1], status, orders)
        if not self._keeper:
            keep(call.command, call.directory, call.environment, Descriptors(*theirs))
        for descriptor in theirs:
            os.close(descriptor)
        self._outputs = len(outputs)
        for name, (source, _) in outputs.items():
            Stream(self._bulk, source, partial(self._pass_on, name), self._on_output_end)
        self._loop.watch(self._status, READ, self._on_status)

    def add(self, data: bytes, *, is_last: bool) -> None:
        """Bytes for its stdin."""
        if self._stdin < 0:
            self._took(len(data))
            return
        if data:
            self._input.append(data)
        self._has_last = self._has_last or is_last
        self._feed(0)

    def _feed(self, _events: int) -> None:
        try:
            while self._input:
                written = os.write(self._stdin, self._input[0])
                self._took(written)
                self._input[0] = self._input[0][written:]
                if not self._input[0]:
                    self._input.popleft()
        except BlockingIOError:
            self._loop.watch(self._stdin, WRITE, self._feed)
            return
        except BrokenPipeError:
            # It reads no more: what is meant for it goes nowhere.
            self._took(sum(map(len, self._input)))
            self._input.clear()
            self._has_last = True
        self._loop.watch(self._stdin, 0, self._feed)
        if self._has_last:
            self._close_input()

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.forget(self._stdin)
            os.close(self._stdin)
            self._stdin = -1

    def _took(self, count: int) -> None:
        if count and not self._is_over:
            self._outbox.put({"jsonrpc": "2.0", "method": "taken", "params": {"id": self._number, "bytes": count}})

    def end(self, why: str) -> None:
        """Kill it with all that it began; the answer comes when that is done."""
        if self._ended == EXIT and not self._is_over and self._orders >= 0:
            self._ended = why
            self._order(KILL)
            self._late = self._loop.after(_PATIENCE_SECONDS, self._end_in_its_place)

    def _end_in_its_place(self) -> None:
        """As the sandbox's first process, which nobody in it can stop."""
        if self._orders < 0:
            return
        try:
            end_all_of(self._keeper, _PATIENCE_SECONDS)
        except OSError:
            # Too much is open just now to look for it.
            self._late = self._loop.after(_PATIENCE_SECONDS, self._end_in_its_place)

    def _order(self, what: bytes) -> None:
        try:
            os.write(self._orders, what)
        except BrokenPipeError:
            # Its end is seen elsewhere.
            return

    def _pass_on(self, name: str, data: bytes) -> None:
        # What holds the output after the answer is read on, and goes nowhere: it would die of a pipe without a reader.
        if self._is_over:
            return
        params = {"id": self._number, "stream": name}
        self._outbox.put({"jsonrpc": "2.0", "method": "data", "params": params}, data)
        if self._idle and time.monotonic() - self._exited_at < _LONGEST_SECONDS:
            self._wait_for_silence()

    def _on_output_end(self) -> None:
        self._outputs -= 1
        self._look()

    def _on_status(self, _events: int) -> None:
        data = os.read(self._status, 4096)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode("ascii"))
        if not data:
            self._loop.forget(self._status)
            os.close(self._status)
            os.close(self._orders)
            self._orders = -1
            # Without a word where somebody inside killed it.
            self._note(None, "SIGKILL")

    def _take(self, line: str) -> None:
        what, _, value = line.partition(" ")
        if what == "directory":
            self._finish(int(value))
        elif what == "exit":
            self._note(int(value), None)
        elif what == "signal":
            self._note(None, _SIGNALS.get(int(value), f"SIG{value}"))

    def _note(self, code: int | None, signal: str | None) -> None:
        """How the command itself ended, as far as anybody knows."""
        if self._exit is None:
            self._exit = (code, signal)
            self._exited_at = time.monotonic()
        self._look()

    def _look(self) -> None:
        """Answer where nothing more can come; where something may, wait a little for it."""
        if self._is_over or self._exit is None:
            return
        if self._ended != EXIT and self._orders >= 0:
            # Until the keeper has said that nothing is left, and gone.
            return
        if not self._outputs:
            self._answer()
        elif self._idle is None:
            self._wait_for_silence()

    def _wait_for_silence(self) -> None:
        if self._idle:
            self._idle.cancel()
        self._idle = self._loop.after(_IDLE_SECONDS, self._on_silence)

    def _on_silence(self) -> None:
        """Nothing came; but perhaps only because nobody would have taken it."""
        if not self._outbox.has_room:
            self._exited_at = time.monotonic()
            self._wait_for_silence()
            return
        self._answer()

    def _answer(self) -> None:
        code, signal = self._exit or (None, None)
        duration = round((time.monotonic() - self._began) * 1000)
        self._finish({"exitCode": code, "signal": signal, "ended": self._ended, "durationMs": duration})

    def _finish(self, result: dict[str, object] | int) -> None:
        if self._is_over:
            return
        self._is_over = True
        for timer in (self._idle, self._timer, self._late):
            if timer:
                timer.cancel()
        self._input.clear()
        self._close_input()
        if self._orders >= 0 and self._ended == EXIT:
            self._order(RELEASE)
        self._on_end(result)
