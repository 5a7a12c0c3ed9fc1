"""A client that leaves while there is no sandbox yet."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from typing import NamedTuple

import pytest

from aisb.domain.frames import Frame, Reader, encode

# A start that never ends by itself; one that takes in no signal for a while, as a gate's does.
START = """
import sys, threading
from aisb.cli.serve import lent
from aisb.effects.serve import Service
from aisb.effects.signals import interrupt_postponed

def start():
    if sys.argv[1] == "postponed":
        with interrupt_postponed():
            while not service.is_over():
                threading.Event().wait(0.01)
            threading.Event().wait(0.2)
    threading.Event().wait()

class Slow(Service):
    def begin(self):
        super().begin()
        while sys.argv[1] == "at once" and not self.is_over():
            threading.Event().wait(0.01)
        # For as long as the signal needs that is to end the start.
        threading.Event().wait(0.2 if sys.argv[1] == "at once" else 0)

service = Slow(lambda *_: {}, lambda *_: None)
sys.exit(lent(service, start))
"""
# One for which there is no sandbox, whose client leaves while that is said.
FAILING = """
import sys, threading
from aisb.cli.serve import lent
from aisb.effects.serve import Service
from aisb.errors import AisbError, Unavailable

def start():
    raise Unavailable("there is no podman")

service = Service(lambda *_: {}, lambda *_: None)
try:
    lent(service, start)
except AisbError as error:
    while not service.is_over():
        threading.Event().wait(0.01)
    # A signal of our own would have come by then.
    threading.Event().wait(0.2)
    sys.exit(error.exit_code)
"""
# A sandbox that is there, and goes when its client has gone.
READY = """
import os, sys, threading
from aisb.domain.frames import Frame, Reader, encode
from aisb.effects.serve import Service
from aisb.effects.session import session_at
from aisb.effects.supervise import Outcome

service = Service(lambda *_: {}, lambda *_: None)
descriptors = service.lend(session_at("/nonexistent", "1a2b3c4d"))
os.write(descriptors[1], encode(Frame({"jsonrpc": "2.0", "method": "ready", "params": {"protocol": 1}})))
service.begin()
while not service.is_over():
    threading.Event().wait(0.001)
for descriptor in descriptors:
    os.close(descriptor)
service.wants_another(Outcome(137, {}, ""))
sys.exit(service.exit_code(137))
"""
# A sandbox that is there until we are told to end.
TOLD = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
from aisb.domain.frames import Frame, encode
from aisb.effects.serve import Service
from aisb.effects.session import session_at
from aisb.effects.supervise import Outcome

service = Service(lambda *_: {}, lambda *_: None)
descriptors = service.lend(session_at("/nonexistent", "1a2b3c4d"))
os.write(descriptors[1], encode(Frame({"jsonrpc": "2.0", "method": "ready", "params": {"protocol": 1}})))
service.begin()
signal.sigwait({signal.SIGTERM})
for descriptor in descriptors:
    os.close(descriptor)
service.wants_another(Outcome(143, {}, "", was_told=True))
sys.exit(service.exit_code(143))
"""
CANCEL = encode(Frame({"jsonrpc": "2.0", "method": "cancel", "params": {"id": 1}}))
# A request of that number.
UNKNOWN = encode(Frame({"jsonrpc": "2.0", "id": 1111, "method": "x"})).replace(b"1111", b"%d")
FRAME = b"\0\0\0\x02\0\0\0\0{}"
NO_FRAME = (2, -32700)
END = (0, None)


class Ended(NamedTuple):
    """The exit code, and that of the error frame."""

    code: int
    error: int | None


@pytest.mark.parametrize("before", ["", "trap '' INT; "], ids=["", "no ^C"])
@pytest.mark.parametrize("how", ["plain", "at once", "postponed"])
@pytest.mark.parametrize(
    ("said", "end"),
    [
        (b"", END), (b"\0\0\0", END), (FRAME[:9], END), (FRAME, END),
        (b"hello\n", NO_FRAME), (b"GET / HTTP/1.1\r\n\r\n", NO_FRAME), (FRAME + b"hello\n", NO_FRAME),
    ],
)  # fmt: skip
def test_the_end_of_a_client_is_the_same_before_there_is_a_sandbox(
    before: str, how: str, said: bytes, end: tuple[int, int | None]
) -> None:
    """Also where our caller ignores ^C, as a shell's `&` does: no end is a death by a signal of our own."""
    command = [sys.executable, "-c", START, how]
    done = subprocess.run(
        ["sh", "-c", f'{before}exec "$@"', "sh", *command], input=said, capture_output=True, check=False, timeout=20
    )
    error = json.loads(done.stdout[8:])["error"]["code"] if done.stdout else None

    assert Ended(done.returncode, error) == end


def test_a_client_that_leaves_when_it_is_told_that_there_is_no_sandbox_changes_nothing() -> None:
    """The code is that of the failure, and no signal of our own comes in between."""
    done = subprocess.run([sys.executable, "-c", FAILING], input=b"", capture_output=True, check=False, timeout=20)

    assert (done.returncode, json.loads(done.stdout[8:])["params"]["message"]) == (69, "there is no podman")


@pytest.mark.parametrize(("last", "code", "error"), [(b"", 0, None), (b"hello\n", 2, -32700)], ids=["", "no frame"])
def test_what_a_client_has_said_before_it_left_is_heard_to_its_end(last: bytes, code: int, error: int | None) -> None:
    """However much of it there is still to be read when its end is seen."""
    with subprocess.Popen(
        [sys.executable, "-c", READY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as serve:
        assert serve.stdout
        assert serve.stdin
        header, _ = struct.unpack(">II", serve.stdout.read(8))
        hello = json.loads(serve.stdout.read(header))["method"]
        serve.stdin.write(CANCEL * 700 + last)
        serve.stdin.close()
        said = serve.stdout.read()
        errors = serve.stderr.read() if serve.stderr else b""
        ended = serve.wait(20)
    answer = json.loads(said[8:])["error"]["code"] if said else None

    assert (hello, ended, answer, errors) == ("hello", code, error, b"")


def test_a_gate_that_ends_while_its_sandbox_starts_is_told_once_that_is_there() -> None:
    """Nobody would know otherwise that what `hello` says of the network is no longer so."""
    text = READY.replace("os.write(", "service.gate_has_ended('it has ended')\nos.write(", 1)
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serve:
        assert serve.stdout
        assert serve.stdin
        frames = Reader()
        said: list[Frame] = []
        while len(said) < 2 and (data := os.read(serve.stdout.fileno(), 4096)):
            said += frames.feed(data)
            if [frame.header["method"] for frame in said] == ["hello"]:
                serve.stdin.close()
        serve.stdin.close()
        serve.wait(20)

    assert [frame.header["method"] for frame in said] == ["hello", "gate"]
    assert said[1].header["params"] == {"state": "ended", "message": "it has ended"}


def test_what_aisb_itself_cannot_do_just_now_is_answered() -> None:
    """Of all descriptors in use, for one, nobody heard: the request stayed open for ever."""
    text = READY.replace("lambda *_: {}", "lambda *_: os.open('/dev/null/x', 0)", 1)
    asked = encode(Frame({"jsonrpc": "2.0", "id": 1, "method": "allow", "params": {"entry": "a.test"}}))
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as serve:
        assert serve.stdout
        assert serve.stdin
        serve.stdin.write(asked)
        serve.stdin.flush()
        frames = Reader()
        said: list[Frame] = []
        while len(said) < 2 and select.select([serve.stdout], [], [], 20)[0]:
            said += frames.feed(os.read(serve.stdout.fileno(), 4096))
        serve.stdin.close()
        serve.wait(20)

    assert [frame.header.get("error") for frame in said[1:]] == [
        {"code": -32020, "message": "/dev/null/x: Not a directory", "data": {"exitCode": 69, "hint": ""}}
    ]


@pytest.mark.parametrize(("kind", "enough"), [("pipe", 60_000), ("socket", 10_000)])
@pytest.mark.parametrize(("text", "code"), [(READY, 0), (TOLD, 143)], ids=["end of file", "signal"])
def test_a_session_ends_also_where_its_client_reads_nothing_any_more(
    kind: str, enough: int, text: str, code: int
) -> None:
    """Whoever had the word waited to be heard, and the end for whoever had the word: `aisb stop` gave up."""
    ours, theirs = os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=theirs) as serve:
        try:
            os.close(theirs)
            assert serve.stdin
            while waiting(ours) == 0:
                time.sleep(0.01)
            # What is said of it is more than there is room for.
            serve.stdin.write(b"".join(UNKNOWN % number for number in range(1000, 2000)))
            serve.stdin.flush()
            while waiting(ours) < enough:
                time.sleep(0.01)
            if code:
                serve.send_signal(signal.SIGTERM)
            else:
                serve.stdin.close()
            assert serve.wait(20) == code
        finally:
            serve.kill()
            os.close(ours)


def waiting(descriptor: int) -> int:
    """How many bytes are there to be read."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
