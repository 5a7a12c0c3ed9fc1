"""A run and its preview beside each other: a podman that does nothing and writes down what it is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
PODMAN = """\
#!@python -IS
import json, os, signal, socket, stat, sys
words, home = sys.argv[1:], "@home"

def given(number):
    status = os.fstat(number)
    return (os.pread(number, 1 << 20, 0) if stat.S_ISREG(status.st_mode) else os.read(number, 1 << 20)).decode()

def tree(top):
    found = {}
    for above, _, names in os.walk(top):
        found[above] = [oct(os.stat(above).st_mode & 0o7777), None]
        for name in names:
            path = f"{above}/{name}"
            if os.path.isfile(path):
                found[path] = [oct(os.stat(path).st_mode & 0o7777), open(path).read()]
    return found

def note(**more):
    with open(f"{home}/calls", "a") as file:
        file.write(json.dumps({"argv": words} | more) + "\\n")

def mounts():
    pairs = (word[8:].split(",") for word in words if word.startswith("--mount=type=bind,src="))
    return {fields[2][4:]: fields[1][4:] for fields in pairs}

def identities():
    stats = {target: os.stat(source) for target, source in mounts().items()}
    return {target: f"{status.st_dev} {status.st_ino}" for target, status in stats.items()}

if words[0] == "run" and "--detach" in words:
    note(told=[given(number) for number in range(4, 3 + int(words[words.index("--preserve-fds") + 1]))])
    directory = mounts()["/run/aisb"]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{directory}/ctl.sock")
    listener.listen()
    if os.fork():
        os.write(3, b"ready\\n")
        os._exit(0)
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.dup2(listener.fileno(), 3)
    os.closerange(4, 256)
    signal.alarm(60)
    with open(f"{home}/gates", "a") as file:
        file.write(f"{os.getpid()}\\n")
    gate = socket.socket(fileno=3)
    while True:
        asked, _ = gate.accept()
        asked.recv(4096)
        asked.sendall(b'{"ok": true}\\n')
        asked.close()
elif words[0] == "run":
    note(tree=tree(f"{home}/run/aisb"), variables=given(3), identities=identities())
    os.write(4, b"exec\\n")
elif words[:2] == ["image", "inspect"]:
    print("@pi")
elif words[0] == "--version":
    print("podman version 5.4.2")
elif words[:2] in (["volume", "exists"], ["container", "exists"]):
    sys.exit(1)
elif words[:2] == ["volume", "create"]:
    note()
"""
# Both are what `aisb` does with a command line once it has read it; nobody is asked for images and facts of a machine.
DRIVER = """\
import json, os, sys
from aisb.cli import preview as shown
from aisb.cli import run as real
from aisb.cli.main import VERBS
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.base_image import parse_base_image
from aisb.effects import make_plan
from aisb.effects.guard import guarded
from aisb.effects.host import Host, _stamp
from aisb.effects.image_inputs import known_inputs
from aisb.effects.pins import write_base_pin, write_node_pin
from aisb.effects.plan import note_images
from aisb.effects.process import SystemRunner
from aisb.effects.run import writable_roots
from aisb.effects.situation import resolve_project, spec_of
from aisb.effects.sources import read_sources
from aisb.effects.state import directories, make_private, write_whole
from aisb.errors import AisbError
from aisb.render.images import image_names
from tests.image_values import BOOTSTRAPPED, NODE_FROM_NPM

what, home, manager, *words = sys.argv[1:]
make_plan.find_seccomp = lambda: f"{home}/seccomp.json"
where = directories(os.environ)
make_private(where.cache)
podman = f"{home}/bin/podman"
host = Host(podman, (5, 4), "overlay", "pasta", manager)
write_whole(f"{where.cache}/host.json", json.dumps({"stamp": _stamp(podman), "host": host}).encode())
line = split(words, VERBS)
asked = read_request(line, os.environ)

def of_the_shield(done):
    with guarded(writable_roots(done.job), where.state) as guard, open(f"{home}/watched", "w") as file:
        json.dump([item.path for item in guard.shield.watched], file)

def begin():
    project = resolve_project(asked.project, os.environ, where)
    sources = read_sources(real.wish_of(asked, project), where, lambda _asked: True)
    request = real.without_entries(read_request(line, os.environ, sources.layers, sources.variables), sources)
    write_base_pin(where.cache, parse_base_image("bootstrap:trixie"), BOOTSTRAPPED)
    write_node_pin(where.cache, "linux/amd64", NODE_FROM_NPM)
    known = known_inputs(where.cache, spec_of(real.question_of(request, sources, project, "pasta")))
    note_images(where.cache, image_names(known))
    hooks = real.Hooks(of_the_shield, None, None)
    return real._run(request, sources, project, where, SystemRunner(), real.Clock(), hooks)

try:
    code = begin() if what == "run" else shown.preview(line, asked)
except AisbError as error:
    print(f"refused: {error.message}", file=sys.stderr)
    code = error.exit_code
sys.exit(code)
"""


class Call(NamedTuple):
    """What podman was told, without what is another in each run."""

    argv: tuple[str, ...]
    # Of a gate of one run.
    told: tuple[str, ...] = ()
    # Of a sandbox: what lay there, each directory and file with its mode and text, and the command's variables.
    tree: Mapping[str, tuple[str, str | None]] = MappingProxyType({})
    variables: tuple[str, ...] = ()


class Seen(NamedTuple):
    """How it ended, what it printed, what podman was told, and of a run what was watched."""

    code: int
    lines: list[str]
    errors: str
    calls: tuple[Call, ...] = ()
    watched: tuple[str, ...] = ()


class World:
    """A user with a project, on whose machine everything is there but a podman that does something."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("bin", "run", "p"):
            (home / name).mkdir(mode=0o700)
        (home / "seccomp.json").write_text('{"defaultAction": "SCMP_ACT_ERRNO", "archMap": [], "syscalls": []}')
        self._program("driver", DRIVER)
        self._program("podman", PODMAN.replace("@python", sys.executable).replace("@home", str(home)))
        self._program("aisb", f'#!/bin/sh\nexec {sys.executable} {home}/bin/driver preview {home} systemd "$@"\n')
        self.environ = {
            "HOME": str(home),
            "PATH": f"{home}/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PYTHONPATH": str(ROOT),
            "AISB_BASE_IMAGE": "bootstrap:trixie",
        }

    def _program(self, name: str, text: str) -> None:
        from aisb.domain.harnesses import PI_PACKAGE, PI_VERSION

        (self.home / "bin" / name).write_text(text.replace("@pi", f"{PI_PACKAGE} {PI_VERSION}"))
        (self.home / "bin" / name).chmod(0o755)

    def run(self, *words: str, manager: str = "systemd", **environ: str) -> Seen:
        """What a run did."""
        seen = self._aisb("run", manager, words, environ)
        path = self.home / "watched"
        watched = tuple(json.loads(path.read_text())) if path.exists() else ()
        return seen._replace(calls=self._calls(), watched=watched)

    def preview(self, *words: str, manager: str = "systemd", **environ: str) -> Seen:
        """What is printed."""
        return self._aisb("preview", manager, words, environ)

    def preview_of_run(self, *words: str, manager: str = "systemd", **environ: str) -> Seen:
        """What `--dry-run` prints of a run."""
        return self.preview("--dry-run", *words, manager=manager, **environ)

    def paste(self, lines: list[str], **environ: str) -> Seen:
        """What these lines do in a shell."""
        seen = self._done(["/bin/sh"], environ, "\n".join(lines))
        return seen._replace(calls=self._calls())

    def end(self) -> None:
        """End what stood for gates."""
        path = self.home / "gates"
        for pid in path.read_text().split() if path.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        path.unlink(missing_ok=True)

    def _aisb(self, what: str, manager: str, words: tuple[str, ...], environ: dict[str, str]) -> Seen:
        driver = str(self.home / "bin/driver")
        return self._done([sys.executable, driver, what, str(self.home), manager, *words], environ)

    def _done(self, argv: list[str], environ: dict[str, str], text: str = "") -> Seen:
        (self.home / "calls").unlink(missing_ok=True)
        done = subprocess.run(
            argv,
            cwd=self.home / "p",
            env=self.environ | environ,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Seen(done.returncode, done.stdout.splitlines(), done.stderr)

    def _calls(self) -> tuple[Call, ...]:
        path = self.home / "calls"
        self.end()
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return tuple(map(_call, _alike(found)))


def _alike(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with words in the place of what is made up for each run: its id, its own gate's key, its placeholders."""
    text = json.dumps(calls)
    for run in re.findall(r"aisb-run-([0-9a-f]{8})", text):
        text = text.replace(run, "RUN")
    for key in re.findall(r"aisb.key=([0-9a-f]{64})", text):
        text = text.replace(key, "KEY").replace(key[:12], "KEY")
    for call in calls:
        for _, _, placeholder, value in json.loads(call["told"][1]) if len(call.get("told", [])) > 1 else ():
            text = text.replace(placeholder, f"for {value}")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def _call(call: dict[str, Any]) -> Call:
    own = ("--label=aisb.project=", "--label=aisb.gate=", "--label=aisb.owner=")
    argv = tuple(word for word in call["argv"] if not word.startswith(own))
    tree = {path: (mode, text) for path, (mode, text) in call.get("tree", {}).items()}
    for path, (mode, text) in tree.items():
        if path.endswith("/run/covers"):
            tree[path] = (mode, _covers(text or "", call["identities"]))
    variables = tuple(sorted(filter(None, call.get("variables", "").split("\0"))))
    return Call(argv, tuple(text.rstrip("\n") for text in call.get("told", ())), tree, variables)


def _covers(text: str, identities: dict[str, str]) -> str:
    """What is compared inside: directories that are made for a run are others each time, and in another order."""
    lines = [line.split(" ", 2) for line in text.splitlines()]
    return "".join(
        sorted(
            f"{'its own' if f'{a} {b}' == identities.get(target) else f'{a} {b}'} {target}\n" for a, b, target in lines
        )
    )
