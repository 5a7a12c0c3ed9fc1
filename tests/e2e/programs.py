"""
Programs that fetch things, as a user types them: what a project holds for each, and what it has to say.

Every one is tried against three sites that serve the same: one that is allowed by its name, one that has rules (so that
the gate opens its TLS), and one that is refused; each with the proxy variables and without. None gets a flag for the
sandbox's sake.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.e2e.archive import Package, write_registry, write_simple_index
from tests.e2e.legs import curl, outside
from tests.e2e.sandbox import inside, report_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.e2e.lab import Lab

UNREAD, OPENED, REFUSED = "allowed.test", "cdn.test", "evil.test"
SITES = (UNREAD, OPENED, REFUSED)
WAYS = ("by proxy", "without")
WORKS = "works"
# What a program says of a site that is refused: of these, the one that it comes to first is shown in the matrix.
REASON = re.compile(
    r"403 Forbidden|\b403\b|\bForbidden\b|Access denied by egress policy|ENOTFOUND|Could not resolve host(?:name)?|could not translate host name|"
    r"Name or service not known|No address associated with hostname|Temporary failure in name resolution|"
    r"failed to lookup address information|no such host|UnknownHostException|Unknown host|DNS resolution failed|produced zero addresses|ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED|"
    r"ERR_TUNNEL_CONNECTION_FAILED|tunnel error: unsuccessful|network error or non-101 status code|unable to resolve host address"
)
# A busy machine takes its time; what is refused has a limit of its own.
SECONDS = 300


class Program(NamedTuple):
    """
    A script by `sh -eu` that prints "works" as its last line, in a directory with these files (`~` is the home).

    `$SITE` is the site's name, in the files too; `$TOOLS` a place that all of its calls share, whose `bin` is on PATH.
    """

    script: str
    files: Mapping[str, str] = {}
    version: str = "echo"
    prepare: str = ""
    not_opened: str = ""
    """Why it is not tried with rules, in a few words for the matrix."""
    hangs: str = ""
    """Why it is not tried where the proxy refuses it, in a few words for the matrix."""
    refusal_seconds: float = 20
    """Within which it gives up; more than that is a time-out's."""


class Said(NamedTuple):
    """How one call of a program ended."""

    code: int | None
    text: str
    seconds: float

    @property
    def outcome(self) -> str:
        """ "works", the reason in words that it gave, or all that there is to know."""
        if self.code == 0 and self.text.rstrip().endswith(WORKS):
            return WORKS
        found = REASON.search(self.text)
        if self.code and found:
            return found[0]
        return f"exit {self.code} after {self.seconds:.1f} s: {self.text}"


class Told(NamedTuple):
    """What all calls of a program came to."""

    version: str
    calls: dict[tuple[str, str], Said]


MANY = [f"many-{number}" for number in range(300)]


def lock_of(names: list[str]) -> str:
    """A package-lock.json for packages of the static registry."""
    wanted = dict.fromkeys(names, "1.0.0")
    locked = {
        f"node_modules/{name}": {"version": "1.0.0", "resolved": f"https://$SITE/files/npm/{name}-1.0.0.tgz"}
        for name in names
    }
    top = {"name": "web", "version": "1.0.0", "dependencies": wanted}
    return json.dumps({**top, "lockfileVersion": 3, "packages": {"": top, **locked}})


def manifest_of(names: list[str]) -> str:
    """The package.json to go with it."""
    return json.dumps({"name": "web", "version": "1.0.0", "dependencies": dict.fromkeys(names, "1.0.0")})


NPMRC = "registry=https://$SITE/files/npm/\n"
INDEX = "https://$SITE/files/pypi/simple/"
PYPROJECT = f"""
[project]
name = "web"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["greeting"]
[[tool.uv.index]]
url = "{INDEX}"
default = true
"""
GREETED = "-c 'import greeting; print(greeting.said)'"


def npm_ci(packages: int, hangs: str = "") -> Program:
    """What CI runs, with a lock of so many packages and one that has a program in it."""
    names = ["greeting", *MANY[:packages]]
    return Program(
        script="npm ci >said 2>&1 || { cat said; exit 1; }; sh node_modules/greeting/greet",
        files={".npmrc": NPMRC, "package.json": manifest_of(names), "package-lock.json": lock_of(names)},
        version="npm --version",
        hangs=hangs,
    )


def uv_in(place: str) -> str:
    """How uv comes to be there: a real wheel, 17 MB of it, by a real pip."""
    return f"python3 -m venv {place}; {place}/bin/pip install --quiet --index-url {INDEX} uv"


PROGRAMS: dict[str, Program] = {
    "npm": npm_ci(10),
    "npm, whose proxy is turned off": Program(
        script="npm install greeting >said 2>&1 || { cat said; exit 1; }; node_modules/.bin/greet",
        files={".npmrc": f"{NPMRC}proxy=null\nhttps-proxy=null\nnoproxy=$SITE\n"},
        version="npm --version",
    ),
    "pip": Program(
        script=f"python3 -m venv --without-pip v; pip --python v/bin/python install --quiet greeting; v/bin/python {GREETED}",
        files={"~/.config/pip/pip.conf": f"[global]\nindex-url = {INDEX}\ndisable-pip-version-check = true\n"},
        version="pip --version | cut -d ' ' -f 2",
        # Its own five tries.
        refusal_seconds=30,
    ),
    "uv": Program(
        script=f"uv sync --quiet; .venv/bin/python {GREETED}; "
        f"uv venv --quiet --no-project v; uv pip install --quiet --python v/bin/python greeting; v/bin/python {GREETED}",
        files={"pyproject.toml": PYPROJECT},
        version="uv --version | cut -d ' ' -f 2",
        prepare=f"{uv_in('$TOOLS/uv')}; ln -s ../uv/bin/uv $TOOLS/bin/uv",
        refusal_seconds=30,
    ),
    "psql": Program(
        script=f"psql -Atqc \"select 'TLS' from pg_stat_ssl where ssl and pid = pg_backend_pid()\" >said; grep -qx TLS said; "
        f"psql -Atqc \"select '{WORKS}'\"",
        files={"~/.pg_service.conf": "[app]\nhost=$SITE\nuser=app\ndbname=postgres\nsslmode=require\n"},
        version="psql --version | cut -d ' ' -f 3",
        not_opened="no HTTP",
    ),
    "ssh": Program(
        script=f"ssh aisb-lab@$SITE echo {WORKS}",
        version="ssh -V 2>&1 | cut -d ' ' -f 1",
        not_opened="no HTTP",
    ),
    "git over SSH": Program(
        script="git clone -q ssh://aisb-lab@$SITE/~/x.git w; cd w; "
        "git -c user.name=x -c user.email=x@x.test commit -q --allow-empty -m one; "
        f"git push -q origin HEAD:refs/heads/$$-$(date +%N); echo {WORKS}",
        version="git --version | cut -d ' ' -f 3",
        not_opened="no HTTP",
    ),
    "scp": Program(
        script=f"echo {WORKS} >sent; scp sent aisb-lab@$SITE:; scp aisb-lab@$SITE:sent got; cat got",
        version="ssh -V 2>&1 | cut -d ' ' -f 1",
        not_opened="no HTTP",
    ),
}
"""By the name that the matrix has for each."""
KEYS = """
mkdir -m 700 ~/.ssh; umask 077; printf '%s\\n' "$KEY" >~/.ssh/id_ed25519; printf '%s\\n' "$KNOWN" >~/.ssh/known_hosts; umask 022
"""


@contextmanager
def served(lab: Lab, *tarballs: Path) -> Iterator[dict[str, Path]]:
    """The three sites with a registry of npm's and an index of Python's, and the directory of each one's files."""
    with ExitStack() as stack:
        places = {site: stack.enter_context(lab.files(site)) for site in SITES}
        for site, files in places.items():
            address = f"https://{site}/files"
            packages = [Package(name, "1.0.0") for name in MANY]
            greeting = Package("greeting", "1.0.0", {"greet": f"#!/bin/sh\necho {WORKS}\n"})
            write_registry(files / "npm", f"{address}/npm", [greeting, *packages], tarballs)
            wheels = {"greeting": {"greeting.py": f'said = "{WORKS}"\n'}}
            write_simple_index(files / "pypi", wheels, lab.wheels("uv"))
        yield places


@contextmanager
def by_name(lab: Lab) -> Iterator[tuple[str, dict[str, str]]]:
    """SSH and PostgreSQL at the site that is allowed; options and variables for a sandbox that has the keys to both."""
    generate = "aisb -q --net none -- sh -c 'ssh-keygen -q -t ed25519 -N \"\" -f k; cat k.pub k'"
    public, _, private = lab.run(generate).text.partition("\n")
    password = secrets.token_hex(16)
    options = f"--allow {UNREAD}:22,{UNREAD}:5432 --mount ~/.ssh --env PGPASSWORD --env PGSERVICE"
    with lab.ssh_server(public + "\n") as known, lab.database(password):
        yield options, {"KEY": private.strip(), "KNOWN": known, "PGPASSWORD": password, "PGSERVICE": "app"}


def tell(
    lab: Lab,
    options: str,
    programs: Mapping[str, Program],
    timeout: float,
    *,
    before: str = ":",
    env: Mapping[str, str] | None = None,
) -> dict[str, Told]:
    """What these programs say in one sandbox, with a site that is allowed, one with rules, and one that is neither."""
    there = outside(lab, {"there": curl(f"https://{REFUSED}/files/npm/greeting")})["there"]
    assert there.startswith('{"name": "greeting"'), there
    allowed = f"-q --allow {UNREAD} --allow 'GET,HEAD,POST {OPENED}/**'"
    return say(lab, f"{allowed} {options}", programs, SITES, timeout, before=before, env=env)[0]


def say(
    lab: Lab,
    options: str,
    programs: Mapping[str, Program],
    sites: tuple[str, ...],
    timeout: float,
    *,
    before: str = ":",
    env: Mapping[str, str] | None = None,
) -> tuple[dict[str, Told], str]:
    """What these programs say of these sites in one sandbox, and what aisb says."""
    wanted = {name: _calls(program, sites) for name, program in programs.items()}
    source = f"{inside('programs')}\nmain(json.loads({json.dumps(wanted)!r}))\n"
    result = lab.run(f"{before}\naisb {options} -- python3 -", stdin=source.encode(), timeout=timeout, env=env)
    found = report_of(result)
    assert {name: said["prepare"] for name, said in found.items() if "prepare" in said} == {}
    return {name: _told(said) for name, said in found.items()}, result.errors


def _calls(program: Program, sites: tuple[str, ...]) -> dict[str, object]:
    calls = {
        f"{site}, {way}": (program.script, dict(program.files), site, way == "without", SECONDS)
        for site in sites
        for way in WAYS
        if not (site == OPENED and program.not_opened) and not (site == REFUSED and way == WAYS[0] and program.hangs)
    }
    return {"prepare": program.prepare, "version": program.version, "calls": calls}


def _told(said: dict[str, tuple[int | None, str, float]]) -> Told:
    version = Said(*said.pop("version")).text.strip()
    calls = {tuple(name.split(", ")): Said(*item) for name, item in said.items()}
    return Told(version, {(site, way): item for (site, way), item in calls.items()})


def astray(told: Mapping[str, Told], programs: Mapping[str, Program]) -> dict[str, str]:
    """What did not come out as it should: everything works but what is refused, soon and with a reason."""
    wrong = {}
    for name, (_, calls) in told.items():
        for (site, way), said in calls.items():
            is_right = said.outcome == WORKS
            if site == REFUSED:
                is_right = REASON.fullmatch(said.outcome) is not None and said.seconds < programs[name].refusal_seconds
            if not is_right:
                wrong[f"{name}, {site}, {way}"] = f"{said.outcome}, {said.seconds:.1f} s"
    return wrong
