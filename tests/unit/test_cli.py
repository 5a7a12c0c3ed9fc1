"""The command line from outside: what is printed where, and the exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aisb.cli.help import run_help
from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.options import OPTIONS
from aisb.errors import UsageError

VERBS = frozenset({"run", "build", "version"})
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def aisb(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "aisb", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=60,
        check=False,
    )


def test_help_fits_a_screen() -> None:
    lines = aisb("--help").stdout.decode().splitlines()

    assert len(lines) <= 24
    assert [line for line in lines if len(line) > 80] == []


def test_every_option_is_in_the_help_of_run() -> None:
    assert [option.name for option in OPTIONS if f"--{option.name}" not in run_help()] == []


def test_a_reader_that_left_is_no_trouble() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    done = aisb("--help", stdout=writer)

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        ([], {"AISB_NET": "full"}, "AISB_NET=full: an open network is never a default"),
        (["--env", "HOME"], {}, "--env HOME: the sandbox has a HOME of its own"),
        (["--env", "https_proxy"], {}, "--env https_proxy: the sandbox has a https_proxy of its own"),
        (["--env", "A=secret"], {}, "--env A=...: a value on the command line shows in the process list"),
        (["--env", "1A"], {}, "--env '1A' is not the name of a variable"),
        (["--project", ""], {}, "--project is empty"),
        (["--project", "x", "--no-cwd"], {}, "--project and --no-cwd exclude each other"),
        (["--shell", "x"], {}, "--shell takes no command"),
        (["--gate-network", "host"], {}, "--gate-network 'host' is not the name of a network"),
        (["--gate-idle", "0"], {}, "--gate-idle '0' is not a number of seconds"),
        ([], {"AISB_QUIET": "maybe"}, "AISB_QUIET='maybe' is neither on nor off"),
    ],
)
def test_a_request_that_cannot_be_meant(words: list[str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_request(split(words, VERBS), environ)
    assert caught.value.message == message


def test_the_command_line_is_stronger_than_the_environment() -> None:
    environ = {"AISB_NET": "allow", "AISB_BASE_IMAGE": "bootstrap:bookworm", "AISB_QUIET": "1"}

    request = read_request(split(["--net", "none", "--base-image", "bootstrap:trixie"], VERBS), environ)

    assert (request.net, request.base_image, request.has("quiet")) == ("none", "bootstrap:trixie", True)


def test_the_last_of_a_value_counts_and_lists_add_up() -> None:
    request = read_request(
        split(["--net", "none", "--net", "allow", "--allow", "a.test", "--allow", "b.test"], VERBS), {}
    )

    assert (request.net, [text for text, _ in request.allow]) == ("allow", ["a.test", "b.test"])
