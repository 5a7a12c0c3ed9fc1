"""A call to squid that cannot even be begun."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

from gate import ports
from gate.calling import Call
from gate.loop import Loop

if TYPE_CHECKING:
    from gate.ends import SquidEnd


def test_a_gate_without_descriptors_left_fails_the_call_and_lives() -> None:
    loop = Loop()
    heard: list[SquidEnd | None] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
    try:
        call = Call(loop, ports.EXPLICIT, b"", lambda squid, _: heard.append(squid))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for filler in fillers:
            os.close(filler)
    deadline = time.monotonic() + 10
    while not heard:
        assert time.monotonic() < deadline
        loop.run_once(0.1)

    assert heard == [None]
    call.cancel()
    loop.close()
