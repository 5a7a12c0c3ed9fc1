"""A port of the host: judged and recorded by the gate, led to aisb's door in the run's directory, never to squid."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from aisb.effects.host_ports import host_doors
from aisb.effects.session import Session
from tests.tools.gate_box import GateBox, World, allowing, wait_for
from tests.tools.gate_client import connect, connected, get, listen, say

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "host.aisb.internal"
NAMES = (HOST, "localhost", "127.0.0.1", "[::1]", HOST.upper(), f"{HOST}.")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Somebody who listens on the loopback, not of the gate's namespace but of this one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        yield listener


@pytest.fixture
def port(server: socket.socket) -> int:
    number: int = server.getsockname()[1]
    return number


@pytest.fixture
def gate(world: World, system: str, port: int) -> Iterator[GateBox]:
    with GateBox(world, allowing(f"host:{port}", "host:9", "allowed.test"), system=system) as gate:
        assert gate.ready == "ready", gate.log()
        world.forget()
        yield gate


def record(gate: GateBox, path: str, lines: int) -> list[dict[str, Any]]:
    run = path.split("/")[-3]
    wait_for(lambda: len(gate.audit(run)) >= lines, f"{lines} lines in the record")
    return gate.audit(run)


def session_of(path: str) -> Session:
    directory = os.path.dirname(os.path.dirname(path))
    return Session(os.path.basename(directory), directory)


def test_what_is_allowed_gets_there_and_nothing_else_does(
    gate: GateBox, world: World, server: socket.socket, port: int
) -> None:
    """By each of its names; the port beside it, and a request in a proxy's form, are refused in words."""
    path = gate.open()
    with host_doors(session_of(path), (port, 9)):
        for name in NAMES:
            with connected(path) as client:
                client.sendall(connect(f"{name}:{port}") + b"early")
                assert listen(client, until=b"\r\n\r\n").status == 200
                peer, _ = server.accept()
                with peer:
                    peer.settimeout(10)
                    assert peer.recv(5) == b"early"
                    # It may speak when its client has said its last word, and however late.
                    client.shutdown(socket.SHUT_WR)
                    assert peer.recv(1) == b""
                    peer.sendall(b"late")
                assert (listen(client).data, name) == (b"late", name)
        neighbour = say(path, connect(f"{HOST}:{port - 1}"))
        by_url = say(path, get(f"http://{HOST}:{port}/"))
        nobody = say(path, connect(f"{HOST}:9"))
        unlisted = say(path, connect(f"127.0.0.1:{port - 1}"))

    assert [heard.status for heard in (neighbour, by_url, nobody, unlisted)] == [403, 400, 502, 403]
    assert f"--allow host:{port - 1}\n".encode() in neighbour.data
    assert b"--allow" not in unlisted.data
    assert b"no_proxy" in by_url.data
    assert world.seen() == []
    lines = record(gate, path, len(NAMES) + 4)
    assert [(line["decision"], line["port"], line["reason"], line.get("failed", "")) for line in lines] == [
        *(("allow", port, "", "") for _ in NAMES),
        ("deny", port - 1, "not-listed", ""),
        ("deny", port, "bad-request", ""),
        ("allow", 9, "", "unanswered"),
        ("deny", port - 1, "direct-address", ""),
    ]
    assert {(line["rule"], line["bytes_out"], line["bytes_in"]) for line in lines[: len(NAMES)]} == {
        (f"host:{port}", 5, 4)
    }


def test_without_a_door_there_is_no_way(gate: GateBox, world: World, port: int) -> None:
    """The policy names a port, and aisb is gone, or was never there: squid is not asked in its place."""
    heard = say(gate.open(), connect(f"{HOST}:{port}"))

    assert (heard.status, heard.is_closed) == (502, True)
    assert world.seen() == []


def test_a_run_has_its_own_doors(gate: GateBox, server: socket.socket, port: int) -> None:
    """One gate, one policy, two runs: what leads one to the host leads the other nowhere."""
    one = gate.open("1a2b3c4d")
    other = gate.open("5e6f7a8b")
    with host_doors(session_of(one), (port,)):
        assert say(other, connect(f"{HOST}:{port}")).status == 502
        with connected(one) as client:
            client.sendall(connect(f"{HOST}:{port}"))
            assert listen(client, until=b"\r\n\r\n").status == 200
            server.accept()[0].close()


def test_the_end_of_a_run_ends_what_leads_to_the_host(gate: GateBox, server: socket.socket, port: int) -> None:
    path = gate.open()
    run = path.split("/")[-3]
    with host_doors(session_of(path), (port,)), connected(path) as client:
        client.sendall(connect(f"{HOST}:{port}"))
        assert listen(client, until=b"\r\n\r\n").status == 200
        peer, _ = server.accept()
        begun = time.monotonic()
        gate.ask({"op": "close", "run": run})
        with peer:
            peer.settimeout(10)
            assert listen(client).is_closed
            assert listen(peer).is_closed
        assert time.monotonic() - begun < 5
