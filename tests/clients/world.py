"""The servers that the programs of the table need besides those of `make test`."""

from __future__ import annotations

import base64
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from laboratory import world
from laboratory.internet.authority import Authority

from tests.clients.servers import write_crates, write_maven, write_modules, write_pythons
from tests.clients.table import CRATES, ECHO, GO, GREET, PACKAGES, RUST, TARBALLS
from tests.e2e.git_server import OPENED, git_server
from tests.e2e.lab import HOSTS, LABORATORY
from tests.e2e.programs import SITES, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.lab import Lab

NAME, ADDRESS, PORT = "grpc.allowed.test", "198.51.100.20", "50051"
_TABLE = f"table inet grpc {{ chain arriving {{ type nat hook prerouting priority -100; ip daddr {ADDRESS} tcp dport 443 redirect to :{PORT}; }}; }}"
STOP_SECONDS = 10


RULES = f"--allow 'GET,POST {OPENED}/**'"
"""What the table's programs need beside the three sites: the rules of git's server at the one that is opened."""


def build(lab: Lab) -> None:
    """The image with all programs in it."""
    argv = (f"{LABORATORY}/host", lab.name, "--", "aisb", "build", "--install", PACKAGES)
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def all_served(lab: Lab) -> Iterator[dict[str, Path]]:
    """Registries, indexes, a proxy of modules and repositories at each of the three sites; gRPC at one that is allowed."""
    plugin = {"Greet.class": _compiled(lab)}
    with ExitStack() as stack:
        places = stack.enter_context(served(lab, *lab.tarballs(*TARBALLS)))
        for site, files in places.items():
            write_crates(
                files / "cargo", f"https://{site}/files/cargo", {"greeting": RUST, **dict.fromkeys(CRATES, RUST)}
            )
            write_modules(files / "go", GO)
            write_maven(files / "maven", plugin)
            write_pythons(files / "python", f"https://{site}/files/python")
        stack.enter_context(git_server(lab, "matrix"))
        stack.enter_context(_grpc(lab))
        assert set(places) == set(SITES)
        yield places


def _compiled(lab: Lab) -> bytes:
    """The class of Maven's plugin, by the compiler of the image."""
    compile_it = (
        "cat >Greet.java; javac -cp $(echo /usr/share/maven/lib/maven-plugin-api-*.jar) Greet.java; base64 Greet.class"
    )
    result = lab.run(f"aisb -q --install {PACKAGES} --net none -- sh -euc '{compile_it}'", stdin=GREET.encode())
    assert result.code == 0, result.errors
    return base64.b64decode(result.stdout)


@contextmanager
def _grpc(lab: Lab) -> Iterator[None]:
    host = HOSTS[lab.name]
    lab.more_names(f"{NAME} A {ADDRESS}\n")
    Authority(host.cache / "authority").context(NAME)
    running = world.find(host)
    assert running is not None
    there = ("nsenter", f"--net=/proc/{running.processes['internet'].pid}/ns/net", "--")
    pair = (host.cache / "authority/server.key", host.cache / f"authority/{NAME}.pem")
    argv = (*there, _python_with_grpc(host.cache / "grpc"), "-c", ECHO, PORT, *pair)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            subprocess.run((*there, "nft", _TABLE), check=True)
            yield
        finally:
            server.kill()
            subprocess.run((*there, "nft", "delete", "table", "inet", "grpc"), check=False)


def _python_with_grpc(place: Path) -> str:
    """A virtual environment in the laboratory's cache, made once."""
    if not (place / "made").exists():
        subprocess.run((sys.executable, "-m", "venv", "--clear", place), check=True)
        subprocess.run((place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "grpcio"), check=True)
        (place / "made").touch()
    return str(place / "bin/python")
