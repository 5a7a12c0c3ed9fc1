"""
The runs of a gate: a socket for each, in a directory that only that run's sandbox sees.

A run is held to a number of connections at once, which are refused beyond it, and to a rate of new ones,
which wait in the socket's queue until their turn comes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aisb.domain.live import live_json
from gate.audit import Audit
from gate.client import Client
from gate.ends import ClientEnd
from gate.files import write_whole
from gate.ledger import Ledger
from gate.limits import Bucket, Limits
from gate.listening import accept, listen_at, remove
from gate.loop import READ
from gate.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.live import LiveEntry
    from aisb.domain.rules import Engine
    from gate.loop import Loop
    from gate.squid import Squid
    from gate.squid_log import LogLine

# All zeros is the probe's.
_RUN = re.compile(r"(?!0{8})[0-9a-f]{8}")
_BACKLOG = 1024
_ACCEPTS_A_TURN = 64
# How long a full gate leaves newcomers in their queue before it looks again.
_FULL_SECONDS = 0.05
# However many of a run's connections have something to say, the other runs' are heard in between.
_EVENTS_A_TURN = 32


_LIMITS = Limits()
# Beside the run's socket, in the directory that its sandbox sees.
CERTIFICATE_NAME = "ca.pem"
# Where aisb listens for ports of the host; beside that directory, so that the sandbox does not see it.
DOORS = "h"
# In the run's own directory, which no sandbox sees.
ORIGINS_NAME = "origins.json"
# In the run's own directory, which its sandbox does not see: what the user has said of it since it began. The helper
# looks at it before each answer.
LIVE_NAME = "live.json"


class Run:
    """Listens for one sandbox until it is closed."""

    def __init__(
        self,
        loop: Loop,
        directory: str,
        run: str,
        engine: Engine,
        squid: Squid,
        has_room: Callable[[], bool],
        limits: Limits = _LIMITS,
    ) -> None:
        origins = Origins.read(f"{directory}/{ORIGINS_NAME}")
        self._loop = loop = loop.share(_EVENTS_A_TURN)
        self._run = run
        self._squid = squid
        self.begun_with = engine
        self._engine = engine
        self._live_path = f"{directory}/{LIVE_NAME}"
        self.said: tuple[LiveEntry, ...] = ()
        self._limits = limits
        self._clients: set[Client] = set()
        self._is_over = False
        self._has_room = has_room
        self._bucket = Bucket(limits)
        self._path = f"{directory}/s/gate.sock"
        self._doors = f"{directory}/{DOORS}"
        self._audit = Audit(f"{directory}/audit.jsonl", run)
        self._ledger = Ledger(loop, self._audit, engine, origins)
        try:
            # Of a run of this id in a gate that is gone.
            remove(self._live_path)
            # The sandbox's users are others than ours: who may come near is decided by the directory.
            self._listener = listen_at(self._path, 0o666, _BACKLOG)
        except BaseException:
            self._audit.close()
            loop.close()
            raise
        loop.watch(self._listener.fileno(), READ, self._on_client)

    def logged(self, line: LogLine) -> None:
        """squid has said something about this run."""
        self._ledger.logged(line)

    def write_down(self, said: tuple[LiveEntry, ...], mark: tuple[LiveEntry, ...] = ()) -> None:
        """
        Let the helper judge by this from its next answer on; `adopt` is for the rest.

        `mark` is what shows from outside that it does.
        """
        write_whole(self._live_path, live_json((*said, *mark)).encode("ascii"))
        self.said = said

    def adopt(self, *, narrows: bool) -> int:
        """Judge by what was written down, and end what is open and no longer allowed; how many connections that was."""
        self._engine = self._ledger.engine = self.begun_with.with_live(self.said)
        return sum(client.adopt(self._engine, narrows=narrows) for client in tuple(self._clients))

    def close(self, then: Callable[[int, int], None]) -> None:
        """End the socket and all connections; `then(allowed, denied)` when everything is written down."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        remove(self._path)
        for client in tuple(self._clients):
            client.close()

        def on_empty() -> None:
            self._audit.close()
            self._is_over = True
            self._let_go()
            then(*self._ledger.counts)

        self._ledger.when_empty(on_empty)

    def hold(self) -> None:
        """Pass nothing on until `go_on`."""
        self._loop.hold()

    def go_on(self) -> None:
        """End what `hold` began."""
        self._loop.go_on()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._clients)

    def _on_client(self, _events: int) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            if not self._has_room():
                self._pause(_FULL_SECONDS)
                return
            if not self._bucket.take():
                self._pause(self._bucket.wait_seconds)
                return
            try:
                socket = accept(self._listener, ClientEnd)
            except BlockingIOError:
                return
            except OSError:
                # Out of memory: the queue is looked at again soon.
                self._pause(_FULL_SECONDS)
                return
            self._take_in(socket)

    def _take_in(self, socket: ClientEnd) -> None:
        is_one_too_many = len(self._clients) >= self._limits.at_once
        own = self._loop, self._run, socket, self._engine, self._ledger, self._squid, self._bucket
        client = Client(*own, self._on_done, self._doors)
        self._clients.add(client)
        if is_one_too_many:
            client.refuse_at_once()

    def _on_done(self, client: Client) -> None:
        self._clients.discard(client)
        self._let_go()

    def _let_go(self) -> None:
        # The last words to a client may take longer than its record.
        if self._is_over and not self._clients:
            self._loop.close()

    def _pause(self, seconds: float) -> None:
        self._loop.forget(self._listener.fileno())
        self._loop.after(seconds, self._resume)

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), READ, self._on_client)


class Runs:
    """All runs of the gate, by their ids."""

    def __init__(self, loop: Loop, base: str, engine: Engine, squid: Squid, most_connections: int) -> None:
        self._loop = loop
        self._squid = squid
        self._base = base
        self._engine = engine
        self._most_connections = most_connections
        self._runs: dict[str, Run] = {}
        self._closing: set[str] = set()
        # What a run's programs have to trust where TLS is opened here; nothing where it is not.
        self.certificate = b""

    def names(self) -> list[str]:
        """The ids of the open runs, sorted."""
        return sorted(self._runs.keys() - self._closing)

    def open(self, run: str) -> None:
        """Listen for a run. Raises ValueError for what is no id, OSError where its directory is not there."""
        if not _RUN.fullmatch(run):
            raise ValueError(f"{run[:20]!r} is no run id")
        if run in self._closing:
            raise ValueError(f"run {run} is being closed")
        if run not in self._runs:
            if self.certificate:
                write_whole(f"{self._base}/r/{run}/s/{CERTIFICATE_NAME}", self.certificate)
            directory = f"{self._base}/r/{run}"
            engine = self._engine.apart()
            self._runs[run] = Run(self._loop, directory, run, engine, self._squid, self._has_room)

    def hold(self) -> None:
        """Pass nothing on in any run until `go_on`."""
        for run in self._runs.values():
            run.hold()

    def go_on(self) -> None:
        """End what `hold` began."""
        for run in self._runs.values():
            run.go_on()

    def need(self, run: str) -> Run:
        """The open run of that id. Raises ValueError where there is none."""
        if run not in self._runs or run in self._closing:
            raise ValueError(f"no run {run[:20]!r} is open")
        return self._runs[run]

    def _has_room(self) -> bool:
        return sum(run.connections for run in self._runs.values()) < self._most_connections

    def close(self, run: str, then: Callable[[int, int], None]) -> None:
        """End a run; `then(allowed, denied)`. Raises ValueError where there is none of that id."""
        closing = self.need(run)

        def on_closed(allowed: int, denied: int) -> None:
            # Until now squid's last lines about it could still come.
            del self._runs[run]
            self._closing.discard(run)
            then(allowed, denied)

        self._closing.add(run)
        closing.close(on_closed)

    def logged(self, line: LogLine) -> None:
        """Hand a line of squid's log to the run that it is about; the probe's are nobody's."""
        if line.run in self._runs:
            self._runs[line.run].logged(line)
