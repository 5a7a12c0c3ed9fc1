"""The exit code that podman's record of events still has."""

from __future__ import annotations

import json

import pytest

from aisb.effects.exit_code import recorded_exit_code
from aisb.effects.process import Finished
from tests.fakes import FakeRunner


def event(**fields: object) -> str:
    return json.dumps({"Name": "aisb-run-0123abcd", "Status": "died", **fields}) + "\n"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (event(ContainerExitCode=7), 7),
        (event(ContainerExitCode=0), 0),
        (event(), 0),
        (event(ContainerExitCode=1) + event(ContainerExitCode=127), 127),
        ("", None),
        ("no JSON\n", None),
        ("[]\n", None),
        (event(Status="start"), None),
        (event(ContainerExitCode=256), None),
        (event(ContainerExitCode=-1), None),
        (event(ContainerExitCode="0"), None),
        (event(ContainerExitCode=None), None),
    ],
)
def test_the_last_end_that_is_written_down(said: str, code: int | None) -> None:
    """podman 4 leaves a 0 out. What is no exit code is none."""
    runner = FakeRunner(Finished(0, said.encode()))

    assert recorded_exit_code("podman", "0123abcd", 7.9, runner) == code
    assert [" ".join(argv) for argv in runner.argvs] == [
        "podman events --stream=false --since 67s --filter container=aisb-run-0123abcd --filter event=died --format json"
    ]


def test_a_podman_that_keeps_no_events_knows_nothing() -> None:
    assert recorded_exit_code("podman", "0123abcd", 1, FakeRunner(Finished(125, event().encode()))) is None
