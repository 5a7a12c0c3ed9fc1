"""
The one place that starts programs.

A `Command` is a value: built by a pure function, compared whole in a test, printed by
`--dry-run`, run by a `Runner`. It starts from an empty environment plus what rootless
podman needs, with stdin closed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import shlex
import signal
import subprocess
import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aisb.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PASSED_ON = (
    "HOME",
    "LANG",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)
# Python ignores the first two, and a program that we start would inherit that. Some callers (tmux) have us ignore the
# last one: podman in the background would be told then that its terminal is broken, and never read a key.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTIN)
# Of what a program says, and of one line of it: what runs in somebody else's image may say more than fits anywhere.
LARGEST_OUTPUT = 64 * 1024 * 1024
LONGEST_LINE = 64 * 1024
_PIECE = 65536
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Command(NamedTuple):
    """
    A program to run: argv, the seconds it may take, and the exit codes that mean success.

    With `new_session` no signal of this terminal reaches it, nor what it leaves running.
    """

    argv: tuple[str, ...]
    timeout_seconds: float
    ok: frozenset[int] = frozenset({0})
    environment: Mapping[str, str] = MappingProxyType({})
    input: bytes | None = None
    pass_fds: tuple[int, ...] = ()
    cwd: str = "/"
    new_session: bool = False

    def as_shell(self) -> str:
        """One line that can be pasted into a shell."""
        return shlex.join(self.argv)


class Finished(NamedTuple):
    """How a command ended. A signal n is -n, as `subprocess` has it."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""


class Runner(Protocol):
    """What runs commands: the system, or a script of answers in a test."""

    def run(self, command: Command) -> Finished:
        """Run to the end and return what came out. Raises CommandError when it cannot start or takes too long."""

    def announce(self, argv: tuple[str, ...]) -> None:
        """A sandbox is about to be started on this terminal, past the runner."""

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """Run with stdout and stderr merged, `on_line` for each line, `on_tick` about once a second; the exit code."""


def closed_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of every program that aisb starts."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": SAFE_PATH, **kept, **extra}


class SystemRunner:
    """Runs commands for real. One that says more than `largest` bytes is ended."""

    largest = LARGEST_OUTPUT

    def announce(self, argv: tuple[str, ...]) -> None:
        """See `Runner.announce`."""

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL if command.input is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=closed_environment(command.environment),
                pass_fds=command.pass_fds,
                cwd=command.cwd,
                start_new_session=command.new_session,
            )
        except FileNotFoundError as error:
            raise _not_found(command) from error
        with process:
            try:
                return _heard(process, command, self.largest)
            except BaseException:
                process.kill()
                raise

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        deadline = time.monotonic() + command.timeout_seconds
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=closed_environment(command.environment),
                pass_fds=command.pass_fds,
                cwd=command.cwd,
            )
        except FileNotFoundError as error:
            raise _not_found(command) from error
        with process:
            try:
                if process.stdout is not None:
                    _pump(process.stdout.fileno(), on_line, on_tick, deadline)
                return process.wait(timeout=max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise _too_slow(command) from error
            finally:
                if process.poll() is None:
                    process.terminate()


def _heard(process: subprocess.Popen[bytes], command: Command, largest: int) -> Finished:
    """How a program ended that was told its input. Raises CommandError where it says too much or takes too long."""
    deadline = time.monotonic() + command.timeout_seconds
    said: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    left = memoryview(command.input or b"")
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr, process.stdin):
            if pipe is not None:
                event = selectors.EVENT_WRITE if pipe is process.stdin else selectors.EVENT_READ
                selector.register(pipe, event, pipe)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() >= deadline:
                raise _too_slow(command)
            for key, _ in ready:
                if key.data is process.stdin:
                    left = left[_written(key.fd, left) :]
                    is_over = not left
                else:
                    data = os.read(key.fd, _PIECE)
                    said[key.data] += data
                    is_over = not data
                if is_over:
                    selector.unregister(key.data)
                    key.data.close()
            if sum(map(len, said.values())) > largest:
                raise CommandError(f"{command.as_shell()} said more than {largest} bytes")
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise _too_slow(command) from error
    return Finished(code, *(bytes(text) for text in said.values()))


def _written(pipe: int, data: memoryview) -> int:
    """How much the pipe took; all of it where nobody reads there any more."""
    try:
        # So much a pipe takes at once that has room at all (pipe(7), PIPE_BUF).
        return os.write(pipe, data[: select.PIPE_BUF])
    except BrokenPipeError:
        return len(data)


def _pump(source: int, on_line: Callable[[str], None], on_tick: Callable[[], None], deadline: float) -> None:
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(timeout=1.0):
                on_tick()
                continue
            data = os.read(source, 65536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(line.decode("utf-8", "replace"))
    if rest:
        on_line(rest.decode("utf-8", "replace"))


class TracingRunner:
    """Says each command before it runs."""

    def __init__(self, inner: Runner, say: Callable[[str], None]) -> None:
        self._inner = inner
        self._say = say

    def announce(self, argv: tuple[str, ...]) -> None:
        """See `Runner.announce`."""
        self._say(f"+ {shlex.join(argv)}")

    def run(self, command: Command) -> Finished:
        """See `Runner.run`."""
        self._say(f"+ {command.as_shell()}")
        return self._inner.run(command)

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """See `Runner.stream`."""
        self._say(f"+ {command.as_shell()}")
        return self._inner.stream(command, on_line, on_tick)


def run_ok(runner: Runner, command: Command) -> Finished:
    """Run a command and return how it ended; an exit code that is not in `ok` is a CommandError."""
    finished = runner.run(command)
    if finished.code not in command.ok:
        raise CommandError(_failure(command, finished), hint=_last_lines(finished.stderr))
    return finished


def run_json(runner: Runner, command: Command) -> Any:  # noqa: ANN401  # JSON
    """What a command says in JSON; silence is an empty list, as of podman. Raises CommandError for anything else."""
    said = run_ok(runner, command).stdout
    try:
        return json.loads(said or b"[]")
    except ValueError as error:
        raise CommandError(f"{command.as_shell()} said something that aisb cannot read") from error


def _failure(command: Command, finished: Finished) -> str:
    ended = f"was ended by signal {-finished.code}" if finished.code < 0 else f"exited {finished.code}"
    return f"{command.as_shell()} {ended}"


def _last_lines(text: bytes) -> str:
    return "\n".join(text.decode("utf-8", "replace").strip().splitlines()[-5:])


def _not_found(command: Command) -> CommandError:
    return CommandError(f"{command.argv[0]} was not found", hint="install it and try again")


def _too_slow(command: Command) -> CommandError:
    return CommandError(f"{command.as_shell()} took longer than {command.timeout_seconds:g} s")


def spawn(
    argv: tuple[str, ...], descriptors: Mapping[int, int], extra: Mapping[str, str], *, own_group: bool = False
) -> int:
    """
    Start a program that shares this terminal and return its process id.

    `descriptors` maps the numbers that it shall see to descriptors of ours; it gets 0, 1, 2 and
    these, nothing else. Signals that we hold back reach it; with `own_group` it leads a process group.
    The caller waits for it.
    """
    # Sources are moved out of the way first: a target may be the number of another's source.
    moved = {theirs: fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 64) for theirs, ours in descriptors.items()}
    actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in moved.items()]
    try:
        start = partial(os.posix_spawn, setpgroup=0) if own_group else os.posix_spawn
        environment = closed_environment(extra)
        return start(argv[0], argv, environment, file_actions=actions, setsigmask=(), setsigdef=_RESET)
    except FileNotFoundError as error:
        raise CommandError(f"{argv[0]} was not found", hint="install it and try again") from error
    finally:
        for descriptor in moved.values():
            os.close(descriptor)
