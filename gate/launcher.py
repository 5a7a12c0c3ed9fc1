"""
The last step before the command, as the command's own user: everything that belongs to the user is done here.

Root is gone for good when this starts. It makes sure of that, reads the command's variables, proves
that the network is closed, and becomes the init that runs the command. Whatever is not as it has to
be ends the sandbox with 77 before the command's first instruction.
"""

from __future__ import annotations

import _socket
import os
import stat
import sys
import time

from gate.probe import Failure, prove_allow, prove_closed, prove_pinned

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

VARIABLES = 3
PHASES = 4
# Of a later command: a pipe that ends with the aisb that asked for it.
LIFE = 5

REFUSED = 77
NOT_EXECUTABLE = 126
NOT_FOUND = 127

UID = 1000
SESSION = "/run/aisb"
PROJECT = "/project"
POLICY_DIRECTORY = ".ai-sandbox"
SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt"
# The user's own, and that of a gate which opens TLS.
CERTIFICATES = (f"{SESSION}/ca.pem", f"{SESSION}/gate/ca.pem")
RUNTIME = "/run/user/1000"
BUNDLE = f"{RUNTIME}/aisb/ca-bundle.pem"
# wget knows no variable for certificates, only one for a file of settings in place of the system's.
WGETRC = f"{RUNTIME}/aisb/wgetrc"
SYSTEM_WGETRC = "/etc/wgetrc"
# The port that the relay binds last; it leads nowhere by itself.
RELAY = ("127.0.0.1", 3130)
RELAY_SECONDS = 5.0
RELAY_LOOK_SECONDS = 0.001
INITS = ("/usr/bin/tini", "/usr/bin/tini-static")
# No program: what is asked for by this name is done by this very process.
TOOLS = b"/usr/libexec/aisb/tools"

_READ_BYTES = 1 << 20
_ID = f"{UID}\t{UID}\t{UID}\t{UID}"
_NO_CAPABILITY = "0" * 16
_DROPPED = {
    "Uid": _ID,
    "Gid": _ID,
    "Groups": "",
    "CapInh": _NO_CAPABILITY,
    "CapPrm": _NO_CAPABILITY,
    "CapEff": _NO_CAPABILITY,
    "CapBnd": _NO_CAPABILITY,
    "CapAmb": _NO_CAPABILITY,
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


class Refused(Exception):
    """Why the command is not run, in one sentence."""


def main() -> None:
    """Become the command given by the arguments, or end with 77, 126 or 127."""
    try:
        _launch([os.fsencode(word) for word in sys.argv[1:]])
    except (Refused, Failure) as reason:
        _refuse(str(reason))
    except OSError as error:
        _refuse(f"{error.filename or 'the launcher'}: {error.strerror}")
    except KeyboardInterrupt:
        os._exit(130)


def _launch(command: list[bytes]) -> None:
    if not command:
        raise Refused("there is no command")
    report("launcher")
    check_drop(read_text("/proc/self/status"))
    environment = parse_variables(read_descriptor(VARIABLES))
    check_home(environment.get(b"HOME", b""))
    project = read_if_there(f"{SESSION}/project-target").removesuffix("\n") or PROJECT
    check_same(project, read_if_there(f"{SESSION}/project"))
    # A link in its place would have shown the agent a directory of the host that nobody meant.
    check_same(f"{project}/{POLICY_DIRECTORY}", read_if_there(f"{SESSION}/policy-directory"))
    check_covers(read_if_there(f"{SESSION}/covers"))
    if own := [path for path in CERTIFICATES if os.path.exists(path)]:
        write_bundle(own)
        if has_java(environment):
            trust_in_java(environment)
    mode = read_text(f"{SESSION}/mode").strip()
    # Only the first process of the sandbox is the relay's parent; a later command finds it running.
    is_parent = mode in ("allow", "pinned") and os.getpid() == 1
    if is_parent:
        wait_for_relay()
        report("relay")
    prove(mode)
    if is_parent:
        check_relay()
    report("proved")
    # A later command of the same sandbox finds the home as it is.
    if os.getpid() == 1:
        seed_home(environment[b"HOME"].decode(), read_if_there(f"{SESSION}/seeds"))
    if command == [TOOLS] and os.getpid() == 1:
        report("exec")
        serve(environment)
    path = find_command(command[0], environment.get(b"PATH", b""))
    init = next((path for path in INITS if os.access(path, os.X_OK)), None)
    if init is None:
        raise Refused("the image has no init")
    if isinstance(path, int):
        give_up(command[0], path)
    report("exec")
    become(init, command, environment)


def give_up(name: bytes, code: int) -> NoReturn:
    """End as a shell does where there is no such command; said beforehand too, to who would go on once it has begun."""
    report(f"unstarted {code}")
    report("exec")
    _say(name, "command not found" if code == NOT_FOUND else "not executable")
    os._exit(code)


def check_drop(status: str) -> None:
    """Refuse unless root, groups and capabilities are gone, for good, and system calls are filtered."""
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    for name, expected in _DROPPED.items():
        found = lines.get(name, "missing").strip()
        if found != expected:
            raise Refused(f"after the drop {name} is {found!r} instead of {expected!r}")


def parse_variables(block: bytes) -> dict[bytes, bytes]:
    """The variables of a block of `NAME=VALUE` entries, each ended by NUL. Bytes are kept as they are."""
    if block and not block.endswith(b"\0"):
        raise Refused("the command's variables were cut off")
    environment = {}
    for entry in block.split(b"\0")[:-1]:
        name, equals, value = entry.partition(b"=")
        if not name or not equals:
            raise Refused("one of the command's variables has no name or no value")
        environment[name] = value
    return environment


def check_home(home: bytes) -> None:
    """Refuse unless the home is a directory of the command's user itself, not a link to one."""
    shown = home.decode("utf-8", "replace")
    try:
        status = os.lstat(home)
    except OSError as error:
        raise Refused(f"the home {shown!r} is not there") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != UID:
        raise Refused(f"the home {shown!r} is not a directory that belongs to the sandbox's user")


def check_same(directory: str, expected: str) -> None:
    """
    Refuse unless this is the directory that aisb looked at: the same device and inode.

    Between its check and podman's mount a link may have been put in its place.
    """
    if not expected:
        return
    status = os.lstat(directory)
    if f"{status.st_dev} {status.st_ino}" != expected.strip():
        raise Refused(f"{directory} was replaced while the sandbox started")


def check_covers(lines: str) -> None:
    """Refuse unless each protected place is what aisb looked at: a line has device, inode and path."""
    for line in lines_of(lines):
        device, inode, place = line.split(" ", 2)
        check_same(place, f"{device} {inode}")


def lines_of(text: str) -> list[str]:
    """The lines of what aisb wrote. A path may hold whatever else divides lines, a form feed for one."""
    return text.split("\n")[:-1]


def seed_home(home: str, places: str) -> None:
    """Put files into the home, `places` from there on, one a line, and tell the host what became of each."""
    if not places:
        return
    # Few hosts have any.
    from gate.seeding import Unseedable, seed

    for number, place in enumerate(lines_of(places)):
        directory, _, name = place.rpartition("/")
        try:
            state = seed(home, directory, name, read_bytes(f"{SESSION}/seed-{number}"))
        except Unseedable as reason:
            raise Refused(str(reason)) from reason
        report(f"seeded {state} {place}")


def write_bundle(own: list[str]) -> None:
    """Join the image's certificates and those of this run in one file, which the variables and wget's settings name."""
    os.makedirs(os.path.dirname(BUNDLE), mode=0o700, exist_ok=True)
    parts = [read_bytes(source) for source in (SYSTEM_ROOTS, *own)]
    write_whole(BUNDLE, b"".join(ended(part) for part in parts))
    settings = read_bytes(SYSTEM_WGETRC) if os.path.exists(SYSTEM_WGETRC) else b""
    write_whole(WGETRC, ended(settings) + f"ca_certificate = {BUNDLE}\n".encode("ascii"))


def has_java(environment: dict[bytes, bytes]) -> bool:
    """Whether the image has a JVM, or the user names one."""
    return b"JAVA_HOME" in environment or isinstance(find_command(b"java", environment.get(b"PATH", b"")), bytes)


def trust_in_java(environment: dict[bytes, bytes]) -> None:
    """Have the JVM trust what is in the bundle."""
    # Few images have one.
    from gate.java import KEY_STORE, VARIABLE, key_store, options

    write_whole(KEY_STORE, key_store(read_bytes(BUNDLE)))
    environment[VARIABLE] = options(environment.get(VARIABLE, b""))


def ended(text: bytes) -> bytes:
    """`text` with a newline at its end, so that more can follow."""
    return text if not text or text.endswith(b"\n") else text + b"\n"


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is there whole or not at all, and follow no link."""
    new = f"{path}.{os.getpid()}"
    target = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    write_all(target, data)
    os.close(target)
    os.rename(new, path)


def wait_for_relay() -> None:
    """
    Wait until the relay listens. Refuse as soon as it has failed.

    The entrypoint started it, and this is still the same process, so the relay is its only child.
    """
    deadline = time.monotonic() + RELAY_SECONDS
    while not is_listening(RELAY):
        check_relay()
        if time.monotonic() > deadline:
            raise Refused("the relay did not start")
        time.sleep(RELAY_LOOK_SECONDS)


def check_relay() -> None:
    """Refuse if the relay has ended. Its first process may: it leaves the one that stays to us."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError as error:
        raise Refused("the relay did not start") from error


def is_listening(address: tuple[str, int]) -> bool:
    """Whether somebody takes connections at `address`, which is on the loopback."""
    socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        return socket.connect_ex(address) == 0
    finally:
        socket.close()


def prove(mode: str) -> None:
    """Prove the network as the command's user. Raises Failure or Refused."""
    with_v6 = bool(read_if_there("/proc/net/if_inet6"))
    if mode == "full":
        prove_closed(with_v6=with_v6, to_host=True)
        return
    if mode == "pinned":
        prove_pinned(with_v6=with_v6)
        return
    check_routes(read_if_there("/proc/net/route"), read_if_there("/proc/net/ipv6_route"))
    if mode == "allow":
        prove_allow(with_v6=with_v6)
    elif mode == "none":
        prove_closed(with_v6=with_v6, to_host=False)
    else:
        raise Refused(f"{mode!r} is no network mode")


def check_routes(v4: str, v6: str) -> None:
    """Refuse when anything but lo leads anywhere: /proc/net/route and /proc/net/ipv6_route as they are."""
    devices = {line.split()[0] for line in v4.splitlines()[1:]} | {line.split()[-1] for line in v6.splitlines()}
    other = sorted(devices - {"lo"})
    if other:
        raise Refused(f"there is a route through {other[0]!r}, where there should be no network device")


def find_command(name: bytes, path: bytes) -> bytes | int:
    """
    The file that `name` stands for, looked up as execvp does.

    NOT_FOUND or NOT_EXECUTABLE where there is none that can be run.
    """
    if b"/" in name:
        candidates = [name]
    else:
        candidates = [os.path.join(directory or b".", name) for directory in path.split(b":")] if name else []
    exists = False
    for candidate in candidates:
        try:
            mode = os.stat(candidate).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        exists = exists or b"/" in name or stat.S_ISREG(mode)
    return NOT_EXECUTABLE if exists else NOT_FOUND


def become(init: str, command: list[bytes], environment: dict[bytes, bytes]) -> None:
    """
    Become the init with the command as its child.

    The init gives the command a process group of its own and hands it the terminal, so that an
    interrupt arrives once, and takes in the orphans of this sandbox, the relay among them. What podman
    passes on goes to the whole group, as from a terminal: a shell alone would wait for its program.
    """
    os.close(VARIABLES)
    os.close(PHASES)
    flags = [b"-g"]
    if os.getpid() != 1:
        # A later command: the first process is nobody's whom we could ask to take in its orphans.
        from gate.keeper import end_with

        flags.append(b"-s")
        end_with(LIFE)
    restore_signals()
    try:
        os.execve(init, [b"tini", *flags, b"--", *command], environment)  # noqa: S606 - argv as it came, no shell wanted
    except OSError as error:
        _say(command[0], error.strerror or "cannot be run")
        os._exit(NOT_EXECUTABLE)


def serve(environment: dict[bytes, bytes]) -> NoReturn:
    """
    Do what a session asks for, to its end, which is the sandbox's.

    As the first process, which no other can kill, and without an init beside it, whose stdout would be open to all.
    """
    os.close(VARIABLES)
    os.close(PHASES)
    # Few runs do.
    from gate.tools import main

    main(environment)


def restore_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, which a new program would inherit."""
    # `signal` costs 9 ms for turning its constants into enumerations.
    import _signal  # type: ignore[import-not-found]  # built into CPython, not in the stubs

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def report(phase: str) -> None:
    """Tell the host how far this sandbox has come."""
    try:
        write_all(PHASES, f"{phase}\n".encode("ascii"))
    except OSError as error:
        raise Refused(f"the phase {phase!r} could not be reported") from error


def _refuse(reason: str) -> None:
    text = "".join(char if char.isprintable() else "?" for char in reason)
    try:
        write_all(PHASES, f"refused {text}\n".encode("utf-8", "replace"))
    except OSError:
        sys.stderr.write(f"aisb: refused: {text}\n")
        sys.stderr.flush()
    os._exit(REFUSED)


def _say(name: bytes, what: str) -> None:
    shown = "".join(char if char.isprintable() else "?" for char in name.decode("utf-8", "replace"))
    write_all(2, f"aisb: {shown}: {what}\n".encode())


def read_descriptor(descriptor: int) -> bytes:
    """All of an open file, from its beginning wherever its position is."""
    try:
        parts = []
        offset = 0
        while part := os.pread(descriptor, _READ_BYTES, offset):
            parts.append(part)
            offset += len(part)
    except OSError as error:
        raise Refused("the command's variables were not handed over") from error
    return b"".join(parts)


def read_bytes(path: str) -> bytes:
    """The content of a file."""
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def read_text(path: str) -> str:
    """The content of a file of plain text."""
    return read_bytes(path).decode("utf-8", "replace")


def read_if_there(path: str) -> str:
    """The content of a file, nothing where the kernel does not have it."""
    return read_text(path) if os.path.exists(path) else ""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    while data:
        data = data[os.write(descriptor, data) :]
