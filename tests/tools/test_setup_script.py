"""The steps of a build, as far as they can be tried without one."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from aisb.assets import asset_path
from aisb.domain.images import GATE, SANDBOX
from aisb.render.images import containerfile
from tests.image_values import make_inputs

if TYPE_CHECKING:
    from pathlib import Path

SETUP = asset_path("templates", "setup.sh")


def test_the_script_is_clean() -> None:
    """shellcheck, as POSIX sh: the base's sh is dash."""
    done = subprocess.run(["shellcheck", "--shell=sh", SETUP], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("role", [SANDBOX, GATE])
def test_each_step_of_a_containerfile_is_a_function_of_the_script(role: str) -> None:
    """A step that is misspelt would show only in a build."""
    with open(SETUP, encoding="utf-8") as file:
        functions = set(re.findall(r"^step_(\w+)\(\)", file.read(), flags=re.MULTILINE))

    steps = re.findall(r"setup [0-9a-f]{12} (\w+)", containerfile(role, make_inputs(install=("zsh",))))

    assert steps != []
    assert set(steps) - functions == set()


APT = r"""
mkdir -p "$scratch/repo" "$scratch/state/lists/partial" "$scratch/cache/archives/partial"
for name in libfoo1 libfoo2 libfoo++; do
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nFilename: ./%s.deb\nSize: 1\nMD5sum: 0\n\n' $name $name
done >"$scratch/repo/Packages"
: >"$scratch/status"
printf 'deb [trusted=yes] file:%s/repo ./\n' "$scratch" >"$scratch/list"
host_sources() {
    printf 'Dir::Etc::SourceList "%s/list";\nDir::Etc::SourceParts "/dev/null";\nAPT::Sandbox::User "root";\n' "$scratch"
    printf 'Dir::State "%s/state";\nDir::Cache "%s/cache";\nDir::State::status "%s/status";\n' "$scratch" "$scratch" "$scratch"
}
configure_apt
apt update >/dev/null
for name in 'libfoo.' 'libfoo.+' 'libfoo?' libfoo1 libfoo++; do
    apt --simulate install -- "$name" 2>/dev/null | sed -n 's/^Inst \([^ ]*\).*/\1/p' | tr '\n' ' '; echo "$name"
done
"""


def test_a_package_is_its_name_and_no_expression(tmp_path: Path) -> None:
    """Where there is none of that name, apt would take it for one, and install all that it stands for."""
    script = f"scratch={tmp_path}; secrets={tmp_path}\n{_function('configure_apt')}\n{_function('apt')}\n{APT}"

    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False)

    found = ["libfoo.", "libfoo.+", "libfoo?", "libfoo1 libfoo1", "libfoo++ libfoo++"]
    assert (done.stdout.splitlines(), done.stderr) == (found, "")


class Mirror(BaseHTTPRequestHandler):
    """A package archive, or a proxy before it, that has the list of before as often as its server says."""

    protocol_version = "HTTP/1.1"
    server: MirrorServer

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        body = self.server.file(name)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class MirrorServer(ThreadingHTTPServer):
    """On the loopback; `stale` is how often it has an old list, `asked` what was asked for."""

    def __init__(self, stale: int) -> None:
        super().__init__(("127.0.0.1", 0), Mirror)
        self.stale = stale
        self.asked: list[str] = []

    def file(self, name: str) -> bytes:
        self.asked.append(name)
        new, old = (
            f"Package: x\nVersion: {n}\nArchitecture: all\nFilename: ./x\nSize: 1\n\n".encode() for n in (2, 10)
        )
        found = old if self.asked.count("Packages") <= self.stale else new
        index = f"Date: Sun, 01 Mar 2026 00:00:00 UTC\nSHA256:\n {sha256(new).hexdigest()} {len(new)} Packages\n"
        return {"Packages": found, "Release": index.encode()}.get(name, b"")


LISTS = r"""
mkdir -p "$scratch/state/lists/partial" "$scratch/cache/archives/partial"
: >"$scratch/status"
printf 'deb [trusted=yes] %s ./\n' "$mirror" >"$scratch/list"
host_sources() {
    printf 'Dir::Etc::SourceList "%s/list";\nDir::Etc::SourceParts "/dev/null";\nAPT::Sandbox::User "root";\n' "$scratch"
    printf 'Dir::State "%s/state";\nDir::Cache "%s/cache";\nDir::State::status "%s/status";\n' "$scratch" "$scratch" "$scratch"
}
sleep() { :; }
{ read_lists && apt-cache --config-file="$scratch/apt.conf" madison x; } 2>&1 | sed -n '/^aisb-/p; s/ *x | *\([0-9]*\) .*/x \1/p'
"""


@pytest.mark.parametrize(
    ("stale", "said"),
    [
        (0, ["x 2"]),
        (1, ["aisb-step: apt could not read its package lists; trying once more", "x 2"]),
        (
            2,
            [
                "aisb-step: apt could not read its package lists; trying once more",
                "aisb-fail: apt could not read its package lists",
            ],
        ),
    ],
    ids=["fresh", "stale once", "stale"],
)
def test_a_list_that_does_not_go_with_its_index_is_asked_for_once_more(
    tmp_path: Path, stale: int, said: list[str]
) -> None:
    """apt itself does that for no such list. By the proxy that the host has, as every step. (B31)"""
    with MirrorServer(stale) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        functions = ("say", "fail", "configure_apt", "apt", "has_sources", "update_lists", "read_lists")
        script = "\n".join([f"scratch={tmp_path}; secrets={tmp_path}; mirror=$1", *map(_function, functions), LISTS])
        environ = {"PATH": os.defpath, "http_proxy": f"http://127.0.0.1:{server.server_port}"}

        done = subprocess.run(
            ["sh", "-eu", "-c", script, "sh", "http://packages.test/"],
            capture_output=True, text=True, check=False, env=environ,
        )  # fmt: skip
        server.shutdown()

    assert (done.stdout.splitlines(), done.stderr) == (said, "")
    assert server.asked.count("Packages") == min(stale, 1) + 1


def test_an_archive_with_another_hash_stops_the_step(tmp_path: object) -> None:
    """Both hashes are said, in the line that aisb shows."""
    wrong = "0" * 64
    script = f"""
        archives={tmp_path}
        printf something >"$archives/x.tgz"
        {_function("fail")}
        {_function("check_archive")}
        check_archive x.tgz {wrong}
    """

    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False)

    found = "3fc9b689459d738f8c88a3a48aa9e33542016b7a4052e001aaa536fca74813cb"
    assert (done.returncode, done.stdout) == (1, f"aisb-fail: x.tgz has the sha256 {found}, not {wrong}\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--with-gnutls --enable-ssl", "this base's squid was built without OpenSSL and cannot look at TLS"),
        ("--with-openssl", "security_file_certgen is missing: this base's squid makes no certificates"),
    ],
    ids=["no OpenSSL", "no certificates"],
)
def test_a_squid_that_cannot_open_tls_stops_the_build(options: str, why: str) -> None:
    """It would not look at hellos, or open nothing, at a gate's start or later. (C40)"""
    script = f"""
        squid() {{ echo "Squid Cache: Version 6.13"; echo "configure options: {options}"; }}
        {_function("fail")}
        {_function("need_squid").replace("/usr/lib/squid/", "/nowhere/")}
        need_squid
    """

    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, f"aisb-fail: {why}\n")


NEWER_TOOLS = """
scratch=/nowhere
configure_npm() { :; }
apt() {
    [ "$*" = "--simulate upgrade" ] || exit 9
    printf '%s\n' 'Reading package lists...' 'Inst libc6 [2.41-12] (2.41-13 Debian:13/stable [amd64]) []' \
        'Inst new (1 Debian:13/stable [all])' 'Conf libc6 (2.41-13 Debian:13/stable [amd64])'
}
apt-cache() { printf '%s\n' squid-openssl: '  Installed: (none)' '  Candidate: 6.13-2' '  Version table:'; }
npm() { [ "$2" != broken@1 ] && printf '[\n  "1.0.0",\n  "1.1.0"\n]\n'; }
"""


@pytest.mark.parametrize(
    ("lists", "packages"),
    [
        (
            "true",
            ["aisb-lists: read", "aisb-upgrade: libc6 2.41-12 2.41-13", "aisb-squid: 6.13-2"],
        ),
        ("fail 'no lists'", ["aisb-fail: no lists"]),
    ],
    ids=["with apt", "without"],
)
def test_what_is_newer_is_told_in_marked_lines(lists: str, packages: list[str]) -> None:
    """Of what apt would upgrade, its squid, and each package that npm knows; one that cannot be asked hides no other."""
    script = f"{NEWER_TOOLS}\n{_function('fail')}\nread_lists() {{ {lists}; }}\n{_function('step_newer')}\n"

    done = subprocess.run(
        ["bash", "-eu", "-c", f"{script}step_newer one@1 broken@1 @two/x@2"],
        capture_output=True,
        text=True,
        check=False,
    )

    versions = '[  "1.0.0",  "1.1.0"]'
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [*packages, f"aisb-latest: one@1 {versions}", f"aisb-latest: @two/x@2 {versions}"],
    ), done.stderr


def _function(name: str) -> str:
    """One function of the script."""
    with open(SETUP, encoding="utf-8") as file:
        match = re.search(rf"^{name}\(\) \{{(?:\n.*?^| [^\n]* )\}}\n", file.read(), flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0]
