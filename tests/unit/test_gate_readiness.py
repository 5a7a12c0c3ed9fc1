"""The one line on which a gate says that it is ready."""

from __future__ import annotations

import os

from gate.readiness import Readiness


def test_the_first_word_is_said_and_the_pipe_let_go() -> None:
    reader, writer = os.pipe()
    readiness = Readiness(writer)
    readiness.say("ready")
    readiness.say("failed later")

    assert (os.read(reader, 100), os.read(reader, 100)) == (b"ready\n", b"")
    os.close(reader)


def test_a_number_that_is_somebody_elses_by_now_is_left_alone() -> None:
    reader, writer = os.pipe()
    other_reader, other_writer = os.pipe()
    readiness = Readiness(writer)
    readiness.say("ready")
    os.dup2(other_writer, writer)
    readiness.say("failed later")

    os.close(other_writer)
    os.close(writer)
    assert os.read(other_reader, 100) == b""
    os.close(reader)
    os.close(other_reader)


def test_without_a_pipe_nothing_is_said_and_nothing_closed() -> None:
    with open("/dev/null", "w", encoding="ascii") as file:
        Readiness(file.fileno()).say("ready")
        file.write("still open")
    Readiness(9999).say("ready")


def test_a_listener_that_has_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    readiness = Readiness(writer)
    os.close(reader)

    readiness.say("ready")
