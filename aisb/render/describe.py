"""What `--dry-run` prints: the commands of a run and the lines that prepare for them, ready to paste."""

from __future__ import annotations

import json
import shlex
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisb.domain.publish import Published

# Sends one line to a gate, once it listens, and shows what it answers; a shell alone speaks to no such socket.
_ASK = """\
import socket, sys, time
gate, end = socket.socket(socket.AF_UNIX), time.monotonic() + 20
while gate.connect_ex(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.1)
gate.sendall(sys.argv[2].encode() + b"\\n")
sys.stderr.write(gate.recv(4096).decode())
"""


class Prepared(NamedTuple):
    """
    What lies on the host before a run begins: directories with their modes, the outer ones first, and files.

    `missing` are directories of the project's that are made to be covered, each with where it is inside; the file
    `covers` tells them to the launcher.
    """

    directories: tuple[tuple[str, int], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    seccomp: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    covers: str = ""


class Shown(NamedTuple):
    """
    A run as it is shown. `variables` are the command's: of one whose value is private it is the name in the shell
    that the lines are pasted in, of the others the value. `home` makes the home's volume, () for one that goes.

    `read` are the files that say something of the run, `settings` what is in force, each with where it was written.
    """

    variables: tuple[tuple[str, str, bool], ...]
    session: str = ""
    prepared: Prepared = Prepared()
    sandbox: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    publish: tuple[Published, ...] = ()
    read: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class ShownGate(NamedTuple):
    """Its gate: its directory, the command that starts it, its container, the run, and what only this gate is told."""

    directory: str
    argv: tuple[str, ...]
    container: str
    run: str
    told: tuple[str, ...] = ()


def dry_run_lines(run: Shown, gate: ShownGate | None = None) -> list[str]:
    """Shell lines and comments. Private values of variables are never among them."""
    return [
        *(f"# read: {printable(name)}" for name in run.read),
        *(f"# in force: {printable(text)}" for text in run.settings),
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
        *_preparations(run),
        *(
            f"# beside it: a process that leads 127.0.0.1:{item.host} to port {item.port} inside"
            for item in run.publish
        ),
        *(_of_gate(gate) if gate else []),
        _sandbox(run, gate),
        *([f"# afterwards: {_asked(gate, 'close')}"] if gate else []),
        f"# afterwards: rm -r {quote(run.session)}",
        *(f"# afterwards: rmdir {quote(source)}" for source, _ in run.prepared.missing),
    ]


def _sandbox(run: Shown, gate: ShownGate | None) -> str:
    """The sandbox's own line. It holds the gate's lock, without which a gate ends when its time is over."""
    command = f"{shlex.join(run.sandbox)} 3<{quote(f'{run.session}/given')} 4>{quote(f'{run.session}/phases')}"
    return f"(flock -s 9; {command}) 9>>{quote(f'{gate.directory}/lock')}" if gate else command


def _preparations(run: Shown) -> Iterator[str]:
    prepared = run.prepared
    yield "umask 022"
    yield from (f"mkdir -p -m {mode:o} {quote(path)}" for path, mode in prepared.directories)
    yield from (f"printf %s {quote(text)} >{quote(path)}" for path, text in prepared.files)
    yield from (f"aisb --no-cwd --net none --print-seccomp >{quote(path)}" for path in prepared.seccomp)
    for source, target in prepared.missing:
        told = f"printf '%s %s\\n' \"$(stat -c '%d %i' {quote(source)})\" {quote(target)}"
        yield f"mkdir -p {quote(source)} && {told} >>{quote(prepared.covers)}"
    if run.home:
        exists = (run.home[0], "volume", "exists", run.home[-1])
        yield f"{shlex.join(exists)} || {shlex.join(run.home)} >/dev/null"
    private = [name for name, _, is_private in run.variables if is_private]
    if private:
        yield f"# values of yours are left out, and taken from this shell: {' '.join(private)}"
    values = (
        f'"{name}=${{{value}}}"' if is_private and value else quote(f"{name}={value}")
        for name, value, is_private in run.variables
    )
    yield f"(umask 077; printf '%s\\0' {' '.join(values)} >{quote(f'{run.session}/given')})"


def _of_gate(gate: ShownGate) -> list[str]:
    socket = quote(f"{gate.directory}/ctl.sock")
    ready = quote(f"{gate.directory}/ready")
    told = [f" {number}<{quote(f'{gate.directory}/{name}')}" for number, name in enumerate(gate.told, 4)]
    exists = (gate.argv[0], "container", "exists", gate.container)
    return [
        *(f"# a file of yours, with what the gate alone is told: {gate.directory}/{name}" for name in gate.told),
        f"{shlex.join(exists)} || {shlex.join(gate.argv)} >/dev/null 3>{ready}{''.join(told)}",
        f'ask_gate() {{ python3 -c {quote(_ASK)} {socket} "$1"; }}',
        _asked(gate, "open"),
    ]


def _asked(gate: ShownGate, operation: str) -> str:
    return f"ask_gate {quote(json.dumps({'op': operation, 'run': gate.run}))}"
