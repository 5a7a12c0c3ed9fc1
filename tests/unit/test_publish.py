"""`--publish`: what may be asked for, what is said of it, and the way from a port of the host to a server inside."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aisb.cli.request import read_request
from aisb.cli.splitter import split
from aisb.domain.config_file import parse_config
from aisb.domain.layers import PROJECT, USER, Layer, Setting, check_project
from aisb.domain.publish import TAKEN_INSIDE, Published, parse_published
from aisb.effects import host_ports
from aisb.effects.host_ports import forwarder_argv, host_doors, need_free_ports
from aisb.effects.session import Session
from aisb.errors import Unavailable, UsageError
from aisb.render.lines import published_lines
from gate import guests, offers, relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gate.loop import Loop

VERBS = frozenset({"run", "serve", "learn"})
SECONDS = 30.0
ROOT = str(Path(__file__).parents[2])
OFFERS = """
import sys
sys.path.insert(0, sys.argv[1])
from gate.loop import Loop
from gate.offers import serve
loop = Loop()
serve(loop, sys.argv[2])
loop.run()
"""


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (["0.0.0.0:8080:3000"], "a server is published on 127.0.0.1 and nowhere else", "write: --publish 8080:3000"),
        (["[::]:8080:3000"], "a server is published on 127.0.0.1 and nowhere else", "write: --publish 8080:3000"),
        (["192.168.1.7:80:80"], "a server is published on 127.0.0.1 and nowhere else", "write: --publish 8080:80"),
        (["localhost:3000"], "a server is published on 127.0.0.1 and nowhere else", "write: --publish 3000:3000"),
        (["0:3000"], "the ports of this machine below 1024 are not yours to take", "write: --publish 3000:3000"),
        (["0"], "is no port, nor two", "write: --publish 8080:3000, or"),
        (["443"], "the ports of this machine below 1024 are not yours to take", "write: --publish 8443:443"),
        (["65536"], "ports end at 65535", "write: --publish 8080:3000, or"),
        (["8080:3129"], "port 3129 of a sandbox is aisb's own", "have the server inside take another"),
        (["8080/udp"], "is no port, nor two", "write: --publish 8080:3000, or"),
        (["8080:0"], "is no port, nor two", "write: --publish 8080:3000, or"),
        (["8080:80", "8080:81"], "port 8080 of this machine leads to port 80 inside already", "ports of its own"),
        (["8080:80", "8081:80"], "port 80 inside is at 127.0.0.1:8080 already", "leave one of the two out"),
    ],
)
def test_what_cannot_be_published_is_refused_with_what_can(flags: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_published([Setting(text, "--publish") for text in flags])

    assert message in raised.value.message
    assert hint in (raised.value.hint or "")


def test_the_relays_own_ports_are_known() -> None:
    """And what else stands in two places: aisb's code is not in the images."""
    assert TAKEN_INSIDE == (relay.EXPLICIT_PORT, relay.TRANSPARENT_PORT, relay.DNS_PORT)
    assert (guests.COME, guests.MOST_AT_HAND) == (offers.COME, offers.AT_HAND)
    assert Session("0a", "").published.endswith("/run" + relay.PUBLISHED.removeprefix("/run/aisb"))


def test_a_start_says_where_a_server_will_be() -> None:
    assert published_lines([Published(8080, 80), Published(3000, 3000)]) == (
        "127.0.0.1:8080 of this machine leads to port 80 inside",
        "127.0.0.1:3000 of this machine leads to port 3000 inside",
    )


@pytest.mark.parametrize("kind", [USER, PROJECT])
def test_no_file_and_no_variable_publishes_anything(kind: str) -> None:
    """A project's own least of all: only who types the flag knows what is to be seen on this machine."""
    with pytest.raises(UsageError, match="publish"):
        parse_config(b"publish: ['3000']\n", ".ai-sandbox/config.yaml", kind)
    layer = Layer(kind, {}, {"publish": (Setting("3000", ".ai-sandbox/config.yaml:1"),)})
    if kind == PROJECT:
        with pytest.raises(UsageError, match="not for a project to set"):
            check_project(layer, ())
    typed = split(["--net", "none"], frozenset({"run"}))
    assert read_request(typed, {"AISB_PUBLISH": "3000"}).wanted.publish == ()
    for words in (["run"], ["serve"], ["learn"]):
        line = split(
            [*words, "--allow", "a.test", "--publish", "3000", *(["--", "true"] if words == ["learn"] else [])], VERBS
        )
        assert read_request(line, {}).wanted.publish == (Published(3000, 3000),)


def aisb(home: Path, *flags: str) -> tuple[int, str, str]:
    """A preview, which starts nothing and looks at no port."""
    argv = [sys.executable, "-m", "aisb", *flags]
    environ = {"HOME": str(home), "PATH": os.defpath, "XDG_RUNTIME_DIR": str(home), "PYTHONPATH": ROOT}
    project = home / "p"
    project.mkdir(exist_ok=True)
    done = subprocess.run(argv, cwd=project, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_previews_tell_what_is_published_and_gates_know_nothing_of_it(tmp_path: Path) -> None:
    """Two runs that differ in nothing else share a gate."""
    line = ("--allow", "a.test", "--print-policy", "--dry-run")
    code, shown, errors = aisb(tmp_path, "--publish", "127.0.0.1:8080:80", "--publish=3000", *line)
    other = aisb(tmp_path, "--publish", "8080:81", *line)[1]

    assert code == 0, errors
    printed = [text for text in shown.splitlines() if text.startswith("publish.")]
    assert printed == [
        "publish.0=127.0.0.1:8080:80",
        "publish.0.origin=--publish",
        "publish.1=127.0.0.1:3000:3000",
        "publish.1.origin=--publish",
    ]
    assert "# beside it: a process that leads 127.0.0.1:8080 to port 80 inside\n" in shown
    gates = [re.findall(r"aisb-gate-[0-9a-f]{12}", text)[0] for text in (shown, other)]
    assert gates[0] == gates[1]


def test_a_port_that_leads_out_again_is_not_published(tmp_path: Path) -> None:
    """Its client would come back to the port that it has dialled, again and again."""
    code, shown, errors = aisb(tmp_path, "--publish", "8080", "--allow", "a.test,host:8080", "--print-policy")

    assert (code, shown) == (2, "")
    assert "--publish 8080:8080: port 8080 inside leads to this machine (--allow 'host:8080')" in errors
    assert aisb(tmp_path, "--publish", "8080:80", "--allow", "host:8080", "--print-policy")[0] == 0


# --- the way ------------------------------------------------------------------------------------------


def free_port() -> int:
    """One that no program is given by chance: those begin at 32768. Far from where a test beside this one looks."""
    for port in range(20000 + os.getpid() * 101 % 9000, 32000):
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def serve(address: str, port: int = 0) -> socket.socket:
    """A server inside, which shares this machine's loopback here."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, backlog=128)
    listener.settimeout(SECONDS)
    return listener


def dial(port: int) -> socket.socket:
    """A client on the host."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def is_turned_away(client: socket.socket) -> bool:
    """Whether the connection is closed, in whichever way."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def finds_nobody(port: int) -> bool:
    """Whether a client is turned away, be it while it still connects."""
    try:
        with dial(port) as client:
            return is_turned_away(client)
    except ConnectionResetError:
        return True


def answer(peer: socket.socket) -> None:
    """A server's side of one client: three bytes, the other way round."""
    peer.settimeout(SECONDS)
    peer.sendall(peer.recv(3, socket.MSG_WAITALL)[::-1])


def read_all(peer: socket.socket) -> bytes:
    data = bytearray()
    while piece := peer.recv(1 << 16):
        data += piece
    return bytes(data)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "run").mkdir()
    return Session("0a", str(tmp_path))


@contextlib.contextmanager
def sandbox(session: Session) -> Iterator[None]:
    """What the relay does of it, in a process of its own."""
    argv = [sys.executable, "-S", "-c", OFFERS, ROOT, session.published]
    with subprocess.Popen(argv) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_client_of_the_host_reaches_the_server_inside(session: Session, address: str) -> None:
    """Every byte both ways, more than any buffer holds; who has said all may still listen, on either side."""
    data = random.Random(8).randbytes(8 << 20)
    with serve(address) as server:
        item = Published(free_port(), server.getsockname()[1])
        with host_doors(session, (), (item,)), sandbox(session), dial(item.host) as client:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(SECONDS)
                sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
                sender.start()
                assert read_all(peer) == data
                sender.join()
                sender = threading.Thread(target=lambda: (peer.sendall(data[::-1]), peer.shutdown(socket.SHUT_WR)))
                sender.start()
                assert read_all(client) == data[::-1]
                sender.join()


def test_where_nobody_listens_inside_a_client_is_turned_away_and_the_next_one_is_not(session: Session) -> None:
    """At once, however often; a server may come later, and one that speaks first is heard."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        item = Published(free_port(), reserved.getsockname()[1])
        with host_doors(session, (), (item,)), sandbox(session):
            for _ in range(3 * guests.MOST_AT_HAND):
                assert finds_nobody(item.host)
            reserved.listen()
            reserved.settimeout(SECONDS)
            with dial(item.host) as client:
                peer, _ = reserved.accept()
                with peer:
                    peer.sendall(b"220 hello")
                    assert client.recv(9) == b"220 hello"


def test_many_clients_at_once_are_each_served(session: Session) -> None:
    """Also beside many that say nothing, which hold their own places and nobody else's."""
    with serve("127.0.0.1") as server, contextlib.ExitStack() as stack:
        item = Published(free_port(), server.getsockname()[1])
        stack.enter_context(host_doors(session, (), (item,)))
        stack.enter_context(sandbox(session))
        silent = [stack.enter_context(dial(item.host)) for _ in range(50)]
        clients = [stack.enter_context(dial(item.host)) for _ in range(50)]
        peers = [stack.enter_context(server.accept()[0]) for _ in range(len(silent) + len(clients))]
        for number, client in enumerate(clients):
            client.sendall(b"%03d" % number)
        # Whose turn it is when is chance.
        speakers = [threading.Thread(target=answer, args=(peer,)) for peer in peers]
        for speaker in speakers:
            speaker.start()
        heard = [client.recv(3, socket.MSG_WAITALL) for client in clients]
        assert heard == [(b"%03d" % number)[::-1] for number in range(len(clients))]
        for client in silent:
            client.close()
        for speaker in speakers:
            speaker.join()


def test_the_port_is_closed_when_the_run_ends_and_can_be_had_again_at_once(session: Session, tmp_path: Path) -> None:
    """Though its last clients have left something behind."""
    with serve("127.0.0.1") as server:
        item = Published(free_port(), server.getsockname()[1])
        with host_doors(session, (), (item,)), sandbox(session), dial(item.host) as client:
            peer, _ = server.accept()
            # Whoever ends first has the port for a minute more.
            peer.close()
            assert is_turned_away(client)
        with pytest.raises(ConnectionRefusedError):
            dial(item.host)
        (tmp_path / "second/run").mkdir(parents=True)
        with host_doors(Session("0b", f"{tmp_path}/second"), (), (item,)):
            dial(item.host).close()


def test_a_port_that_is_taken_is_said_before_anything_begins(session: Session) -> None:
    """And where it is taken in between, nothing is left."""
    with serve("127.0.0.1") as other:
        item = Published(other.getsockname()[1], 3000)
        for attempt in (lambda: need_free_ports([item]), lambda: host_doors(session, (), (item,)).__enter__()):
            with pytest.raises(Unavailable, match=f"nothing can listen on 127.0.0.1:{item.host} .*in use") as raised:
                attempt()
            assert f"ss -ltnp 'sport = :{item.host}'" in (raised.value.hint or "")
    need_free_ports([item])


def test_the_sandbox_sees_the_sockets_and_nobody_else_does(session: Session) -> None:
    """In what is mounted read-only, each for its port; on the host the directories above are the caller's alone."""
    item = Published(free_port(), 3000)
    with host_doors(session, (), (item,)):
        assert os.listdir(session.published) == ["3000"]
        assert [os.stat(path).st_mode & 0o777 for path in (session.published, f"{session.published}/3000")] == [
            0o755,
            0o666,
        ]
        assert not os.path.exists(session.doors)
    assert forwarder_argv((22,), (item,))[6:] == ("22", item.text())


# --- a sandbox that is not as it should be ------------------------------------------------------------


class Rig:
    """aisb's side, turned by hand: a published port, and the socket that the sandbox connects to."""

    def __init__(self, loop: Loop, directory: Path, room: guests.Room) -> None:
        self.loop = loop
        self.door = f"{directory}/3000"
        self._listener = serve("127.0.0.1")
        self._door = host_ports._door(self.door, 0o600, host_ports._OFFERS)
        self.port = self._listener.getsockname()[1]
        self._published = guests.Published(loop, self._listener, self._door, room)

    def turn(self, until: Callable[[], bool] = lambda: False, seconds: float = SECONDS) -> None:
        """Turn the loop until something holds."""
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            self.loop.run_once(0.01)

    def connect(self) -> socket.socket:
        """The agent's own connection, with no relay between."""
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(self.door)
        except OSError:
            client.close()
            raise
        return client

    def close(self) -> None:
        """Let go of everything: in a run the process ends."""
        for socket_of in (self._listener, self._door, *self._published._at_hand.values()):
            self.loop.forget(socket_of.fileno())
            socket_of.close()


@pytest.fixture
def room() -> guests.Room:
    return guests.Room(4)


@pytest.fixture
def rig(loop: Loop, tmp_path: Path, room: guests.Room) -> Iterator[Rig]:
    with contextlib.closing(Rig(loop, tmp_path, room)) as rig:
        yield rig


def has_word(client: socket.socket) -> bool:
    """Whether something can be read, an end too."""
    try:
        client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has closed it; what it said before is dropped."""
    try:
        while client.recv(100):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_of_ten_thousand_idle_connections_a_few_are_taken_in(rig: Rig) -> None:
    """The kernel keeps as many as its queue holds, and the others are not even begun."""
    before = descriptors()
    opened: list[socket.socket] = []
    with contextlib.suppress(BlockingIOError):
        while len(opened) < 10000:
            opened.append(rig.connect())
    assert len(opened) < 100
    rig.turn(lambda: descriptors() - before - len(opened) >= guests.MOST_AT_HAND, seconds=2)
    rig.turn(seconds=0.1)
    assert descriptors() - before - len(opened) <= guests.MOST_AT_HAND
    for client in opened:
        client.close()


def test_who_speaks_unasked_is_dropped_and_his_place_stays_taken_for_a_while(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a sandbox cannot keep us busy; and what it says goes nowhere."""
    monkeypatch.setattr(guests, "PENALTY_SECONDS", 3600)
    junk = [rig.connect() for _ in range(5 * guests.MOST_AT_HAND)]
    for client in junk:
        client.sendall(b"+GET http://127.0.0.1:22/ HTTP/1.1\r\n\r\n" * 100)
    rig.turn(lambda: sum(map(is_closed, junk)) >= guests.MOST_AT_HAND)
    rig.turn(seconds=0.2)
    assert sum(map(is_closed, junk)) == guests.MOST_AT_HAND
    for client in junk:
        client.close()


@pytest.mark.parametrize("answer", [b"-", b"\0", b"HTTP/1.1 200 OK\r\n\r\n" * 5000, b""], ids=["-", "0", "long", "end"])
def test_an_answer_that_is_no_yes_ends_it(rig: Rig, room: guests.Room, answer: bytes) -> None:
    """The guest hears nothing of what the sandbox said, and everything is let go of."""
    before = descriptors()
    offer = rig.connect()
    client = dial(rig.port)
    rig.turn(lambda: has_word(offer))
    assert offer.recv(10) == guests.COME
    with contextlib.suppress(BlockingIOError):
        offer.send(answer)
    if not answer:
        offer.shutdown(socket.SHUT_WR)
    rig.turn(lambda: room.guests == 0)
    assert room.guests == 0
    assert is_turned_away(client)
    offer.close()
    client.close()
    rig.turn(lambda: descriptors() == before, seconds=2)
    assert descriptors() == before


def test_nobody_waits_for_ever(rig: Rig, room: guests.Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a sandbox that offers nothing nor for one that does not answer; and there is room for no more than that."""
    monkeypatch.setattr(guests, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr(guests, "ANSWER_SECONDS", 0.2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(dial(rig.port)) for _ in range(6)]
        rig.turn(lambda: room.guests == 4)
        # Two found no room.
        rig.turn(lambda: room.guests == 0)
        assert all(map(is_turned_away, clients))
        offer = stack.enter_context(rig.connect())
        rig.turn(seconds=0.05)
        late = stack.enter_context(dial(rig.port))
        rig.turn(lambda: has_word(offer))
        rig.turn(lambda: room.guests == 0)
        assert is_turned_away(late)


def test_more_than_there_is_room_for_are_turned_away_at_once(rig: Rig, room: guests.Room) -> None:
    """And when one has gone, another is taken in."""
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(rig.connect()) for _ in range(5)]
        clients = [stack.enter_context(dial(rig.port)) for _ in range(4)]
        rig.turn(lambda: sum(map(has_word, ends)) == 4)
        with dial(rig.port) as fifth:
            fifth.setblocking(False)
            rig.turn(lambda: has_word(fifth))
            assert is_closed(fifth)
        for end in ends:
            if has_word(end):
                end.sendall(b"+")
        clients[0].close()
        for end in ends:
            end.shutdown(socket.SHUT_WR)
        rig.turn(lambda: room.guests < 4)
        assert room.guests < 4
    rig.turn(lambda: room.guests == 0)
