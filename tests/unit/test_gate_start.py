"""How a gate is told that it may start, and what it may know: descriptors that podman hands on by number."""

from __future__ import annotations

import fcntl
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from aisb.effects import gate as gate_module
from aisb.effects.gate import GatePlan, drop_own_gates, need_gate
from aisb.effects.process import Finished

if TYPE_CHECKING:
    from pathlib import Path

    from aisb.effects.process import Command

ARGV = ("podman", "run", "gate")


class Podman:
    """Starts a gate that says it is ready, and notes what it was handed."""

    def __init__(self) -> None:
        self.handed: list[tuple[int, ...]] = []
        self.told: list[bytes] = []

    def run(self, command: Command) -> Finished:
        if command.argv == ARGV:
            self.handed.append(command.pass_fds)
            self.told += [os.read(number, 4096) + os.read(number, 4096) for number in command.pass_fds[1:]]
            os.write(command.pass_fds[0], b"ready\n")
            return Finished(0)
        assert command.argv[:3] == ("podman", "container", "exists")
        return Finished(1)

    def announce(self, argv: tuple[str, ...]) -> None:
        raise AssertionError(argv)


def started(tmp_path: Path, plan: GatePlan) -> Podman:
    podman = Podman()
    gate = need_gate(plan, str(tmp_path), podman, lambda _directory: ARGV)
    os.close(gate.lock)
    assert (gate.warm, gate.short) == (False, plan.short)
    return podman


def standing() -> list[tuple[int, int] | None]:
    """What the first numbers are, None where they are nothing."""
    found: list[tuple[int, int] | None] = []
    for number in range(3, 10):
        try:
            status = os.fstat(number)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return found


@pytest.mark.parametrize("taken", [(), (3,), (4,), (3, 4)])
def test_a_password_is_read_once_from_the_descriptor_after_the_first(tmp_path: Path, taken: tuple[int, ...]) -> None:
    """And afterwards each number is what it was, whether it was free or not."""
    file = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    saved = {number: _copy(number) for number in (3, 4)}
    try:
        for number in (3, 4):
            if number in taken:
                os.dup2(file, number)
            elif saved[number] is not None:
                os.close(number)
        before = standing()

        podman = started(tmp_path / "run", GatePlan("k" * 64, "image", {}, "1a2b3c4d", "u%3Ap"))

        assert (podman.handed, podman.told) == ([(3, 4)], [b"u%3Ap\n"])
        assert standing() == before
    finally:
        for number, copy in saved.items():
            if copy is None:
                continue
            os.dup2(copy, number)
            os.close(copy)
        os.close(file)


def _copy(number: int) -> int | None:
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    except OSError:
        return None


def test_a_gate_that_is_shared_is_told_nothing(tmp_path: Path) -> None:
    podman = started(tmp_path, GatePlan("k" * 64, "image", {"idle": "600\n"}))

    assert (podman.handed, podman.told) == ([(3,)], [])


def test_no_file_of_a_gate_holds_its_password(tmp_path: Path) -> None:
    started(tmp_path, GatePlan("k" * 64, "image", {"idle": "2\n"}, "1a2b3c4d", "s3cr3t"))

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["idle", "key", "lock", "owner", "start"]
    assert [path for path in files if b"s3cr3t" in path.read_bytes()] == []


def test_a_directory_that_is_taken_away_meanwhile_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its lock is there, and after it was taken: the lock of a directory that is gone holds nobody off."""
    plan = GatePlan("k" * 64, "image", {"idle": "600\n"})
    directory = tmp_path / "g" / plan.short
    original, calls = gate_module._lock, []

    def lock(path: str, kind: int) -> int:
        if path.endswith("/lock"):
            calls.append(path)
            if len(calls) == 1:
                shutil.rmtree(directory)
            descriptor = original(path, kind)
            if len(calls) == 2:
                shutil.rmtree(directory)
            return descriptor
        return original(path, kind)

    monkeypatch.setattr(gate_module, "_lock", lock)
    gate = need_gate(plan, str(tmp_path), Podman(), lambda _directory: ARGV)

    assert (len(calls), (directory / "conf/idle").read_text()) == (3, "600\n")
    assert os.path.samestat(os.fstat(gate.lock), os.stat(directory / "lock"))
    os.close(gate.lock)


def test_the_directory_of_a_runs_own_gate_goes_when_nobody_holds_it(tmp_path: Path) -> None:
    """One that is shared stays, and so does one with a record that is nowhere else yet."""
    own, shared, unfinished, held = (GatePlan(letter * 64, "image", {}, owner, owner) for letter, owner in (
        ("a", "1a2b3c4d"), ("b", ""), ("c", "2a2b3c4d"), ("d", "3a2b3c4d")))  # fmt: skip
    for plan in (own, shared, unfinished):
        started(tmp_path, plan)
    gate = need_gate(held, str(tmp_path), Podman(), lambda _directory: ARGV)
    record = tmp_path / "g" / unfinished.short / "r" / "2a2b3c4d"
    record.mkdir()
    swept: list[str] = []

    drop_own_gates(str(tmp_path), swept.append)

    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == [shared.short, unfinished.short, held.short]
    assert sorted(swept) == [f"{tmp_path}/g/{plan.short}/r" for plan in (own, unfinished)]
    os.close(gate.lock)
    record.rmdir()
    drop_own_gates(str(tmp_path), swept.append)
    assert [path.name for path in (tmp_path / "g").iterdir()] == [shared.short]
