#!/usr/bin/python3
"""
Measures again what of podman's, nft's and squid's behaviour the design rests on, and prints what differs from
docs/networking.md: exit 1 where anything does.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/spike.py'

Run as the user whose podman it is, with aisb on the PATH and both of its images built.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, TREE)

from aisb.render.argv import CAPABILITIES  # noqa: E402  # beside us, and not installed for this Python
from aisb.render.gate import NETWORKS  # noqa: E402  # as above

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = f"{TREE}/docs/networking.md"
HEADING = "## Facts that the design rests on"
SECONDS = 60
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
MAPPING = ("--userns", "keep-id:uid=1000,gid=1000")


class Fact(NamedTuple):
    """A row of the page: what is tried and what was found, how it is tried here, and what does so."""

    tried: str
    found: str
    command: str
    measure: Callable[[], str]


def run(*argv: str, pass_fds: tuple[int, ...] = (), given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """How a command ended."""
    source = {"input": given} if given is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(argv, capture_output=True, check=False, timeout=SECONDS, pass_fds=pass_fds, **source)  # type: ignore[call-overload]  # one of the two


@cache
def image(role: str) -> str:
    """The newest image of aisb's for that role."""
    listed = run("podman", "images", "--filter", f"label=aisb.role={role}", "--sort", "created", "--format", "{{.ID}}")
    return listed.stdout.decode().split()[0]


@cache
def seccomp() -> str:
    """A file with the profile that aisb runs sandboxes under."""
    directory = tempfile.mkdtemp(prefix="spike-")
    atexit.register(shutil.rmtree, directory)
    path = f"{directory}/seccomp.json"
    with open(path, "wb") as file:
        file.write(run("aisb", "--net", "none", "--print-seccomp").stdout)
    return path


def inside(*words: str, flags: tuple[str, ...] = (), **more: object) -> subprocess.CompletedProcess[bytes]:
    """A command in a sandbox's image without a network, with nothing else of a sandbox."""
    argv = ("podman", "run", "--rm", "--pull=never", "--network=none", "--entrypoint=", *flags, image("sandbox"))
    return run(*argv, *words, **more)  # type: ignore[arg-type]  # of `run`


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    """What it printed, or how it ended."""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else f"exit {done.returncode}"


def place() -> tempfile.TemporaryDirectory[str]:
    """A directory to mount."""
    return tempfile.TemporaryDirectory(prefix="spike-", ignore_cleanup_errors=True)


def mount(directory: str, *options: str) -> tuple[str, ...]:
    """The flag that mounts it at /mnt."""
    return (f"--mount={','.join((f'type=bind,src={directory},dst=/mnt', *options))}",)


def owner() -> str:
    with place() as here:
        inside("touch", "/mnt/file", flags=(*MAPPING, "--user=1000:1000", *mount(here)))
        status = os.stat(f"{here}/file")
    return "the caller's on the host" if (status.st_uid, status.st_gid) == (os.getuid(), os.getgid()) else str(status)


def root_of_the_sandbox() -> str:
    with place() as here:
        made = inside("touch", "/mnt/file", flags=(*MAPPING, "--user=0", "--cap-drop=all", *mount(here)))
    return "fails: it is another id on the host" if made.returncode else "makes one"


def preserved() -> str:
    words = bytes(range(1, 256))
    memory = os.memfd_create("spike")
    os.write(memory, words)
    text = "import os,sys; sys.stdout.buffer.write(os.pread(3, 4096, 0))"
    # As descriptor 3, whatever number it has here.
    argv = ("sh", "-c", f'exec 3<&{memory}; exec "$@"', "sh", "podman", "run", "--rm", "--interactive", "--pull=never")
    rest = ("--network=none", "--entrypoint=", "--preserve-fds=1", image("sandbox"), *PYTHON, text)
    done = run(*argv, *rest, pass_fds=(memory,), given=b"")
    os.close(memory)
    return "arrives, every byte" if done.stdout == words else f"{len(done.stdout)} bytes, exit {done.returncode}"


def in_inspect() -> str:
    name = f"spike-{os.getpid()}"
    run("podman", "create", "--name", name, "--pull=never", "--env=SPIKE=shown-here", image("sandbox"), "true")
    seen = run("podman", "inspect", name).stdout
    run("podman", "rm", "--force", name)
    return "is shown there" if b"shown-here" in seen else "is not shown"


def second_of_a_name() -> str:
    name = f"spike-{os.getpid()}"
    flags = ("--name", name, "--pull=never", "--network=none", "--entrypoint=")
    run("podman", "run", "--detach", *flags, image("sandbox"), "/bin/sleep", "60")
    second = run("podman", "run", "--rm", *flags, image("sandbox"), "true")
    run("podman", "rm", "--force", "--time", "0", name)
    return f"exits {second.returncode}"


def missing_image() -> str:
    name = "localhost/spike-not-there:1"
    exists, inspected = run("podman", "image", "exists", name), run("podman", "image", "inspect", name)
    return f"exits {exists.returncode} and {inspected.returncode}"


def own_125() -> str:
    return f"exits {inside('/bin/sh', '-c', 'exit 125').returncode}"


def no_dns() -> str:
    return "is an error" if inside("true", flags=("--dns=192.0.2.53",)).returncode == 125 else "is taken"


def locked() -> str:
    text = "import fcntl; fcntl.flock(open('/mnt/lock'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    import fcntl

    with place() as here, open(f"{here}/lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        held = inside(*PYTHON, text, flags=mount(here)).returncode
        fcntl.flock(file, fcntl.LOCK_UN)
        free = inside(*PYTHON, text, flags=mount(here)).returncode
    return "holds against whoever is inside" if held and not free else f"exits {held} held and {free} free"


def read_only_socket() -> str:
    text = (
        "import errno, os, socket\n"
        "s = socket.socket(socket.AF_UNIX); s.connect('/mnt/socket'); print(s.recv(9).decode(), end=' ')\n"
        "try: os.unlink('/mnt/socket')\n"
        "except OSError as error: print(errno.errorcode[error.errno])"
    )
    with place() as here, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{here}/socket")
        listener.listen()
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"answered"), daemon=True).start()
        said = told(inside(*PYTHON, text, flags=(*MAPPING, "--user=1000:1000", *mount(here, "ro"))))
    return "works; replacing the socket does not" if said == "answered EROFS" else said


def replaced_file() -> str:
    with place() as here:
        path = f"{here}/file"
        for name, text in (("file", "old"), ("new", "new")):
            with open(f"{here}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        flags = ("--interactive", f"--mount=type=bind,src={path},dst=/mnt/file")
        argv = ("podman", "run", "--rm", "--pull=never", "--network=none", "--entrypoint=", *flags, image("sandbox"))
        sh = ("/bin/sh", "-c", "echo ready; read -r go; cat /mnt/file")
        with subprocess.Popen((*argv, *sh), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            if child.stdout is None or child.stdout.readline() != b"ready\n":
                return "did not start"
            os.rename(f"{here}/new", path)
            seen = child.communicate(b"go\n", SECONDS)[0]
    return {b"old": "stays the old one inside", b"new": "is the new one inside"}.get(seen, repr(seen))


def renamed_parent() -> str:
    script = "mv .git .g && cp -r .g .git && echo planted >.git/hooks/new && cat .git/hooks/new"
    with place() as here:
        os.makedirs(f"{here}/.git/hooks")
        hooks = f"--mount=type=bind,src={here}/.git/hooks,dst=/mnt/.git/hooks,ro"
        within = f"--mount=type=bind,src={here}/.git,dst=/mnt/.git"
        flags = (*MAPPING, "--user=1000:1000", "--workdir=/mnt", *mount(here))
        bare = told(inside("/bin/sh", "-c", script, flags=(*flags, hooks)))
        shutil.rmtree(f"{here}/.git", ignore_errors=True)
        shutil.rmtree(f"{here}/.g", ignore_errors=True)
        os.makedirs(f"{here}/.git/hooks")
        bound = told(inside("/bin/sh", "-c", script, flags=(*flags, within, hooks)))
    if bare == "planted" and bound.startswith("exit"):
        return "works, and lifts the protection; not where `.git` is bound onto itself"
    return f"{bare}; bound: {bound}"


def families() -> str:
    text = (
        "import errno, socket\n"
        "try: socket.socket(40, socket.SOCK_STREAM); print('open')\n"
        "except OSError as error: print(errno.errorcode[error.errno])"
    )
    default = told(inside(*PYTHON, text))
    ours = told(inside(*PYTHON, text, flags=(f"--security-opt=seccomp={seccomp()}",)))
    return f"{'open' if default == 'open' else default}; {ours} under ours"


RULES = """
table inet spike {
    chain way { type nat hook output priority -100; ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :3129; }
    chain out { type filter hook output priority 0; policy accept; oifname "lo" tcp dport 81 reject; }
    chain in { type filter hook input priority 0; policy drop; WHAT ct state established,related tcp dport != 81 accept;
        tcp dport 3129 accept; }
}
"""
ENFORCED = (
    "--user=0",
    "--cap-drop=all",
    *(f"--cap-add={name}" for name in CAPABILITIES),
    "--security-opt=no-new-privileges",
)


def loaded() -> str:
    done = inside(
        "/usr/sbin/nft", "-f", "-", given=RULES.replace("WHAT", "").encode(),
        flags=("--interactive", *ENFORCED, f"--security-opt=seccomp={seccomp()}"),
    )  # fmt: skip
    return "loads" if done.returncode == 0 else done.stderr.decode()[-200:]


TO_LO = (
    '/usr/sbin/ip link set lo up; /usr/sbin/ip route add local default dev lo; /usr/sbin/nft -f - || exit 9; exec "$@"'
)
MEANT = (
    "import socket, struct\n"
    "l = socket.create_server(('127.0.0.1', 3129)); c = socket.socket(); c.settimeout(9); c.connect(('203.0.113.9', 80))\n"
    "a = l.accept()[0].getsockopt(0, 80, 16); print(socket.inet_ntoa(a[4:8]), struct.unpack('!H', a[2:4])[0])"
)
REFUSED = (
    "import socket\n"
    "c = socket.socket(); c.settimeout(2)\n"
    "try: c.connect(('127.0.0.1', 81)); print('open')\n"
    "except TimeoutError: print('silence')\n"
    "except OSError: print('refused')"
)


def with_rules(rules: str, text: str) -> str:
    """What a program prints in a container whose every route leads to lo, under these rules."""
    argv = ("/bin/sh", "-c", TO_LO, "sh", *PYTHON, text)
    return told(inside(*argv, given=rules.encode(), flags=("--interactive", *ENFORCED)))


def original_destination() -> str:
    said = with_rules(RULES.replace("WHAT", ""), MEANT)
    return "arrives with the address that was meant" if said == "203.0.113.9 80" else said


def rejected() -> str:
    without = with_rules(RULES.replace("WHAT", ""), REFUSED)
    accepted = with_rules(RULES.replace("WHAT", "meta l4proto icmp accept;"), REFUSED)
    if (without, accepted) == ("silence", "refused"):
        return "needs ICMP accepted on lo, or every refusal is a time-out"
    return f"{without} without, {accepted} with it"


def podman_version() -> tuple[int, ...]:
    words = run("podman", "--version").stdout.decode().split()
    return tuple(int(part) for part in words[-1].split(".")[:2])


def pasta() -> str:
    argv = ("podman", "run", "--rm", "--pull=never", "--entrypoint=", "--network", NETWORKS["pasta"])
    is_taken = run(*argv, image("sandbox"), "true").returncode == 0
    is_right = is_taken == (podman_version() >= (4, 4))
    return "is taken from podman 4.4 on" if is_right else f"taken: {is_taken} by {podman_version()}"


@cache
def of_squid() -> dict[str, str]:
    """What squid answers, asked once."""
    with open(f"{TREE}/tests/bench/spike_squid.py", "rb") as file:
        program = file.read()
    argv = ("podman", "run", "--rm", "--interactive", "--pull=never", "--network=none", "--entrypoint=")
    done = run(*argv, image("gate"), "/usr/bin/python3", "-I", "-S", "-", given=program)
    answers: dict[str, str] = json.loads(done.stdout or b"{}")
    return answers


def opened_tls() -> str:
    said = of_squid()
    if (said.get("judged"), said.get("arrived")) == ("two.test", "hello one.test, Host two.test"):
        return "is judged by the inner name, and goes to the tunnel's server"
    return f"judged as {said.get('judged')}, arrived: {said.get('arrived')}"


def in_the_helper() -> str:
    said = of_squid().get("meant", "")
    wanted = "GET other.test /path?query other.test meant.test:80 -"
    return "the name that was meant; the path with its query" if said == wanted else said


def parsed() -> str:
    return f"exits {of_squid().get('parse')}"


FACTS = (
    Fact("a file that is made under `keep-id:uid=1000,gid=1000`", "the caller's on the host", "touch, then stat", owner),
    Fact("the same as the sandbox's root, without capabilities", "fails: it is another id on the host",
         "touch", root_of_the_sandbox),
    Fact("a descriptor that `--preserve-fds` hands on, with `--interactive`", "arrives, every byte",
         "podman run --preserve-fds=1", preserved),
    Fact("a variable of `--env`, in `podman inspect`", "is shown there", "podman create, podman inspect", in_inspect),
    Fact("a second `podman run --name` of one name", "exits 125", "podman run, twice", second_of_a_name),
    Fact("a command that ends with 125 itself", "exits 125", "sh -c 'exit 125'", own_125),
    Fact("`podman image exists` and `image inspect` of an image that is not there", "exits 1 and 125",
         "both", missing_image),
    Fact("`--dns` with `--network none`", "is an error", "podman run --dns", no_dns),
    Fact("pasta with the options of a gate", "is taken from podman 4.4 on", "podman run --network pasta:...", pasta),
    Fact("flock across a bind mount", "holds against whoever is inside", "flock, on both sides", locked),
    Fact("connect() to a unix socket on a read-only mount", "works; replacing the socket does not",
         "connect, unlink", read_only_socket),
    Fact("a mounted file that is replaced by rename on the host", "stays the old one inside",
         "rename, then cat", replaced_file),
    Fact("renaming `.git` where only its hooks are mounted read-only",
         "works, and lifts the protection; not where `.git` is bound onto itself", "mv, cp -r", renamed_parent),
    Fact("AF_VSOCK under podman's own seccomp profile", "open; EAFNOSUPPORT under ours", "socket(40)", families),
    Fact("a ruleset loaded with the capabilities and the profile of a sandbox", "loads", "nft -f -", loaded),
    Fact("TCP to any address, with `lo` alone, a route to it and a redirect", "arrives with the address that was meant",
         "connect, SO_ORIGINAL_DST", original_destination),
    Fact("a ruleset's reject, seen by the client", "needs ICMP accepted on lo, or every refusal is a time-out",
         "connect, with and without", rejected),
    Fact("another host's name inside TLS that squid opened",
         "is judged by the inner name, and goes to the tunnel's server", "CONNECT one.test, Host: two.test", opened_tls),
    Fact("TLV 2 of a PROXY header and `%PATH`, in a helper's line", "the name that was meant; the path with its query",
         "GET /path?query behind such a header", in_the_helper),
    Fact("`squid -k parse` where a list's file is missing", "exits 0", "squid -k parse", parsed),
)  # fmt: skip


def rows(page: str) -> dict[str, str]:
    """The table of facts, as it is documented."""
    lines = page.partition(HEADING)[2].partition("\n## ")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {row[0]: row[1] for row in cells[1:] if len(row) == 2}


def measured(fact: Fact) -> str:
    """What is found now."""
    try:
        return fact.measure()
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"


def main(facts: tuple[Fact, ...]) -> int:
    """A row each, and at the end which facts were not measured again; 1 where one differs."""
    with open(PAGE, encoding="utf-8") as file:
        documented = rows(file.read())
    different = 0
    for fact in facts:
        expected, found = documented.get(fact.tried, "(not documented)"), measured(fact)
        is_same = found == expected
        different += not is_same
        print(
            f"{'same  ' if is_same else 'DIFFERS'} | {fact.tried} | {fact.command} | {expected} | {found}", flush=True
        )
    known = {fact.tried for fact in facts}
    for tried in (tried for tried in documented if tried not in known):
        print(f"not measured again | {tried}")
    print(f"{len(facts)} measured, {different} differ from docs/networking.md")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(FACTS))
