"""What podman says about itself, and what aisb makes of it."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aisb.effects.host import (
    Host,
    ask_podman,
    host_addresses,
    known_host,
    name_servers,
    need_host,
    need_network,
    need_podman,
)
from aisb.effects.process import Finished
from aisb.errors import Unavailable
from tests.fakes import FakeRunner, said

ROOT = str(Path(__file__).parents[2])


def info(*, rootless: bool = True, remote: bool = False, driver: str = "overlay") -> str:
    return json.dumps(
        {
            "host": {"serviceIsRemote": remote, "security": {"rootless": rootless}},
            "store": {"graphDriverName": driver},
        }
    )


@pytest.mark.parametrize(
    ("version", "parsed"),
    [
        ("podman version 4.3.1", (4, 3)),
        ("podman version 4.9.4-rhel", (4, 9)),
        ("podman version 5.4.2", (5, 4)),
        ("podman version 6.0.0-dev", (6, 0)),
    ],
)
def test_a_podman_that_is_new_enough(version: str, parsed: tuple[int, int]) -> None:
    host = ask_podman("/usr/bin/podman", FakeRunner(said(version), said(info())))

    assert (host.version, host.storage_driver) == (parsed, "overlay")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        pytest.param([said("podman version 3.4.7")], "podman 3.4 is too old", id="too old"),
        pytest.param(
            [said("Docker version 28.2.2, build e6534b4")], "/usr/bin/podman is not podman", id="a docker shim"
        ),
        pytest.param([said("")], "/usr/bin/podman is not podman", id="silence"),
        pytest.param([Finished(code=1)], "/usr/bin/podman is not podman", id="a failure"),
        pytest.param([said("podman version 5.4.2"), said(info(remote=True))], "client of another machine", id="remote"),
        pytest.param([said("podman version 5.4.2"), said(info(rootless=False))], "does not run rootless", id="rootful"),
        pytest.param([said("podman version 5.4.2"), said("{}")], "that aisb cannot read", id="no such fields"),
        pytest.param([said("podman version 5.4.2"), said("nope")], "that aisb cannot read", id="no JSON"),
        pytest.param(
            [said("podman version 5.4.2"), Finished(code=125)],
            "does not work here: podman info exited 125",
            id="in trouble",
        ),
    ],
)
def test_a_podman_that_is_no_use_is_named_with_its_fault(answers: list[Finished], message: str) -> None:
    with pytest.raises(Unavailable, match=message):
        ask_podman("/usr/bin/podman", FakeRunner(*answers))


def test_a_machine_that_gives_nobody_a_user_namespace_is_recognised(tmp_path: Path) -> None:
    """As AppArmor does on Ubuntu: what it says, and the one setting that mends it. Nothing else is tried. (C34)"""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    told = Finished(125, b"", b"ERRO[0000] running newuidmap\nError: cannot set up namespace: Permission denied\n")
    runner = FakeRunner(said("podman version 5.4.2"), told)

    with pytest.raises(Unavailable) as caught:
        ask_podman("/usr/bin/podman", runner, root=str(tmp_path))

    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        "podman does not work here: Error: cannot set up namespace: Permission denied",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        69,
    )
    assert len(runner.argvs) == 2


def test_no_podman_on_the_path(tmp_path: os.PathLike[str]) -> None:
    with pytest.raises(Unavailable, match="podman was not found"):
        need_host(str(tmp_path), FakeRunner(), str(tmp_path), "")


def test_a_podman_in_the_project_is_not_run(tmp_path: os.PathLike[str]) -> None:
    program = os.path.join(tmp_path, "podman")
    with open(program, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o755)

    with pytest.raises(Unavailable, match="lies in the project"):
        need_host(str(tmp_path), FakeRunner(), str(tmp_path), str(tmp_path))


@pytest.mark.parametrize(
    ("directory", "program", "why"),
    [
        (0o755, 0o755, ""),
        (0o777, 0o755, "/bin can be written by others, so .*/bin/podman is not run"),
        (0o775, 0o755, "/bin can be written by others"),
        (0o755, 0o757, "/podman can be written by others"),
    ],
)
def test_a_podman_that_others_may_have_put_there_is_not_run(
    tmp_path: Path, directory: int, program: int, why: str
) -> None:
    """Neither it nor its directory; one that lies beside the project is no part of that."""
    path = tmp_path / "bin/podman"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(program)
    path.parent.chmod(directory)

    if why:
        with pytest.raises(Unavailable, match=why):
            need_podman(str(path.parent), f"{tmp_path}/project")
    else:
        assert need_podman(str(path.parent), f"{tmp_path}/project") == str(path)


def test_one_that_is_somebody_elses_is_not_run(tmp_path: Path) -> None:
    """Seen from a namespace in which only the caller has a name; of root's every program is its own there."""
    program = "/usr/bin/env"
    if os.getuid() == 0:
        program = f"{tmp_path}/podman"
        Path(program).write_text("")
        os.chown(program, 1, 1)
    look = "import sys; from aisb.effects.host import refuse_planted; refuse_planted(sys.argv[1], '')"
    words = ["unshare", "-r", sys.executable, "-c", look, program]

    done = subprocess.run(words, env={"PYTHONPATH": ROOT}, capture_output=True, text=True, check=False)

    assert (done.returncode, "can be written by others" in done.stderr) == (1, True), done.stderr


def test_a_range_of_ids_is_needed_before_podman_is_asked(tmp_path: Path) -> None:
    """Where nothing is known of this machine yet; what is known says that there was one."""
    (tmp_path / "bin").mkdir(mode=0o755)
    (tmp_path / "bin/podman").write_text("#!/bin/sh\n")
    (tmp_path / "bin/podman").chmod(0o755)

    def none() -> None:
        raise Unavailable("no range")

    with pytest.raises(Unavailable, match="no range"):
        need_host(f"{tmp_path}/cache", FakeRunner(), f"{tmp_path}/bin", "", none)


def test_without_a_network_of_podmans_there_is_neither_a_gate_nor_a_sandbox_without_one() -> None:
    """Nothing else is tried in its place. (C36)"""
    with pytest.raises(Unavailable, match="neither pasta nor slirp4netns is there: the sandbox has no way out"):
        need_network(Host("podman", (4, 3), "overlay", ""), "the sandbox")

    assert [need_network(Host("podman", (5, 4), "overlay", name)) for name in ("pasta", "slirp4netns")] == [
        "pasta",
        "slirp4netns",
    ]


def test_facts_are_asked_once(tmp_path: os.PathLike[str]) -> None:
    directory = os.path.join(tmp_path, "bin")
    os.mkdir(directory, 0o755)
    program = os.path.join(directory, "podman")
    with open(program, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o755)
    cache = os.path.join(tmp_path, "cache")
    runner = FakeRunner(said("podman version 5.4.2"), said(info()))

    first = need_host(cache, runner, directory, "", subordinate_ids=lambda: None)
    second = need_host(cache, FakeRunner(), directory, "", subordinate_ids=lambda: None)
    assert (known_host(cache, directory), known_host(f"{cache}/none", directory)) == (first, None)
    assert known_host(cache, "/nowhere") is None

    assert first == second == Host(program, (5, 4), "overlay", first.network, first.cgroup_manager)


def test_facts_are_asked_again_when_podmans_settings_say_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own, by what they say: the same in another home is no news."""
    program = tmp_path / "bin/podman"
    program.parent.mkdir(mode=0o755)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    answers = [
        answer for driver in ("overlay", "vfs") for answer in (said("podman version 5.4.2"), said(info(driver=driver)))
    ]
    runner = FakeRunner(*answers)
    found = []
    for home, text in (("a", "one"), ("b", "one"), ("b", "other")):
        monkeypatch.setenv("XDG_CONFIG_HOME", f"{tmp_path}/{home}")
        settings = tmp_path / home / "containers/storage.conf"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(text)
        found.append(need_host(f"{tmp_path}/cache", runner, str(program.parent), "", lambda: None).storage_driver)

    assert found == ["overlay", "overlay", "vfs"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "search x.test\nnameserver 192.0.2.53\nnameserver   2001:db8::53 # mine\noptions edns0\n",
            ("192.0.2.53", "2001:db8::53"),
        ),
        ("#nameserver 192.0.2.53\nnameserver\n", ()),
        ("", ()),
    ],
    ids=["several", "none that is meant", "nothing"],
)
def test_the_name_servers_of_this_host_in_their_order(tmp_path: Path, text: str, found: tuple[str, ...]) -> None:
    """(C50)"""
    (tmp_path / "resolv.conf").write_text(text)

    assert name_servers(str(tmp_path / "resolv.conf")) == found
    assert name_servers(str(tmp_path / "none")) == ()


def test_the_addresses_of_this_host_are_addresses_and_none_is_loopback() -> None:
    addresses = [ipaddress.ip_address(address) for address in host_addresses()]

    assert [address for address in addresses if address.is_loopback] == []
