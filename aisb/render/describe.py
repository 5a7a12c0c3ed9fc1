"""What `--dry-run` prints: the commands of a run and the lines that prepare for them, ready to paste."""

from __future__ import annotations

import json
import shlex
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aisb.domain.publish import Published

# Sends one line to a gate, once it listens, and shows what it answers; a shell alone speaks to no such socket.
_ASK = """\
import socket, sys, time
gate, end = socket.socket(socket.AF_UNIX), time.monotonic() + float(sys.argv[2])
while gate.connect_ex(sys.argv[1]):
    if time.monotonic() >= end:
        sys.exit("no gate listens at " + sys.argv[1])
    time.sleep(0.1)
gate.sendall(sys.argv[3].encode() + b"\\n")
sys.stderr.write(gate.recv(4096).decode())
"""
# What a gate of one run is told: a proxy's user and password as squid takes them, and what it puts into requests.
_LOGIN = """\
import os, sys
for byte in os.environb[sys.argv[1].encode()]:
    sys.stdout.write(chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"%{byte:02X}")
print()
"""
_SECRETS = """\
import json, os, sys
words = iter(sys.argv[1:])
print(json.dumps([[host, header, made, os.environ[name]] for host, header, made, name in zip(*[words] * 4)]))
"""
# The start and the end of a process's name as aisb writes down whose a run is.
_STARTED = "$(sed 's/.*) //' \"/proc/$1/stat\" | cut -d' ' -f20)"
_BOOT = "$(cat /proc/sys/kernel/random/boot_id)"
# The shell that this stands in, which may be one in brackets: `$$` is the outer one there.
_THIS = """own "$(exec sh -c 'echo "$PPID"')\""""
_GATE_SECONDS = 20
_TAKEN = "these lines run elsewhere (aisb ps), or were killed and have left that directory (aisb clean)"


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

    `read` are the files that say something of the run, `settings` what is in force, each with where it was written, and
    `unkept` which caps are not, and why, "" where all are.

    `unready` is what the files lack that a run finds out when it starts, `undone` what aisb itself does in a run.
    """

    variables: tuple[tuple[str, str, bool], ...]
    session: str = ""
    prepared: Prepared = Prepared()
    sandbox: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    publish: tuple[Published, ...] = ()
    read: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    unkept: str = ""
    unready: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()


class ShownSecret(NamedTuple):
    """What a gate puts into requests: where, what stands for it inside, and which variable of the shell has it."""

    host: str
    header: str
    placeholder: str
    variable: str


class ShownGate(NamedTuple):
    """
    Its gate: its directory, the command that starts it, its container, and the run.

    One that `is_own` is that run's alone, and told `secrets` and the variable `login`, "" without a proxy's password.
    """

    directory: str
    argv: tuple[str, ...]
    container: str
    run: str
    is_own: bool = False
    login: str = ""
    secrets: tuple[ShownSecret, ...] = ()


def dry_run_lines(run: Shown, gate: ShownGate | None = None) -> list[str]:
    """
    Shell lines and comments. Private values of variables are never among them.

    They stand in brackets: a terminal's shell reads all of it before it begins, and keeps nothing of it. What is left
    of the run goes at its end, whichever that is, and the exit code is the command's.
    """
    return [
        *(f"# read: {printable(name)}" for name in run.read),
        *(f"# in force: {printable(text)}" for text in run.settings),
        *([f"# but {run.unkept}"] if run.unkept else []),
        "# ... and what adds up (entries, variables, mounts), each with where it was written: --print-policy",
        *(f"# {printable(text)}" for text in (*run.unready, *run.undone)),
        "(",
        "set -e",
        *_refusals(run, gate),
        "trap : HUP INT TERM",
        *_preparations(run, gate),
        *(
            f"# beside it: a process that leads 127.0.0.1:{item.host} to port {item.port} inside"
            for item in run.publish
        ),
        *(_of_gate(gate) if gate else []),
        # It holds the gate's lock, without which a gate ends when its time is over.
        *([f"exec 9>>{quote(f'{gate.directory}/lock')}", "flock -s 9"] if gate else []),
        f"({_THIS}; {_sandbox(run)})",
        ")",
    ]


def _refusals(run: Shown, gate: ShownGate | None) -> Iterator[str]:
    """As a run does before anything is started: none without a variable that it takes a value from."""
    for name in dict.fromkeys(value for _, value, is_private in run.variables if is_private and value):
        yield _refusal(name, f"${{{name}+set}}")
    told = [gate.login, *(secret.variable for secret in gate.secrets)] if gate else []
    for name in dict.fromkeys(name for name in told if name):
        yield _refusal(name, f"${{{name}:+set}}")


def _refusal(name: str, there: str) -> str:
    said = f"aisb: {name}: this variable is not set in the shell that these lines are pasted in"
    return f'[ "{there}" ] || {{ echo {quote(said)} >&2; exit 2; }}'


def _sandbox(run: Shown) -> str:
    return f"exec {shlex.join(run.sandbox)} 3<{quote(f'{run.session}/given')} 4>{quote(f'{run.session}/phases')}"


def _end(run: Shown, gate: ShownGate | None) -> Iterator[str]:
    """What takes the run away again."""
    yield "set +e"
    if gate and not gate.is_own:
        yield f"{_asked(gate, 'close', 0)} 2>/dev/null"
    yield f"rm -rf {quote(run.session)}"
    yield from (f"rmdir {quote(source)}" for source, _ in run.prepared.missing)
    if gate and gate.is_own:
        yield f"{shlex.join((gate.argv[0], 'rm', '--force', '--time', '0', '--ignore', gate.container))} >/dev/null"
        yield f"rm -rf {quote(gate.directory)}"


def _preparations(run: Shown, gate: ShownGate | None) -> Iterator[str]:
    prepared = run.prepared
    owner = quote(f"{run.session}/owner")
    yield "umask 022"
    yield f"tidy() {{ {'; '.join(_end(run, gate))}; }}"
    yield f'own() {{ printf \'%s %s %s\' "$1" "{_STARTED}" "{_BOOT}" >{owner}; }}'
    if gate:
        call = f"python3 -c {quote(_ASK)} {quote(f'{gate.directory}/ctl.sock')}"
        yield f'ask_gate() {{ {call} "$1" "$2"; }}'
    for path, mode in prepared.directories:
        if path != run.session:
            yield f"mkdir -p -m {mode:o} {quote(path)}"
            continue
        yield f"mkdir -m {mode:o} {quote(path)} || {{ echo {quote(_TAKEN)} >&2; exit 1; }}"
        yield "trap tidy EXIT"
        yield _THIS
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


def _of_gate(gate: ShownGate) -> Iterator[str]:
    ready = quote(f"{gate.directory}/ready")
    told = _told(gate) if gate.is_own else {}
    if told:
        yield "# what this gate alone is told is written from variables of this shell, and gone once it has been read"
    yield from (f"(umask 077; {command} >{quote(path)})" for path, command in told.items())
    read = "".join(f" {number}<{quote(path)}" for number, path in enumerate(told, 4))
    # What does not answer is dead, and its name is taken.
    removal = shlex.join((gate.argv[0], "rm", "--force", "--time", "0", "--ignore", gate.container))
    gone = f"{removal} >/dev/null; rm -f {quote(f'{gate.directory}/ctl.sock')}"
    start = f"{shlex.join(gate.argv)} >/dev/null 3>{ready}{read}"
    yield f"""ask_gate 0 '{{"op": "status"}}' 2>/dev/null || {{ {gone}; {start}; }}"""
    yield _asked(gate, "open", _GATE_SECONDS)
    if told:
        yield f"rm {' '.join(map(quote, told))}"


def _told(gate: ShownGate) -> dict[str, str]:
    """The files that a gate of one run reads once, each with the command that prints it. They go with the run."""
    place = f"{gate.directory}/r/{gate.run}"
    login = f"{_taken([gate.login])} python3 -c {quote(_LOGIN)} {gate.login}" if gate.login else "echo"
    told = {f"{place}/login": login}
    if gate.secrets:
        words = shlex.join([word for secret in gate.secrets for word in secret])
        taken = _taken(secret.variable for secret in gate.secrets)
        told[f"{place}/secrets"] = f"{taken} python3 -c {quote(_SECRETS)} {words}"
    return told


def _taken(names: Iterable[str]) -> str:
    """Variables of the shell, exported or not, for one command; without one of them there is none."""
    return " ".join(f'{name}="${{{name}:?}}"' for name in dict.fromkeys(names))


def _asked(gate: ShownGate, operation: str, seconds: int) -> str:
    return f"ask_gate {seconds} {quote(json.dumps({'op': operation, 'run': gate.run}))}"
