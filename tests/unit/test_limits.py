"""Caps: what may be written, which of them this host keeps, and what is said of the others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from aisb.cli.main import VERBS
from aisb.cli.request import read_request
from aisb.cli.run import unkept_limits
from aisb.cli.splitter import split
from aisb.domain.layers import PROJECT, USER, Layer, Setting
from aisb.domain.limits import Limit
from aisb.effects.cgroups import SYSTEMD, Unenforced, Watch, unenforced
from aisb.effects.host import Host
from aisb.errors import Unprotected, UsageError
from aisb.render.lines import limit_lines

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.cli.request import Request

DEFAULTS = {"memory": "8g", "cpus": "4", "pids-limit": "4096", "shm-size": "1g"}


def request(*words: str, layers: tuple[Layer, ...] = ()) -> Request:
    return read_request(split(["--net", "none", *words, "--shell"], VERBS), {}, layers)


def caps(*words: str) -> dict[str, str]:
    return {limit.name: limit.value for limit in request(*words).wanted.limits}


def test_a_run_has_caps_without_being_told() -> None:
    assert (caps(), request().timeout_seconds) == (DEFAULTS, 0)


def test_each_cap_may_be_changed_or_switched_off() -> None:
    """By podman's names; ulimits add up."""
    words = ("--memory", "512m", "--cpus", "1.5", "--pids-limit", "0", "--shm-size=0", "--timeout", "2h")

    assert caps(*words, "--ulimit", "nofile=64:128") == {"memory": "512m", "cpus": "1.5", "ulimit": "nofile=64:128"}
    assert request(*words).timeout_seconds == 7200


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("memory", "much"),
        ("memory", "-1"),
        ("memory", "1m"),
        ("memory", "8 g"),
        ("memory", "8g --privileged"),
        ("cpus", "all"),
        ("cpus", "1e3"),
        ("pids-limit", "-1"),
        ("pids-limit", "2"),
        ("shm-size", "1t"),
        ("timeout", "soon"),
        ("ulimit", "nofile"),
        ("ulimit", "host"),
        ("ulimit", "nofiles=3"),
        ("ulimit", "nofile=3,exec"),
    ],
)
def test_what_is_no_cap_is_named(flag: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        request(f"--{flag}", value)
    assert caught.value.message == f"--{flag} {value!r} is no limit"


def test_a_projects_cap_above_the_users_is_cut_down_and_said() -> None:
    theirs = Layer(
        PROJECT,
        {"memory": Setting("16g", ".ai-sandbox/config.yaml:1"), "timeout": Setting("1h", ".ai-sandbox/config.yaml:2")},
        {},
    )
    ours = Layer(USER, {"memory": Setting("4g", "config:1"), "timeout": Setting("2h", "config:2")}, {})

    asked = request(layers=(ours, theirs))

    assert asked.wanted.limits[0] == Limit("memory", "4g", "config:1")
    assert (asked.timeout_seconds, asked.notes) == (
        3600,
        (".ai-sandbox/config.yaml:1: memory: 16g is cut down to 4g (config:1)",),
    )
    off = Layer(PROJECT, {"pids-limit": Setting("0", ".ai-sandbox/config.yaml:1")}, {})
    assert request(layers=(off,)).wanted.limits == request().wanted.limits


def controllers(root: Path, *names: str) -> str:
    """A control group of version 2, with these handed down to the user."""
    uid = os.getuid()
    service = root / "user.slice" / f"user-{uid}.slice" / f"user@{uid}.service"
    service.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory pids\n")
    (service / "cgroup.controllers").write_text(" ".join(names) + "\n")
    return str(root)


def test_what_this_host_cannot_keep_is_named_with_the_reason(tmp_path: Path) -> None:
    """A cap that needs no controller is kept everywhere."""
    limits = request("--ulimit", "nofile=64").wanted.limits
    three = ("memory", "cpus", "pids-limit")

    old = unenforced(limits, SYSTEMD, str(tmp_path))
    root = controllers(tmp_path, "memory", "pids")

    assert old == Unenforced(three, "it has control groups of version 1, in which only root can set one")
    assert unenforced(limits, "cgroupfs", root).names == three
    assert unenforced(limits, SYSTEMD, root) == Unenforced(("cpus",), "this host does not hand down to your user: cpu")
    assert unenforced(request("--cpus", "0").wanted.limits, SYSTEMD, root) == Unenforced()


def test_who_requires_limits_does_not_run_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisb.cli.run.unenforced", lambda *_: Unenforced(("memory", "cpus"), "so it is"))
    host = Host("podman", (5, 4), "overlay", "pasta", "cgroupfs")

    assert unkept_limits(request("--quiet"), host).names == ("memory", "cpus")
    with pytest.raises(Unprotected) as caught:
        unkept_limits(request("--require-limits"), host)
    assert (caught.value.message, caught.value.hint) == (
        "refused to run without its limits: no cap on memory, cpus here: so it is",
        "leave --require-limits out, or do without: --memory 0 --cpus 0",
    )


def test_what_was_hit_is_named_with_its_flag() -> None:
    limits = request().wanted.limits

    assert limit_lines(("memory", "pids-limit", "timeout"), limits, 90) == [
        "a program of the sandbox was killed: its memory was used up (--memory 8g)",
        "the sandbox could not start another process: it had all that it may have (--pids-limit 4096)",
        "the command was ended: its time was over (--timeout 90s)",
    ]


def test_nothing_is_hit_where_nothing_is_counted() -> None:
    """This process may be in no group of version 2 at all."""
    watch = Watch()
    watch.begin(str(os.getpid()))
    watch.begin("0")

    assert watch.end() == ()
