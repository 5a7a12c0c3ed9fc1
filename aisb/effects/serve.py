"""
Lend a sandbox to the program on our stdin and stdout, for as long as that is there.

A thread reads what the client says, one what the sandbox says, and one waits for the client's end; podman and signals
are the main thread's, as for any run. Nothing is kept: what cannot be written is not read either.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import signal
import stat
import threading
import time
from typing import TYPE_CHECKING

from aisb.domain.exchange import (
    NO_JSON,
    NO_REQUEST,
    Ask,
    Exchange,
    NoRequest,
    ToClient,
    ToSandbox,
    check_ready,
    last_words,
    said,
)
from aisb.domain.frames import Frame, Malformed, Reader, head_of
from aisb.effects.guardian import kill_first_process
from aisb.effects.listener import Listener, rest_of
from aisb.effects.session import process_start
from aisb.effects.signals import left_to_others
from aisb.errors import AisbError, Unavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.effects.decisions import News
    from aisb.effects.session import Session
    from aisb.effects.supervise import Outcome

_PIECE_BYTES = 1 << 20
_AGAIN_SECONDS = 0.02
_MUCH_BYTES = 1 << 15
_PAUSE_SECONDS = 0.0005
# When a sandbox cannot be killed from outside: its podman is told, as at any other end.
_PATIENCE_SECONDS = 2.0
# For what was said just before the end; where the sandbox does not take it in, it is not waited for.
_HEARING_SECONDS = 0.2
STARTING, READY, RESTARTING, DEAD = "starting", "ready", "restarting", "dead"


class Entry:
    """The way into a sandbox. Whoever closes it waits for who writes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, frame: Frame) -> None:
        """All of it, however long that takes; nothing where the sandbox is gone."""
        with self._lock, contextlib.suppress(ConnectionError):
            if self._descriptor >= 0:
                _write_frame(self._descriptor, frame)

    def close(self) -> None:
        """No more."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1


class Service:
    """
    A session: the client, and the sandbox that it has at the moment.

    `own` answers the requests that are for aisb; it is called in a thread of its own. Raises AisbError to refuse.
    """

    name = "serve"

    def __init__(
        self,
        own: Callable[[Session, str, dict[str, object]], dict[str, object]],
        watch: Callable[[Session, Callable[[News], None], threading.Event], None],
        source: int = 0,
        target: int = 1,
    ) -> None:
        self._own = own
        self._watch = watch
        self._source = source
        self._listener = Listener(target)
        self._exchange = Exchange()
        # Of what is open and of what is written, so that nothing is said of a request after its answer.
        self._lock = threading.RLock()
        self._state = STARTING
        self._hello: dict[str, object] = {}
        self._began = process_start()
        self._ready_at = 0.0
        self._session: Session | None = None
        self._entry = Entry(-1)
        self._restarts = 0
        self._fault: tuple[int, str] | None = None
        self._why = ""
        self._is_over = threading.Event()
        self._has_ended = threading.Event()
        self._is_reading = False
        self._has_heard = threading.Event()
        self._sandbox_ended = threading.Event()
        # In what words, of the gate of the sandbox that there is.
        self._gate_ended = ""
        self._counts = {"allowed": 0, "denied": 0}
        self._tells_allowed = False
        self._watcher: threading.Thread | None = None

    # --- the main thread's part -------------------------------------------------------------------

    def begin(self) -> None:
        """Look after the client from now on: before there is a sandbox, too."""
        self._start(self._wait_for_hangup)

    def describe(self, hello: dict[str, object]) -> None:
        """What the client is to be told of the sandbox that is about to begin."""
        self._hello = hello
        self._gate_ended = ""

    def lend(self, session: Session) -> tuple[int, int]:
        """Stdin and stdout of the sandbox of that run, which is about to begin."""
        self._session = session
        self._hello |= {"run": session.run, "container": f"aisb-run-{session.run}"}
        # They hold more than a pipe does, which for a user of many pipes is next to nothing.
        theirs_in, ours_in = _socket.socketpair()
        ours_out, theirs_out = _socket.socketpair()
        theirs_out.shutdown(_socket.SHUT_RD)
        source = ours_out.detach()
        self._entry = Entry(ours_in.detach())
        self._sandbox_ended = threading.Event()
        self._start(lambda: self._hear_sandbox(source))
        return theirs_in.detach(), theirs_out.detach()

    def wants_another(self, outcome: Outcome) -> bool:
        """Whether the client is still there, and has another sandbox after its first one, which ended so."""
        if outcome.was_told:
            self.is_to_end()
        self._entry.close()
        self._sandbox_ended.wait(_PATIENCE_SECONDS)
        with self._lock:
            self._has_ended.set()
            if self._is_over.is_set() or outcome.was_told or self._state == STARTING:
                return False
            reason = self._why or f"it ended with {outcome.status}"
            if outcome.hits:
                reason += f"; it had hit its caps: {', '.join(outcome.hits)}"
            self._restarts += 1
            self._began = time.monotonic()
            self._change(RESTARTING, reason)
            self._has_ended.clear()
            return True

    def has_ended(self) -> None:
        """The second sandbox has, or was never there."""
        self._entry.close()
        self._sandbox_ended.wait(_PATIENCE_SECONDS)
        self._has_ended.set()
        if not self._is_over.is_set():
            self._change(DEAD, self._why or "it died a second time")
            self._is_over.wait()

    def is_to_end(self) -> None:
        """Somebody says so. A client that reads no more is not waited for any longer, nor is what waits for that."""
        self._listener.give_up(_PATIENCE_SECONDS)

    def gate_has_ended(self, words: str) -> None:
        """The sandbox goes on, without a network."""
        with self._lock:
            self._gate_ended = words
            if self._state == READY and not self._is_over.is_set():
                self._tell_of_gate()

    def _tell_of_gate(self) -> None:
        self._say(said("gate", {"state": "ended", "message": self._gate_ended}))

    def fail(self, error: AisbError) -> None:
        """There is no sandbox, for this reason."""
        # Whoever hangs up now ends nothing any more.
        self._has_ended.set()
        with self._lock:
            if self._state == STARTING:
                words = {"exitCode": error.exit_code, "message": error.message, "hint": error.hint}
                self._say(said("failed", words))

    def is_over(self) -> bool:
        """Whether the client is gone, or was sent away."""
        return self._is_over.is_set()

    def exit_code(self, code: int) -> int:
        """Of aisb: what the sandbox's own was counts only where somebody ended it by a signal. All is told then."""
        if self._watcher is not None:
            self._watcher.join(_PATIENCE_SECONDS)
        if self._fault:
            return UsageError.exit_code
        if self._state == DEAD:
            return Unavailable.exit_code
        return 0 if self._is_over.is_set() else code

    # --- the client -------------------------------------------------------------------------------

    def _wait_for_hangup(self) -> None:
        """Until nobody can say anything any more, whatever is still to be read."""
        poll = select.poll()
        poll.register(self._source, select.POLLRDHUP)
        poll.poll()
        # Whoever is in the middle of a word to it has the lock that the end needs.
        self.is_to_end()
        with self._lock:
            is_read, self._is_reading = self._is_reading, True
        if not is_read:
            # Whoever has said something that is no frame, and left before there was a sandbox, hears of it.
            self._hear_client(self._pass_over)
        self._has_heard.wait(_HEARING_SECONDS)
        self._end()

    def _pass_over(self, _frame: Frame) -> None:
        """There was no sandbox yet, and will be none."""

    def _hear_client(self, obey: Callable[[Frame], None]) -> None:
        reader = Reader()
        try:
            while data := os.read(self._source, _PIECE_BYTES):
                for frame in reader.feed(data):
                    obey(frame)
        except Malformed as error:
            self._refuse_client(NO_JSON, str(error))
        except NoRequest as error:
            self._refuse_client(NO_REQUEST, str(error))
        except OSError:
            # A terminal that hung up, for one.
            pass
        self._has_heard.set()
        self._end()

    def _refuse_client(self, code: int, message: str) -> None:
        self._fault = code, message
        self.is_to_end()
        self._say(last_words(code, message))

    def fault(self) -> str:
        """What the client said that cannot be understood; "" where it did not."""
        return self._fault[1] if self._fault else ""

    def _obey(self, frame: Frame) -> None:
        inside: list[Frame] = []
        with self._lock:
            entry = self._entry
            for step in self._exchange.from_client(frame):
                if isinstance(step, ToSandbox):
                    inside.append(step.frame)
                elif isinstance(step, Ask):
                    self._answer(step)
                else:
                    self._say(step)
        # Not under the lock: a sandbox that does not listen would have nobody be heard.
        for item in inside:
            self._hand_in(entry, item)

    def _hand_in(self, entry: Entry, frame: Frame) -> None:
        try:
            entry.write(frame)
        except ValueError:
            with self._lock:
                self._say(self._exchange.not_sent(frame.header["id"]))

    def _answer(self, ask: Ask) -> None:
        if ask.method == "status":
            self._say(self._exchange.own(ask.number, self._status()))
        elif ask.method == "watch":
            self._tells_allowed = bool(ask.params["allowed"])
            self._say(self._exchange.own(ask.number, {}))
        else:
            self._start(lambda: self._ask(ask))

    def _ask(self, ask: Ask) -> None:
        session = self._session
        try:
            if session is None or self._state != READY:
                raise Unavailable("there is no sandbox")
            answer = self._own(session, ask.method, ask.params)
        except AisbError as error:
            self._refuse(ask, error)
            return
        except OSError as error:
            # Descriptors that are all in use, a disk that is full: of this request, and of no other.
            where = f"{error.filename}: " if error.filename else ""
            self._refuse(ask, Unavailable(f"{where}{error.strerror or error}"))
            return
        with self._lock:
            self._say(self._exchange.own(ask.number, answer))

    def _refuse(self, ask: Ask, error: AisbError) -> None:
        with self._lock:
            data: dict[str, object] = {"exitCode": error.exit_code, "hint": error.hint}
            self._say(self._exchange.refused(ask.number, error.message, data))

    def _status(self) -> dict[str, object]:
        uptime = round((time.monotonic() - self._ready_at) * 1000) if self._state == READY else 0
        return {**self._hello, "state": self._state, "uptimeMs": uptime, "restarts": self._restarts, **self._counts}

    def _say(self, words: ToClient) -> None:
        """Whole, and after what was said before; a client that does not listen is as good as gone."""
        try:
            with self._lock:
                self._listener.write(words.frame)
        except TimeoutError:
            # Whoever has given it up sees to the end.
            return
        except OSError:
            self._start(self._end)

    def _end(self) -> None:
        """The client is gone, or not to be talked to: kill the sandbox, at whatever stage it is."""
        with self._lock:
            if self._is_over.is_set():
                return
            self._is_over.set()
        patience = time.monotonic() + _PATIENCE_SECONDS
        is_told = False
        while not self._has_ended.wait(_AGAIN_SECONDS):
            if self._state == READY and self._session is not None:
                kill_first_process(self._session.pid_file)
            if not is_told and (self._state in (STARTING, RESTARTING) or time.monotonic() > patience):
                is_told = True
                # Before there is a sandbox this ends the start in order; afterwards podman is told.
                os.kill(os.getpid(), signal.SIGTERM)

    # --- the sandbox ------------------------------------------------------------------------------

    def _hear_sandbox(self, source: int) -> None:
        reader = Reader()
        is_ready = False
        try:
            while data := os.read(source, _PIECE_BYTES):
                for frame in reader.feed(data):
                    if is_ready:
                        self._pass_on(frame)
                    else:
                        check_ready(frame)
                        is_ready = True
                        self._welcome()
                if reader.missing() > _MUCH_BYTES:
                    # podman hands it on in small pieces, and to look at each would take longer than to wait for them.
                    time.sleep(_PAUSE_SECONDS)
        except ValueError as error:
            # Malformed, or Forged, or longer for the client than it may be.
            self._why = f"what came from it was no answer: {error}"
            if self._session is not None:
                kill_first_process(self._session.pid_file)
            _drain(source)
        os.close(source)
        with self._lock:
            for words in self._exchange.died():
                self._say(words)
        self._sandbox_ended.set()

    def _pass_on(self, frame: Frame) -> None:
        with self._lock:
            for words in self._exchange.from_sandbox(frame):
                self._say(words)

    def _welcome(self) -> None:
        with self._lock:
            self._exchange.has_sandbox = True
            self._ready_at = time.monotonic()
            self._hello["startMs"] = round((self._ready_at - self._began) * 1000)
            if self._state == STARTING:
                self._state = READY
                self._say(said("hello", self._hello))
            else:
                self._change(READY, "")
            if self._gate_ended:
                # While it started, after it had proved that it had one.
                self._tell_of_gate()
            if not self._is_reading:
                self._is_reading = True
                self._start(lambda: self._hear_client(self._obey))
        session, ended = self._session, self._sandbox_ended
        if session is not None and self._hello_gate():
            self._watcher = self._start(lambda: self._watch(session, self._note, ended))

    def _hello_gate(self) -> bool:
        policy = self._hello.get("policy")
        return isinstance(policy, dict) and bool(policy.get("gate"))

    def _note(self, news: News) -> None:
        """What the gate has decided."""
        with self._lock:
            self._counts["allowed"] += news.allowed
            self._counts["denied"] += news.denied
            for method, params in news.told:
                # Also to a client that has said all: it may still listen.
                if method != "allowed" or self._tells_allowed:
                    self._say(said(method, params))

    def _change(self, state: str, reason: str) -> None:
        with self._lock:
            self._state = state
            more = {"hello": self._hello} if state == READY else {}
            self._say(said("sandbox", {"state": state, "reason": reason, **more}))

    def _start(self, action: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=action, daemon=True)
        with left_to_others():
            thread.start()
        return thread


def _write_frame(target: int, frame: Frame) -> None:
    """All of it, however long that takes."""
    pieces: list[bytes | memoryview] = [head_of(frame.header, len(frame.body)), frame.body]
    while pieces:
        pieces = list(rest_of(pieces, os.writev(target, pieces)))


def _drain(source: int) -> None:
    """Until it is gone. What it says is for nobody."""
    while os.read(source, _PIECE_BYTES):
        pass


def need_pipes() -> None:
    """Raise UsageError where a person is at the other end, or nobody."""
    if os.isatty(0) or os.isatty(1):
        raise UsageError(
            "aisb serve speaks with a program on stdin and stdout, and there is a terminal",
            hint="a shell in a sandbox: aisb --shell",
        )
    # One that was closed is /dev/null by now.
    if stat.S_ISCHR(os.fstat(1).st_mode):
        raise UsageError("aisb serve has nobody to tell: its stdout is closed, or a device", hint="give it a pipe")
