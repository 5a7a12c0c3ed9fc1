"""The way to a port of the host: aisb's forwarder, the door in the run's directory, and the bridge's call."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from aisb.effects.host_ports import forwarder_argv, host_doors
from aisb.effects.session import Session
from gate.host_call import HostCall
from gate.loopback import NOBODY, REACHED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gate.ends import HostEnd
    from gate.loop import Loop

SECONDS = 10.0


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Somebody who listens on the loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(SECONDS)
        yield listener


def call(path: str) -> socket.socket:
    """A connection to a door, as the bridge makes it."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(SECONDS)
    client.connect(path)
    return client


def test_a_door_leads_to_its_port(server: socket.socket, tmp_path: Path) -> None:
    """First whether somebody is there; then every byte, and the end of each direction."""
    port = server.getsockname()[1]
    with host_doors(Session("0a", str(tmp_path)), (port,)), call(f"{tmp_path}/h/{port}") as client:
        assert client.recv(1) == REACHED
        peer, _ = server.accept()
        with peer:
            peer.settimeout(SECONDS)
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            assert (peer.recv(100), peer.recv(100)) == (b"question", b"")
            peer.sendall(b"answer")
        assert (client.recv(100), client.recv(100)) == (b"answer", b"")


def test_where_nobody_listens_that_is_said(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with host_doors(Session("0a", str(tmp_path)), (port,)), call(f"{tmp_path}/h/{port}") as client:
            assert (client.recv(1), client.recv(1)) == (NOBODY, b"")


def test_there_are_doors_for_these_ports_alone_and_for_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with host_doors(Session("0a", f"{tmp_path}/a"), (1, 22)), host_doors(Session("0b", f"{tmp_path}/b"), ()):
        modes = {
            name: os.stat(f"{tmp_path}/a/h/{name}").st_mode & 0o777 for name in sorted(os.listdir(f"{tmp_path}/a/h"))
        }
        assert (modes, os.stat(f"{tmp_path}/a/h").st_mode & 0o777) == ({"1": 0o600, "22": 0o600}, 0o700)
        assert os.listdir(f"{tmp_path}/b") == []


def test_nothing_of_the_users_python_is_in_the_process() -> None:
    argv = forwarder_argv((1, 22))

    assert (argv[:4], argv[6:]) == ((sys.executable, "-I", "-S", "-c"), ("1", "22"))
    assert os.path.isfile(f"{argv[5]}/gate/host_ports.py")


@pytest.mark.parametrize("word", [NOBODY, b"", b"?"], ids=["nobody", "closed", "nonsense"])
def test_a_call_that_leads_nowhere_is_none(loop: Loop, tmp_path: Path, word: bytes) -> None:
    path = f"{tmp_path}/1"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        found: list[HostEnd | None] = []
        HostCall(loop, path, found.append)
        peer, _ = door.accept()
        peer.sendall(word)
        peer.close()
        while not found:
            loop.run_once(SECONDS)
        assert found == [None]


def test_a_port_without_a_door_is_none(loop: Loop, tmp_path: Path) -> None:
    found: list[HostEnd | None] = []
    HostCall(loop, f"{tmp_path}/1", found.append)
    while not found:
        loop.run_once(SECONDS)

    assert found == [None]
