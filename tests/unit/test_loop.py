"""The loop's timers, and how it is shared."""

from __future__ import annotations

import errno
import os
import select

import pytest

from gate.limits import Bucket, Limits
from gate.loop import READ, WRITE, Loop


def test_a_hundred_thousand_waits_leave_no_queue_behind(loop: Loop) -> None:
    """Each turn looks at each queue."""
    bucket = Bucket(Limits(a_second=100_000.0, burst=1.0))
    ran: list[float] = []
    most = 0
    for _ in range(100):
        for _ in range(1000):
            seconds = bucket.claim()
            loop.after(seconds, lambda: ran.append(0.0))
        most = max(most, len(loop._timers))
        loop.run_once(0)
    while len(ran) < 100_000:
        loop.run_once(1)
    loop.run_once(0)

    assert most <= 250
    assert not loop._timers


def test_a_timer_that_is_cancelled_leaves_no_queue_behind(loop: Loop) -> None:
    loop.after(60.0, lambda: None).cancel()
    loop.run_once(0)

    assert not loop._timers


def test_a_part_of_a_loop_has_so_many_events_a_turn_and_none_of_them_starves(loop: Loop) -> None:
    part = loop.share(most=8)
    pipes = [os.pipe() for _ in range(100)]
    heard: list[int] = []
    others: list[int] = []
    for reader, writer in pipes:
        os.write(writer, b"x")
        part.watch(reader, READ, lambda _, reader=reader: heard.append(reader))  # type: ignore[misc]  # bound early
    own, writer = os.pipe()
    os.write(writer, b"x")
    loop.watch(own, READ, others.append)

    for turn in range(1, 14):
        loop.run_once(0)
        assert len(heard) <= 8 * turn
        assert len(others) == turn
    assert set(heard) == {reader for reader, _ in pipes}

    part.close()
    loop.run_once(0)
    assert len(heard) == 8 * 13
    for descriptor in (own, writer, *(end for pipe in pipes for end in pipe)):
        os.close(descriptor)


def test_a_part_s_timers_run_with_the_whole(loop: Loop) -> None:
    part = loop.share(most=8)
    ran: list[int] = []
    part.after(0.0, lambda: ran.append(1))
    loop.run_once(1)

    assert ran == [1]
    part.close()


def test_a_part_that_is_held_hears_of_everything_afterwards(loop: Loop) -> None:
    part = loop.share(most=8)
    reader, writer = os.pipe()
    heard: list[bytes] = []
    part.watch(reader, READ, lambda _: heard.append(os.read(reader, 9)))

    part.hold()
    os.write(writer, b"x")
    loop.run_once(0)
    assert heard == []
    part.go_on()
    loop.run_once(0)
    assert heard == [b"x"]

    part.hold()
    part.close()
    part.go_on()
    os.write(writer, b"x")
    loop.run_once(0)
    assert heard == [b"x"]
    os.close(reader)
    os.close(writer)


class FullKernel:
    """An epoll that has no room for another descriptor, so many times."""

    def __init__(self, code: int, times: int) -> None:
        self._code = code
        self._times = times
        self._real = select.epoll()
        self.poll, self.modify, self.unregister = self._real.poll, self._real.modify, self._real.unregister
        self.close = self._real.close

    def register(self, descriptor: int, events: int) -> None:
        """As the real one, or its error."""
        if self._times:
            self._times -= 1
            raise OSError(self._code, os.strerror(self._code))
        self._real.register(descriptor, events)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_what_the_kernel_has_no_room_for_is_watched_later(code: int) -> None:
    """The kernel counts by user what is waited for: a program of one sandbox could end the gate of all."""
    loop = Loop(FullKernel(code, times=3))  # type: ignore[arg-type]  # a kernel that is full cannot be had for one test
    kept, left = os.pipe(), os.pipe()
    heard: list[int] = []
    for _, writer in (kept, left):
        os.write(writer, b"x")

    loop.watch(kept[0], WRITE, heard.append)
    loop.watch(kept[0], READ, heard.append)
    loop.watch(left[0], READ, heard.append)
    loop.forget(left[0])
    while not heard:
        loop.run_once(1)
    loop.forget(kept[0])

    assert heard == [READ]
    loop.close()
    for descriptor in (*kept, *left):
        os.close(descriptor)


def test_another_fault_of_the_kernel_is_said() -> None:
    with pytest.raises(FileNotFoundError):
        Loop(FullKernel(errno.ENOENT, times=1)).watch(0, READ, lambda _: None)  # type: ignore[arg-type]  # see above
