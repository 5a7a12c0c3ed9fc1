#!/usr/bin/python3
"""
What work on files costs in /project: `git status` and `npm ci` inside of a sandbox, against outside of one.

    tests/lab/run 'python3 "$LAB_TREE"/tests/bench/files.py [--pairs N] [--json]'

Outside is this host itself, with the node and npm of the sandbox's image, copied out of it, and its own git where that is of the same
version; where it is not, a container of the same image by bare podman, with the same mount. Run as the user whose podman it is, with
aisb on the PATH.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.bench.figures import most, ratio
from tests.bench.measuring import CLIENT, Found, Speaker, in_sandbox, main, run, sandbox_image, turns

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES, PER_DIRECTORY = 5000, 50
PACKAGES, FILES_EACH = 150, 20
MOST = 1.15
# What the image's node and npm are, where they lie.
WHERE_NODE = 'real=$(readlink -f "$(command -v node)"); npm=$(readlink -f "$(command -v npm)"); echo "$real"; echo "${npm%/bin/*}"'
NPM = ("ci", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def make_repository(directory: str) -> None:
    """A work tree with some thousand files, all committed."""
    for number in range(FILES):
        folder = f"{directory}/d{number // PER_DIRECTORY}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/f{number}.txt", "w", encoding="ascii") as file:
            file.write(f"file {number}\n" * 20)
    git = ("git", "-C", directory, "-c", "user.name=bench", "-c", "user.email=bench@bench.test")
    run(*git, "init", "--quiet", "--initial-branch", "main")
    run(*git, "add", ".")
    run(*git, "commit", "--quiet", "--message", "all")


def package(name: str) -> bytes:
    """An archive as npm packs them, always the same bytes for a name."""
    chance = random.Random(name)
    made = io.BytesIO()
    files = {f"package/lib/f{number}.js": f"// {chance.random()}\n" * 100 for number in range(FILES_EACH)}
    files["package/package.json"] = json.dumps({"name": name, "version": "1.0.0"})
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def make_modules(directory: str) -> None:
    """A project whose lock file names packages that lie beside it: nothing is fetched."""
    os.makedirs(f"{directory}/archives")
    locked: dict[str, object] = {}
    wanted = {}
    for number in range(PACKAGES):
        name = f"bench-{number}"
        data = package(name)
        with open(f"{directory}/archives/{name}.tgz", "wb") as file:
            file.write(data)
        origin = f"file:archives/{name}.tgz"
        wanted[name] = origin
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        locked[f"node_modules/{name}"] = {"version": "1.0.0", "resolved": origin, "integrity": f"sha512-{digest}"}
    project = {"name": "bench", "version": "1.0.0", "dependencies": wanted}
    lock = {
        "name": "bench",
        "version": "1.0.0",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {"": project, **locked},
    }
    for path, content in (("package.json", project), ("package-lock.json", lock)):
        with open(f"{directory}/{path}", "w", encoding="ascii") as file:
            json.dump(content, file)


class Tools(NamedTuple):
    """The image's own node and npm, as copied out of it."""

    node: str
    npm: str

    def argv(self) -> list[str]:
        """npm's command line, without its arguments."""
        return [self.node, f"{self.npm}/bin/npm-cli.js"]


def in_image(image: str, *argv: str) -> list[str]:
    """A command line in a container of the image, with the project."""
    mount = f"type=bind,src={os.getcwd()},dst=/project"
    mapping = ("--userns", "keep-id:uid=1000,gid=1000", "--user", "1000", "--workdir", "/project")
    return [
        "podman",
        "run",
        "--rm",
        "--interactive",
        "--network",
        "none",
        *mapping,
        "--mount",
        mount,
        "--entrypoint",
        argv[0],
        image,
        *argv[1:],
    ]


def copied_tools(image: str) -> tuple[Tools, Tools]:
    """Node and npm: where the image has them, and where they have been copied to."""
    node, npm = run(*in_image(image, "/bin/sh", "-c", WHERE_NODE)).splitlines()
    target = os.path.expanduser("~/tools")
    os.makedirs(target)
    words = in_image(image, "/bin/tar", "-C", "/", "-cf", "-", node.lstrip("/"), npm.lstrip("/"))
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as packed:
        subprocess.run(("tar", "-C", target, "-xf", "-"), stdin=packed.stdout, check=True)
    return Tools(node, npm), Tools(target + node, target + npm)


def outside(image: str) -> Iterator[tuple[str, Speaker]]:
    """The clients outside: on the host, and in a bare container."""
    yield "host", Speaker(["/usr/bin/python3", "-I", "-S", os.path.abspath("client.py")])
    yield "podman", Speaker(in_image(image, "/usr/bin/python3", *CLIENT))


def measure(pairs: int) -> Found:
    """Both, inside and outside in turn."""
    image = sandbox_image()
    is_same_git = run("git", "--version") == run(*in_image(image, "/usr/bin/git", "--version"))
    theirs, ours = copied_tools(image)
    os.mkdir("tree")
    make_repository("tree")
    os.mkdir("modules")
    make_modules("modules")
    here = os.getcwd()
    with in_sandbox("--net", "none") as inside:
        clients = dict(outside(image))
        try:
            beside = "host" if is_same_git else "podman"
            status = ("git", "status", "--porcelain")

            def git(client: Speaker, root: str) -> float:
                return 1000 * float(client.ask("timed", argv=status, directory=f"{root}/tree"))

            def npm(client: Speaker, root: str, tools: Tools) -> float:
                before = [["rm", "-rf", "node_modules"]]
                words = [*tools.argv(), *NPM]
                return float(client.ask("timed", argv=words, before=before, directory=f"{root}/modules"))

            roots = {"host": here, "podman": "/project"}
            # What each keeps of a first time, it has by then.
            git(inside, "/project")
            npm(inside, "/project", theirs)
            npm(clients["host"], here, ours)
            gits = turns(
                5 * pairs,
                {"aisb": lambda: git(inside, "/project"), beside: lambda: git(clients[beside], roots[beside])},
            )
            npms = turns(
                pairs,
                {"aisb": lambda: npm(inside, "/project", theirs), "host": lambda: npm(clients["host"], here, ours)},
            )
        finally:
            for client in clients.values():
                client.__exit__()
    return Found(
        [
            ratio("files.git", f"`git status` of {FILES:,} files, of the same outside", gits, most(MOST)),
            ratio("files.npm", f"`npm ci` of {PACKAGES} packages, of the same outside", npms, most(MOST)),
        ]
    )


if __name__ == "__main__":
    main(measure)
