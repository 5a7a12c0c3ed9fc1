"""Two sockets joined: bytes, ends, resets and pressure."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gate import pump
from gate.loop import READ, Loop
from gate.pump import Farewell, Pump, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def turn(loop: Loop, until: Callable[[], bool]) -> None:
    """Turn the loop until something holds."""
    deadline = time.monotonic() + 10
    while not until():
        assert time.monotonic() < deadline
        loop.run_once(0.01)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """A client and the server's end of its connection; only the latter is non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    server.setblocking(False)
    client.settimeout(5)
    return client, server


def unix_pair() -> tuple[socket.socket, socket.socket]:
    """The bridge's end and the relay's."""
    bridge, gate = socket.socketpair()
    gate.setblocking(False)
    bridge.settimeout(5)
    return bridge, gate


class Joined:
    """A client and a bridge with a pump between them."""

    def __init__(self, loop: Loop, first: bytes = b"") -> None:
        self.loop = loop
        self.done = 0
        self.client, client_end = tcp_pair()
        self.bridge, bridge_end = unix_pair()
        self.ends = (client_end, bridge_end)
        self.pump = Pump(loop, client_end, bridge_end, self._on_done, first_to_one=first, inner=bridge_end)

    def _on_done(self) -> None:
        self.done += 1

    def close(self) -> None:
        """Close the ends that the pump does not own."""
        self.client.close()
        self.bridge.close()


@pytest.fixture(autouse=True)
def prepared() -> None:
    """As relay and bridge do when they start."""
    pump.prepare()


@pytest.fixture
def joined(loop: Loop) -> Iterator[Joined]:
    """The usual pair."""
    joined = Joined(loop)
    yield joined
    joined.close()
    turn(loop, lambda: joined.pump.closed)


def receive(loop: Loop, end: socket.socket, count: int) -> bytes:
    """`count` bytes, or what came before the end, with the loop turning."""
    end.setblocking(False)
    data = b""
    deadline = time.monotonic() + 10
    while len(data) < count:
        assert time.monotonic() < deadline
        try:
            part = end.recv(1 << 20)
        except BlockingIOError:
            loop.run_once(0.01)
            continue
        if not part:
            break
        data += part
    return data


def test_bytes_pass_both_ways(loop: Loop, joined: Joined) -> None:
    """As they are."""
    joined.client.sendall(b"to the gate\0\xff")
    joined.bridge.sendall(b"to the client\r\n")

    assert (receive(loop, joined.bridge, 13), receive(loop, joined.client, 15)) == (
        b"to the gate\0\xff",
        b"to the client\r\n",
    )


def in_pieces(end: socket.socket, data: bytes) -> threading.Thread:
    """Somebody who sends much at a time, and then has no more to say."""

    def send() -> None:
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("kernel", ["hands on", "cannot from there", "cannot to there"])
def test_much_of_it_passes_as_it_is_on_every_kernel(
    loop: Loop, joined: Joined, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """In bulk the kernel hands it on; what a reader does not take at once is kept, in its order."""
    real, calls = os.splice, [0, 0]

    def splice(source: int, target: int, count: int, flags: int) -> int:
        is_out = source == pump._PIPE[0]
        calls[is_out] += 1
        if kernel == ("cannot to there" if is_out else "cannot from there"):
            raise OSError(errno.EINVAL, "not here")
        return real(source, target, count, flags=flags)

    monkeypatch.setattr(os, "splice", splice)
    data = random.Random(3).randbytes(12_000_000)
    sender = in_pieces(joined.bridge, data)
    heard = receive(loop, joined.client, len(data) + 1)
    sender.join()

    assert heard == data
    assert (calls[0] > 1) == (kernel == "hands on")


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WITHOUT_ROOM = """
import contextlib, fcntl, os, sys
from gate import pump
if os.geteuid() == 0:
    # A user that no other process is: the room is the user's.
    user = (1 << 31) + os.getpid()
    os.setresuid(user, user, user)
with contextlib.suppress(PermissionError):
    while True:
        fcntl.fcntl(os.pipe()[1], fcntl.F_SETPIPE_SZ, 1 << 20)
pump.prepare()
print(len(pump._PIPE))
"""


def test_where_no_room_for_pipes_is_left_it_is_copied(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe of the smallest size would move less at a time than a copy does."""
    argv = (sys.executable, "-c", WITHOUT_ROOM)
    shared = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (shared.stdout, shared.stderr) == ("0\n", "")

    monkeypatch.setattr(pump, "_PIPE", [])
    monkeypatch.setattr(os, "splice", None)
    without = Joined(loop)
    data = random.Random(5).randbytes(3_000_000)
    sender = in_pieces(without.bridge, data)
    heard = receive(loop, without.client, len(data) + 1)
    sender.join()
    without.close()
    turn(loop, lambda: without.pump.closed)

    assert heard == data


def test_what_comes_from_the_agents_side_is_always_copied(
    loop: Loop, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel hands on unread could still be changed by whoever has sent it."""
    monkeypatch.setattr(os, "splice", None)
    data = random.Random(4).randbytes(3_000_000)
    sender = in_pieces(joined.client, data)
    heard = receive(loop, joined.bridge, len(data) + 1)
    sender.join()

    assert heard == data


def test_nothing_is_left_in_the_pipe_of_a_client_that_went_away(loop: Loop) -> None:
    """All pumps share it: what one leaves behind would be said to another's client."""
    one, other = Joined(loop), Joined(loop)
    one.bridge.setblocking(False)
    for _ in range(50):
        with contextlib.suppress(BlockingIOError):
            one.bridge.send(b"secret" * 100_000)
        loop.run_once(0.01)
    one.client.close()
    turn(loop, lambda: one.pump.closed)
    sender = in_pieces(other.bridge, b"x" * 3_000_000)

    assert receive(loop, other.client, 3_000_001) == b"x" * 3_000_000
    sender.join()
    one.close()
    other.close()
    turn(loop, lambda: other.pump.closed)


def test_what_came_with_the_gates_answer_comes_first(loop: Loop) -> None:
    """A server that speaks first may have done so before the pump was there."""
    joined = Joined(loop, first=b"SSH-2.0-x\r\n")
    joined.bridge.sendall(b"more")

    assert receive(loop, joined.client, 15) == b"SSH-2.0-x\r\nmore"
    joined.close()
    turn(loop, lambda: joined.pump.closed)


def test_an_end_is_passed_on_and_the_other_direction_stays(loop: Loop, joined: Joined) -> None:
    """`shutdown` of one side is an end of file at the other, which may still answer."""
    joined.client.sendall(b"question")
    joined.client.shutdown(socket.SHUT_WR)

    assert receive(loop, joined.bridge, 100) == b"question"
    joined.bridge.sendall(b"answer")
    joined.bridge.shutdown(socket.SHUT_WR)
    assert receive(loop, joined.client, 100) == b"answer"
    turn(loop, lambda: joined.done == 1)


def test_the_gates_end_is_passed_on_too(loop: Loop, joined: Joined) -> None:
    """The same the other way round."""
    joined.bridge.sendall(b"answer")
    joined.bridge.shutdown(socket.SHUT_WR)

    assert receive(loop, joined.client, 100) == b"answer"
    joined.client.sendall(b"late question")
    joined.client.close()
    assert receive(loop, joined.bridge, 100) == b"late question"
    turn(loop, lambda: joined.done == 1)


def test_both_sockets_are_closed_when_all_is_said(loop: Loop, joined: Joined) -> None:
    """Once, and not before."""
    joined.client.close()
    joined.bridge.close()
    turn(loop, lambda: joined.done == 1)

    assert [end.fileno() for end in joined.ends] == [-1, -1]


def test_a_reset_is_passed_on_as_a_reset(loop: Loop, joined: Joined) -> None:
    """A client can tell a broken transfer from a complete one."""
    joined.client.sendall(b"nobody reads this")
    turn(loop, lambda: bool(select.select([joined.bridge], [], [], 0)[0]))
    # A unix socket that is closed with something unread in it is reset.
    joined.bridge.close()
    turn(loop, lambda: joined.done == 1)

    with pytest.raises(ConnectionResetError):
        joined.client.recv(100)


def test_a_client_that_resets_ends_its_connection_to_the_gate(loop: Loop, joined: Joined) -> None:
    """So that the gate does not go on for nobody."""
    refuse(joined.client)
    turn(loop, lambda: joined.done == 1)

    assert joined.bridge.recv(10) == b""


def test_a_slow_reader_slows_its_writer_down(loop: Loop, joined: Joined) -> None:
    """Nothing is read that cannot be passed on; then everything arrives, in order."""
    data = os.urandom(1 << 16) * 512
    joined.bridge.setblocking(False)
    sent = 0
    quiet_turns = 0
    while quiet_turns < 20:
        try:
            sent += joined.bridge.send(data[sent:])
            quiet_turns = 0
        except BlockingIOError:
            quiet_turns += 1
            loop.run_once(0.01)
    assert 0 < sent < len(data)
    # In bulk the kernel hands on up to so much at a time.
    assert len(joined.pump._one.pending) <= pump.HANDED_ON_BYTES

    received = b""
    while len(received) < len(data):
        if sent < len(data):
            with contextlib.suppress(BlockingIOError):
                sent += joined.bridge.send(data[sent:])
        received += receive(loop, joined.client, 1)
    assert received == data


def test_a_pair_that_waits_for_a_slow_reader_costs_nothing(loop: Loop, joined: Joined) -> None:
    """A hang-up on the side that may not be read is no event: the loop would spin on it."""
    joined.bridge.setblocking(False)
    filler = b"x" * (1 << 20)
    quiet_turns = 0
    while quiet_turns < 20:
        try:
            joined.bridge.send(filler)
            quiet_turns = 0
        except BlockingIOError:
            quiet_turns += 1
            loop.run_once(0.01)
    joined.bridge.close()
    loop.run_once(0.01)

    began = time.process_time()
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        loop.run_once(0.3)
    assert time.process_time() - began < 0.1


def test_a_silent_pair_stays(loop: Loop, joined: Joined) -> None:
    """No timer is ever set for it, so a stream that says nothing for an hour goes on."""
    joined.client.sendall(b"hello")
    assert receive(loop, joined.bridge, 5) == b"hello"

    assert loop._first_timers() == []


def test_a_last_answer_arrives_though_the_client_has_sent_what_nobody_read(loop: Loop) -> None:
    """A plain close would reset the connection and take the answer along."""
    client, end = tcp_pair()
    done: list[bool] = []
    client.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 100_000)
    Farewell(loop, end, b"HTTP/1.1 403 Forbidden\r\n\r\nno\n", lambda: done.append(True))

    assert receive(loop, client, 1000) == b"HTTP/1.1 403 Forbidden\r\n\r\nno\n"
    client.close()
    turn(loop, lambda: bool(done))
    assert (done, end.fileno()) == ([True], -1)


def test_a_client_that_never_leaves_is_left_behind(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for a last answer is bounded."""
    monkeypatch.setattr("gate.pump.FAREWELL_SECONDS", 0.05)
    client, end = tcp_pair()
    done: list[bool] = []
    Farewell(loop, end, b"no\n", lambda: done.append(True))
    turn(loop, lambda: bool(done))

    assert end.fileno() == -1
    client.close()


def test_a_refusal_is_a_reset() -> None:
    """Port checkers call a connection that was closed in order a success."""
    client, end = tcp_pair()
    refuse(end)

    with pytest.raises(OSError) as caught:
        client.recv(10)
    assert caught.value.errno == errno.ECONNRESET
    client.close()


def test_timers_run_in_their_order_and_not_when_cancelled(loop: Loop) -> None:
    """Whatever their durations."""
    ran: list[str] = []
    loop.after(0.5, lambda: ran.append("second"))
    loop.after(0.01, lambda: ran.append("first"))
    loop.after(0.01, lambda: ran.append("cancelled")).cancel()
    turn(loop, lambda: len(ran) == 2)

    assert ran == ["first", "second"]


def test_a_handler_that_was_forgotten_in_the_same_round_is_not_called(loop: Loop) -> None:
    """One handler may close the connection of another."""
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def handler(index: int) -> Callable[[int], None]:
        def on_event(_events: int) -> None:
            called.append(index)
            for mine, _ in pairs:
                loop.forget(mine.fileno())

        return on_event

    for index, (mine, other) in enumerate(pairs):
        loop.watch(mine.fileno(), READ, handler(index))
        other.send(b"x")
    loop.run_once(0.1)

    assert len(called) == 1
    for pair in pairs:
        for end in pair:
            end.close()
