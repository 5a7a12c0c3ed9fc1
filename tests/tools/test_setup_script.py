"""The steps of a build, as far as they can be tried without one."""

from __future__ import annotations

import re
import subprocess
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
        match = re.search(rf"^{name}\(\) \{{\n.*?^\}}\n", file.read(), flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0]
