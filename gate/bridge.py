"""
The gate's front: one unix socket for each run, judged here, joined with squid behind.

The first process of the gate's container, as the caller's own uid and without a capability. It proves
squid before it listens for anybody, writes the audit, and ends when squid does or when nobody needs it.
"""

from __future__ import annotations

import os
import resource
import sys

from aisb.domain.injection import read_secrets
from aisb.domain.rules import Engine
from gate.changes import Changes
from gate.control import listen_for_control
from gate.lifetime import Lifetime
from gate.log_listener import listen_for_log
from gate.loop import Loop
from gate.proof import PROBE_SECONDS, ProbeListener, Proof
from gate.pump import prepare
from gate.readiness import Readiness
from gate.runs import Runs
from gate.secret_box import offer, take_secrets
from gate.squid import Squid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gate.control import Reply

BASE = "/run/aisb"
SQUID_START = "/run/squid/start"
# What TLS is opened in the name of, where a policy asks for it.
CERTIFICATE = "/run/squid/gate.crt"
START_SECONDS = 15.0
# Two for each connection of a few full runs.
_DESCRIPTORS = 16384
_DESCRIPTORS_KEPT_FREE = 256
# What squid has to say about a client fills no disk: the log is looked at so often, and emptied at this size.
_LOG_SECONDS = 10.0
LARGEST_LOG = 8 * 1024 * 1024


class Bridge:
    """All parts of the gate that are not squid."""

    def __init__(self, loop: Loop, base: str, squid: int, most_connections: int, readiness: Readiness) -> None:
        with open(f"{base}/conf/policy.json", encoding="utf-8") as file:
            engine = Engine.from_json(file.read())
        with open(f"{base}/conf/idle", encoding="ascii") as file:
            idle_seconds = float(file.read())
        self._loop = loop
        self._base = base
        self._engine = engine
        self._squid = squid
        self._readiness = readiness
        self._probe = ProbeListener(loop)
        # Before squid starts, which reads the lists that this writes.
        caller = Squid(loop, base, self._probe)
        self._runs = Runs(loop, base, engine, caller, most_connections)
        self._changes = Changes(loop, self._runs, caller)
        listen_for_log(loop, self._runs.logged, proxied=os.path.exists(f"{base}/conf/peers"))
        if engine.injections:
            secrets = take_secrets()
            # Here too, where a gate that was given others than its policy's does not begin.
            read_secrets(secrets, engine.injections)
            offer(loop, secrets)
        self._lifetime = Lifetime(loop, base, idle_seconds, self.end)
        self._lifetime.watch_squid(squid)
        self._lifetime.watch_signals()

    def start(self) -> None:
        """Let squid start, prove it, and listen once it is proved."""
        let_squid_start()
        Proof(self._loop, self._probe, START_SECONDS, self._on_proof)

    def _on_proof(self, fault: str) -> None:
        if fault:
            self.end(fault)
        handlers = {
            "open": self._open,
            "close": self._close,
            "status": self._status,
            "say": self._changes.on_say,
        }
        listen_for_control(self._loop, f"{self._base}/ctl.sock", handlers)
        if self._engine.opens_tls:
            # By now squid has it, so it is there.
            with open(CERTIFICATE, "rb") as file:
                self._runs.certificate = file.read()
        self._lifetime.used()
        self._bound_log()
        self._readiness.say("ready")
        log("ready")

    def end(self, why: str) -> None:
        """Say why, and end: the kernel takes everything back, the lock last."""
        self._readiness.say(f"failed {why}")
        log(f"the gate ends: {why}")
        sys.exit(0 if why == "nobody needs it" else 1)

    def _bound_log(self) -> None:
        path = f"{self._base}/log"
        try:
            # Everybody writes to its end, wherever that is.
            if os.stat(path).st_size > LARGEST_LOG:
                os.truncate(path, 0)
                log("the log was emptied: it had grown too large")
        except FileNotFoundError:
            # Somebody took it away: what is said goes nowhere, and fills nothing.
            return
        self._loop.after(_LOG_SECONDS, self._bound_log)

    def _open(self, question: dict[str, object], reply: Reply) -> None:
        run = str(question.get("run"))
        self._runs.open(run)
        self._lifetime.used()
        self._changes.on_open(run, lambda fault: reply({"ok": not fault, **({"error": fault} if fault else {})}))

    def _close(self, question: dict[str, object], reply: Reply) -> None:
        run = str(question.get("run"))
        said = self._runs.need(run).said

        def on_closed(allowed: int, denied: int) -> None:
            self._lifetime.used()
            self._changes.on_closed(said)
            reply({"ok": True, "allowed": allowed, "denied": denied})

        self._runs.close(run, on_closed)

    def _status(self, _question: dict[str, object], reply: Reply) -> None:
        def on_proof(fault: str) -> None:
            if fault:
                reply({"ok": False, "error": f"the gate does not pass its own probe: {fault}"})
            else:
                reply({"ok": True, "proved": True, "runs": self._runs.names(), "squid_pid": self._squid})

        Proof(self._loop, self._probe, PROBE_SECONDS, on_proof)


def let_squid_start() -> None:
    """Squid waits for a line in the pipe that the entrypoint made, so that it finds our listeners at its start."""
    # Opened for reading too: an open for writing alone would wait for squid, which is making its key.
    pipe = os.open(SQUID_START, os.O_RDWR | os.O_CLOEXEC)
    os.write(pipe, b"go\n")
    # Kept open: a pipe that nobody holds forgets what is in it.


def log(text: str) -> None:
    """A line in the gate's log."""
    print(f"bridge: {text}", file=sys.stderr, flush=True)


def raise_descriptor_limit() -> int:
    """As many descriptors as the hard limit allows, up to what a few full runs need; so many there are now."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def main() -> None:
    """Run the gate: the first argument is squid's process id."""
    readiness = Readiness()
    # Two for each connection, and some for listeners, records and the probe.
    most_connections = (raise_descriptor_limit() - _DESCRIPTORS_KEPT_FREE) // 2
    prepare()
    loop = Loop()
    try:
        Bridge(loop, BASE, int(sys.argv[1]), most_connections, readiness).start()
    except (OSError, ValueError) as error:
        readiness.say(f"failed {error}")
        raise
    loop.run()
