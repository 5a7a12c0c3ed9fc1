"""
What the user says of a run while it lasts: put in force, proved, and ended when its time is over.

A denial counts here and in the helper at once, and ends the connections that it hits. What is allowed counts once
squid, which is shared by all runs of the gate, has its lists and a question on behalf of that run shows it.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.live import ALLOW, DENY, LiveEntry, alive, check_said, next_end, opened, read_entry, said
from aisb.domain.names import EXACT, PROBE_NAME, NameEntry, covering_lines
from gate.squid import Lists

if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.control import Reply
    from gate.loop import Loop
    from gate.runs import Run, Runs
    from gate.squid import Squid

LONGEST_SECONDS = 366 * 86400
# Timers here do not run while the machine sleeps; ends of permissions do. So the clock is looked at this often.
_CLOCK_SECONDS = 1.0
_FIRST_MARK = 20000
_MARKS = 40000


class _Reading(NamedTuple):
    """One time that squid has to read its lists: for which run, and who is to hear that it has."""

    run: str
    then: Callable[[str], None]


class Changes:
    """The words of the user about the runs of this gate."""

    def __init__(self, loop: Loop, runs: Runs, squid: Squid) -> None:
        self._loop = loop
        self._runs = runs
        self._squid = squid
        self._readings: deque[_Reading] = deque()
        self._is_reading = False
        self._marks = 0
        self._has_clock = False
        # Whether squid's lists hold what was said of a run that is over.
        self._is_wide = False

    def on_say(self, question: dict[str, object], reply: Reply) -> None:
        """
        Put entries in force for one run, and answer when that is proved. Raises ValueError for what cannot be meant.

        `refused` in the answer is why something cannot be done while a run lasts.
        """
        name = str(question.get("run"))
        run = self._runs.need(name)
        entries = _entries_of(question)
        engine = run.begun_with.with_live(run.said)
        refused = next((fault for entry in entries if (fault := engine.live_fault(entry))), "")
        if refused:
            reply({"ok": True, "refused": refused})
        elif all(entry.allows for entry in entries):
            self._allow(name, run, entries, reply)
        else:
            self._deny(name, run, entries, reply)

    def on_open(self, name: str, then: Callable[[str], None]) -> None:
        """A run has been opened: squid's lists are its own before it begins."""
        if self._is_wide:
            self._read(name, then)
        else:
            then("")

    def on_closed(self, entries: tuple[LiveEntry, ...]) -> None:
        """A run of which this had been said is over: squid does not need to hear of it any more."""
        if not any(opened(entries)):
            return
        self._is_wide = True
        others = self._runs.names()
        if others:
            self._read(others[0], lambda _fault: None)

    def _allow(self, name: str, run: Run, entries: list[LiveEntry], reply: Reply) -> None:
        before = run.said
        run.write_down(said(before, entries))

        def on_read(fault: str) -> None:
            if not self._is_open(name, run):
                reply({"ok": False, "error": f"run {name} ended meanwhile"})
            elif fault:
                # Others may have been said meanwhile, and stay.
                back = said((entry for entry in run.said if entry not in entries), ())
                run.said = back
                run.adopt(narrows=True)
                self._write_down(run)
                reply({"ok": False, "error": f"this could not be put in force, and was taken back: {fault}"})
            else:
                run.adopt(narrows=False)
                self._watch_clock()
                reply({"ok": True})

        self._read(name, on_read)

    def _deny(self, name: str, run: Run, entries: list[LiveEntry], reply: Reply) -> None:
        run.said = said(run.said, entries)
        closed = run.adopt(narrows=True)
        run.write_down(run.said)

        def on_read(fault: str) -> None:
            # By now squid has told of every request that had begun before.
            ended = closed + run.adopt(narrows=True)
            if fault and self._is_open(name, run):
                reply({"ok": False, "error": f"the gate refuses it, but squid could not be asked: {fault}"})
            else:
                reply({"ok": True, "closed": ended})

        self._read(name, on_read)

    def _is_open(self, name: str, run: Run) -> bool:
        return name in self._runs.names() and self._runs.need(name) is run

    def _write_down(self, run: Run) -> None:
        # What is narrower counts here whether the helper hears of it or not; ends of permissions it knows already.
        with contextlib.suppress(OSError):
            run.write_down(run.said)

    def _read(self, name: str, then: Callable[[str], None]) -> None:
        self._readings.append(_Reading(name, then))
        self._next()

    def _next(self) -> None:
        if self._is_reading or not self._readings:
            return
        reading = self._readings.popleft()
        try:
            run = self._runs.need(reading.run)
            port = self._mark(run)
            run.write_down(run.said, (LiveEntry(ALLOW, PROBE_NAME, EXACT, (port,)),))
        except (OSError, ValueError) as error:
            reading.then(str(error))
            self._next()
            return
        self._is_reading = True

        def on_read(fault: str) -> None:
            self._is_reading = False
            self._runs.go_on()
            if not fault:
                self._is_wide = False
            reading.then(fault)
            self._next()

        # squid refuses what it has asked the judge when it reads its configuration: nothing new may come to that.
        self._runs.hold()
        self._squid.read_anew(self._lists(port), reading.run, port, on_read)

    def _mark(self, run: Run) -> int:
        """A port that nothing else opens, another one each time."""
        taken = run.begun_with.ports | set(self._lists(0).ports)
        while True:
            self._marks += 1
            port = _FIRST_MARK + self._marks % _MARKS
            if port not in taken:
                return port

    def _lists(self, mark: int) -> Lists:
        """What has been opened in any run: squid does not know them apart, the helper does."""
        entries = [entry for name in self._runs.names() for entry in opened(self._runs.need(name).said)]
        names = covering_lines(NameEntry(entry.host, entry.match, entry.ports) for entry in entries)
        return Lists(names, tuple(sorted({mark, *(port for entry in entries for port in entry.ports)})))

    def _watch_clock(self) -> None:
        ends = [end for name in self._runs.names() if (end := next_end(self._runs.need(name).said))]
        if ends and not self._has_clock:
            self._has_clock = True
            self._loop.after(max(0.0, min(min(ends) - seconds_since_boot(), _CLOCK_SECONDS)), self._look_at_clock)

    def _look_at_clock(self) -> None:
        self._has_clock = False
        now = seconds_since_boot()
        for name in self._runs.names():
            run = self._runs.need(name)
            left = alive(run.said, now)
            if left != run.said:
                run.said = left
                run.adopt(narrows=True)
                self._write_down(run)
                self._read(name, lambda _fault, run=run: run.adopt(narrows=True))  # type: ignore[misc]  # the run of this turn
        self._watch_clock()


def seconds_since_boot() -> float:
    """The clock of `--for`: it runs while the machine sleeps, and nobody sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _entries_of(question: dict[str, object]) -> list[LiveEntry]:
    items, seconds = question.get("entries"), question.get("seconds", 0)
    if not isinstance(items, list) or not items:
        raise ValueError("nothing is said")
    if type(seconds) is not int or not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"this is no time: 1 to {LONGEST_SECONDS} seconds, or 0 for as long as the run lasts")
    entries = [check_said(read_entry(item)) for item in items]
    if len({entry.action for entry in entries}) > 1 or (seconds and entries[0].action == DENY):
        raise ValueError("entries are allowed together, or denied together and for good")
    until = seconds_since_boot() + seconds if seconds else 0.0
    return [entry._replace(until=until) for entry in entries]
