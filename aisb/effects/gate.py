"""
The gate's life, seen from the host: start it where there is none, wait until it has proved itself, ask
it to listen for a run.

Every run holds a shared lock on the gate's directory, and the gate stops only by taking that lock
exclusively: a run that starts never meets a gate that ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from aisb.effects.locks import locked_within
from aisb.effects.process import Command, Runner, run_ok
from aisb.effects.sealed import sealed
from aisb.effects.signals import interrupt_postponed
from aisb.effects.state import make_private, read_if_there
from aisb.errors import AisbError, Unavailable
from aisb.render.gate import gate_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

START_SECONDS = 20.0
ANSWER_SECONDS = 10.0
LOCK_SECONDS = 20.0
_LOG_LINES = 20
_TRIES = 10
# In the directory of a gate that belongs to one run.
_OWNER = "owner"


class GatePlan(NamedTuple):
    """All that a gate is made of."""

    key: str
    image: str
    files: Mapping[str, str]
    # The run that it belongs to, and what it is told on a descriptor for that run alone; "" where it is shared.
    owner: str = ""
    login: str = ""
    # What it puts into requests, in memory alone.
    secrets: bytes = b""

    @property
    def short(self) -> str:
        """What the container's name and the start lines show."""
        return self.key[:12]

    @property
    def container(self) -> str:
        """The container's name."""
        return gate_name(self.key, self.owner)


class Gate(NamedTuple):
    """A gate that has proved itself. `lock` is the shared lock that this run holds on it."""

    directory: str
    lock: int
    warm: bool
    key: str = ""

    @property
    def short(self) -> str:
        """What the start lines show."""
        return self.key[:12]


def need_gate(plan: GatePlan, runtime: str, runner: Runner, argv_of: Callable[[str], tuple[str, ...]]) -> Gate:
    """The gate of this plan, started if there is none. `argv_of(directory)` is the command that starts it."""
    directory, lock = _taken(plan, runtime)
    try:
        if plan.owner:
            # For whoever clears up: this gate is nobody's but that run's.
            _write_public(f"{directory}/{_OWNER}", plan.owner)
        if answers(directory):
            return Gate(directory, lock, warm=True, key=plan.key)
        start = _lock(f"{directory}/start", fcntl.LOCK_EX)
        try:
            if answers(directory):
                return Gate(directory, lock, warm=True, key=plan.key)
            _start(plan, directory, runner, argv_of(directory))
        except KeyboardInterrupt:
            _abandon(plan, lock, runner, argv_of(directory)[0])
            raise
        finally:
            os.close(start)
    except BaseException:
        os.close(lock)
        raise
    return Gate(directory, lock, warm=False, key=plan.key)


def _taken(plan: GatePlan, runtime: str) -> tuple[str, int]:
    """The gate's directory and our lock on it; made anew where `aisb clean` takes it away meanwhile."""
    for _ in range(_TRIES):
        # Of a directory that has just gone the lock is nobody's any more.
        with suppress(FileNotFoundError):
            directory = _prepare(plan, runtime)
            lock = _lock(f"{directory}/lock", fcntl.LOCK_SH)
            if _is_at(lock, f"{directory}/lock"):
                return directory, lock
            os.close(lock)
    raise Unavailable(f"{runtime}/g/{plan.short} is taken away again and again", hint="try again")


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def open_run(gate: Gate, run: str) -> None:
    """Have the gate listen on the run's own socket."""
    ask(gate.directory, {"op": "open", "run": run})


def close_run(gate: Gate, run: str, seconds: float) -> dict[str, object]:
    """Have the gate drop the run's socket and connections; its counts of allowed and denied."""
    return ask(gate.directory, {"op": "close", "run": run}, seconds)


def ask(directory: str, question: Mapping[str, object], seconds: float = ANSWER_SECONDS) -> dict[str, object]:
    """One question on the gate's control socket. Raises Unavailable for no answer or a refusal."""
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(seconds)
            control.connect(f"{directory}/ctl.sock")
            control.sendall(json.dumps(question).encode() + b"\n")
            answer = json.loads(_read_line(control))
    except (OSError, ValueError) as error:
        raise Unavailable(f"the gate does not answer: {error}", hint=_log_tail(directory)) from error
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        said = answer.get("error", "nothing") if isinstance(answer, dict) else "nonsense"
        raise Unavailable(f"the gate says: {said}", hint=_log_tail(directory))
    return answer


def _read_line(control: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = control.recv(65536)
        if not piece:
            raise OSError("it hung up")
        data += piece
    return data


def end_gate(plan: GatePlan, gate: Gate, runner: Runner, podman: str) -> None:
    """Take away a gate that belongs to the run that is over, with its directory."""
    with interrupt_postponed():
        with suppress(AisbError):
            runner.run(_removal(plan, podman))
        _remove_tree(gate.directory)
        os.close(gate.lock)


def _remove_tree(directory: str) -> None:
    # Few runs have a gate of their own, and the module costs each start some milliseconds.
    from shutil import rmtree

    rmtree(directory, ignore_errors=True)


def drop_own_gates(runtime: str, tidy: Callable[[str], object]) -> None:
    """
    Remove the directories of gates that belonged to a run, where both are gone: nobody holds their lock.

    `tidy` takes away what runs have left in a directory of theirs.
    """
    parent = f"{runtime}/g"
    for name in os.listdir(parent) if os.path.isdir(parent) else ():
        directory = f"{parent}/{name}"
        if not os.path.exists(f"{directory}/{_OWNER}"):
            continue
        with suppress(OSError):
            lock = os.open(f"{directory}/lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                tidy(f"{directory}/r")
                # What is not moved to a run's record yet stays until it is.
                if not os.listdir(f"{directory}/r"):
                    _remove_tree(directory)
            finally:
                os.close(lock)


def _prepare(plan: GatePlan, runtime: str) -> str:
    """The gate's directory, filled. Raises Unavailable where it belongs to another key of the same name."""
    directory = f"{runtime}/g/{plan.short}"
    if _key_of(directory) == plan.key:
        return directory
    make_private(f"{runtime}/g")
    os.makedirs(f"{directory}/conf", exist_ok=True)
    os.makedirs(f"{directory}/r", exist_ok=True)
    held = _lock(f"{directory}/start", fcntl.LOCK_EX)
    try:
        if _key_of(directory) not in (None, plan.key):
            raise Unavailable(
                f"two policies share the short name {plan.short}", hint=f"remove {directory} and try again"
            )
        for path, mode in ((directory, 0o711), (f"{directory}/conf", 0o755), (f"{directory}/r", 0o711)):
            os.chmod(path, mode)
        for name, text in sorted(plan.files.items()):
            _write_public(f"{directory}/conf/{name}", text)
        _write_public(f"{directory}/key", plan.key)
    finally:
        os.close(held)
    return directory


def _key_of(directory: str) -> str | None:
    key = read_if_there(f"{directory}/key")
    return None if key is None else key.decode("ascii", "replace")


def _write_public(path: str, text: str) -> None:
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    os.replace(temporary, path)


def _lock(path: str, kind: int) -> int:
    """The lock, waited for no longer than a gate needs to end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not locked_within(descriptor, kind, LOCK_SECONDS):
        os.close(descriptor)
        raise Unavailable(f"{path} is held by a gate that does not end", hint="try again in a minute")
    return descriptor


def answers(directory: str) -> bool:
    """Whether a gate listens and has proved itself. A gate that hangs is "could not tell": an error."""
    if not os.path.exists(f"{directory}/ctl.sock"):
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_SECONDS)
        try:
            probe.connect(f"{directory}/ctl.sock")
        except (ConnectionRefusedError, FileNotFoundError):
            return False
    return True


def _start(plan: GatePlan, directory: str, runner: Runner, argv: tuple[str, ...]) -> None:
    """Start the container and wait until the gate says that it is proved."""
    _remove_leftovers(plan, directory, runner, argv[0])
    ready, theirs = os.pipe2(os.O_CLOEXEC)
    try:
        with interrupt_postponed(), _told(plan) as told:
            _run_detached(argv, (theirs, *told), runner)
        os.close(theirs)
        theirs = -1
        said = _await_line(ready, START_SECONDS)
    finally:
        os.close(ready)
        if theirs >= 0:
            os.close(theirs)
    if said != "ready":
        runner.run(_removal(plan, argv[0]))
        reason = said.removeprefix("failed ") if said else f"it was not ready within {START_SECONDS:g} s, or ended"
        raise Unavailable(f"the gate did not start: {reason}", hint=_log_tail(directory))


def _abandon(plan: GatePlan, lock: int, runner: Runner, podman: str) -> None:
    """Take away the gate that was being started, unless another run uses it already."""
    with suppress(BlockingIOError), interrupt_postponed():
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        runner.run(_removal(plan, podman))


def _removal(plan: GatePlan, podman: str) -> Command:
    """In a session of its own: a ^C is not meant for it."""
    argv = (podman, "rm", "--force", "--time", "0", plan.container)
    return Command(argv=argv, timeout_seconds=30, new_session=True)


@contextmanager
def _told(plan: GatePlan) -> Iterator[tuple[int, ...]]:
    """
    Descriptors from which a gate of one run reads, once, a password and what it puts into requests.

    None for a gate that is shared: it is told nothing.
    """
    if not plan.owner:
        yield ()
        return
    with ExitStack() as stack:
        read, write = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, read)
        # Short enough for the pipe to take at once.
        os.write(write, f"{plan.login}\n".encode("ascii"))
        os.close(write)
        told = [read]
        if plan.secrets:
            told.append(sealed(plan.secrets))
            stack.callback(os.close, told[-1])
        yield tuple(told)


def _run_detached(argv: tuple[str, ...], descriptors: tuple[int, ...], runner: Runner) -> None:
    """
    `podman run --detach` with the readiness pipe as descriptor 3, and what the gate is told from number 4 on.

    In a session of its own: podman 4 leaves slirp4netns in the caller's, where a Ctrl-C meant for one
    run would take the network from all runs of the gate.
    """
    with _from_3_upward(descriptors) as numbers:
        run_ok(runner, Command(argv=argv, timeout_seconds=START_SECONDS, pass_fds=numbers, new_session=True))


@contextmanager
def _from_3_upward(descriptors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """podman hands on descriptors by number, from 3 upward: for a moment these have to be the first ones."""
    with ExitStack() as stack:
        # Out of the way first: one may stand where another is to be.
        copies = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in descriptors]
        for copy in copies:
            stack.callback(os.close, copy)
        for number, copy in enumerate(copies, 3):
            stack.enter_context(_as_number(copy, number))
        yield tuple(range(3, 3 + len(copies)))


@contextmanager
def _as_number(descriptor: int, number: int) -> Iterator[None]:
    try:
        saved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    except OSError:
        saved = -1
    os.dup2(descriptor, number, inheritable=False)
    try:
        yield
    finally:
        if saved >= 0:
            os.dup2(saved, number, inheritable=False)
            os.close(saved)
        else:
            os.close(number)


def _remove_leftovers(plan: GatePlan, directory: str, runner: Runner, podman: str) -> None:
    """A container of that name that does not answer is dead or wedged; nobody can be using it any more."""
    exists = Command(argv=(podman, "container", "exists", plan.container), timeout_seconds=30, ok=frozenset({0, 1}))
    if run_ok(runner, exists).code == 0:
        run_ok(runner, _removal(plan, podman))
    for leftover in ("ctl.sock", "log"):
        if os.path.lexists(f"{directory}/{leftover}"):
            os.unlink(f"{directory}/{leftover}")


def _await_line(descriptor: int, seconds: float) -> str:
    """The first line from the pipe, "" where the other side closes it or takes too long."""
    data = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in data and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(descriptor, 4096)
            if not piece:
                break
            data += piece
    return data.partition(b"\n")[0].decode("utf-8", "replace")


def _log_tail(directory: str) -> str:
    lines = (read_if_there(f"{directory}/log") or b"").decode("utf-8", "replace").splitlines()
    return "\n".join(["the gate's log ends:", *(_printable(line) for line in lines[-_LOG_LINES:])]) if lines else ""


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in line)
