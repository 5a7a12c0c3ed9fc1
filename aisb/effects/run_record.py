"""
Write down what a run is and how it ends, in `run.json` of its record.

It is there from before anything is started, and says then that nothing is known of the end: so it does where aisb, or
the machine, goes down. Each change replaces the whole file.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from aisb.domain.printing import printable
from aisb.domain.run_record import AISB, COMMAND, KILLED, MEMORY, NOT_KNOWN, SIGNAL, TIMEOUT, UNKNOWN, VERSION, End
from aisb.effects.session import is_gone, this_process
from aisb.effects.signals import ended_in_order, number_of
from aisb.effects.state import make_private, read_if_there
from aisb.effects.supervise import EXEC, GRACE_SECONDS, TIMED_OUT
from aisb.errors import AisbError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisb.effects.supervise import Outcome

ABOUT = "run.json"
POLICY = "policy"
# What was said of files at the end, where that was more than a list of what changed.
FILES = "files"
_LONGEST_REASON = 2000
_UNSTARTED = {126: "there is such a command inside, and it cannot be executed", 127: "there is no such command inside"}
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGKILL)


Fields = dict[str, Any]


class RunRecord:
    """The record of one run: where it is, and what is in it so far."""

    def __init__(self, state: str, fields: Fields, policy: str = "", build_logs: Sequence[str] = ()) -> None:
        self.run = str(fields["run"])
        self._directory = f"{state}/runs/{self.run}"
        self._fields = fields
        self._policy = policy
        self._build_logs = build_logs
        # Why it could not be written, "" where it was.
        self.fault = ""

    @property
    def text(self) -> str:
        """What is known so far."""
        return record_text(self._fields)

    @property
    def is_over(self) -> bool:
        """Whether it says how the run ended."""
        return bool(self._fields["ended"])

    def begin(self) -> None:
        """Where it cannot be written now its end is another chance, and the last room on a disk is left to the run."""
        try:
            make_private(self._directory)
            self._write()
            _replace(f"{self._directory}/{POLICY}", self._policy)
            self._add_build_logs()
        except OSError:
            for remove, path in ((os.unlink, f"{self._directory}/{ABOUT}"), (os.rmdir, self._directory)):
                with suppress(OSError):
                    remove(path)

    def end(self, end: End) -> None:
        """Say how the run ended."""
        self._fields |= {"ended": moment(), "exit": end.exit, "by": end.by, "reason": end.reason[:_LONGEST_REASON]}
        try:
            make_private(self._directory)
            self._write()
        except OSError as error:
            self.fault = f"the record of run {self.run} is lost: {error}"

    def tell(self, lines: Sequence[str]) -> None:
        """Keep what has to be said of a project's files at the end, also where nobody hears it, and say where."""
        path = f"{self._directory}/{FILES}"
        reason = f"{self._fields['reason']}; what this machine may run has changed: {path}"
        try:
            make_private(self._directory)
            _replace(path, "".join(f"{printable(line)}\n" for line in lines))
            self._fields["reason"] = reason[:_LONGEST_REASON]
            self._write()
        except OSError as error:
            self.fault = self.fault or f"the record of run {self.run} is lost: {error}"

    def _add_build_logs(self) -> None:
        """Under the names of their images. One that is gone by now costs nothing else of the record."""
        for path in self._build_logs:
            # Few runs build anything.
            from aisb.effects.build_log import add_build_log

            with suppress(OSError):
                add_build_log(path, self._directory)

    def _write(self) -> None:
        _replace(f"{self._directory}/{ABOUT}", self.text)


def new_fields(
    run: str,
    project: str,
    command: str = "",
    *,
    image: str = "",
    net: str = "",
    gate: str | None = None,
    allows: int = 0,
    publish: Sequence[str] = (),
) -> Fields:
    """
    What a record says at a run's start.

    `command` is the command's first word: of its arguments each may be a secret. `gate` is the name of its gate, which
    stands for the policy: runs with the same one share it. `allows` is how many entries that has, `publish` are its
    ports, as HOST:PORT.
    """
    return {
        "version": VERSION,
        "run": run,
        "project": project,
        "command": command,
        "image": image,
        "net": net,
        "gate": gate,
        "allows": allows,
        "publish": list(publish),
        "owner": this_process(),
        "started": moment(),
        "ended": None,
        "exit": None,
        "by": UNKNOWN,
        "reason": NOT_KNOWN,
    }


def record_text(fields: Fields) -> str:
    """A record as it is written: a line of printable ASCII."""
    return json.dumps(fields) + "\n"


def read_fields(directory: str) -> Fields:
    """What a record says; nothing where it is none. Raises OSError where it cannot be read."""
    try:
        found = json.loads(read_if_there(f"{directory}/{ABOUT}") or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_running(fields: Fields) -> bool:
    """Whether the aisb of that run is there, and has not said yet how it ended."""
    owner = fields.get("owner")
    return not fields.get("ended") and isinstance(owner, str) and bool(owner) and not is_gone(owner)


def moment() -> str:
    """Now, as records say it."""
    # To the millisecond: of two that began in one second the later one is the last.
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"


@contextmanager
def on_record(record: RunRecord) -> Iterator[RunRecord]:
    """While the block runs, its run is on record; where it fails, or a signal ends it, as what."""
    with ended_in_order():
        record.begin()
        try:
            yield record
        except AisbError as error:
            record.end(End(error.exit_code, AISB, error.message))
            raise
        except KeyboardInterrupt as interrupt:
            # One that comes while all is tidied up changes nothing.
            if not record.is_over:
                code = 128 + number_of(interrupt)
                record.end(End(code, SIGNAL, f"ended by {_signal(code)} before its command began"))
            raise
        except BaseException as error:
            record.end(End(AisbError.exit_code, AISB, f"a fault of aisb's own: {type(error).__name__}"))
            raise


def mend(state: str, run: str) -> None:
    """Of a run whose aisb is gone, and with it what it knew: say when that was found."""
    directory = f"{state}/runs/{run}"
    with suppress(OSError):
        fields = read_fields(directory)
        if fields and not fields.get("ended"):
            _replace(f"{directory}/{ABOUT}", record_text(fields | {"ended": moment(), "by": UNKNOWN, "reason": KILLED}))


def tell_of_killed(state: str, run: str, lines: Sequence[str]) -> None:
    """As `tell`, of a run whose aisb is gone; nothing where that had told already, or there is no record."""
    directory = f"{state}/runs/{run}"
    mend(state, run)
    with suppress(OSError):
        fields = read_fields(directory)
        if fields and not os.path.lexists(f"{directory}/{FILES}"):
            RunRecord(state, fields).tell(lines)


def end_of(outcome: Outcome, *, has_left: bool = False) -> End:
    """
    How a run ended that had begun, in the words in which its user is told.

    `has_left` says that whoever the sandbox was lent to has ended the session.
    """
    try:
        code = outcome.exit_code()
    except AisbError as error:
        return End(error.exit_code, AISB, error.message)
    caps = f"; it met its caps: {', '.join(outcome.hits)}" if outcome.hits else ""
    if EXEC not in outcome.phases:
        return End(code, SIGNAL, f"ended by {_signal(code)} before its command began")
    if TIMEOUT in outcome.hits and code == TIMED_OUT:
        return End(code, TIMEOUT, "its time was over (--timeout)")
    if MEMORY in outcome.hits and code == 128 + signal.SIGKILL:
        return End(code, MEMORY, "the kernel killed it: its memory was used up (--memory)")
    if outcome.unwritten:
        return End(code, AISB if code == 1 else COMMAND, f"its output could not be written: {outcome.unwritten}")
    if has_left and not outcome.told_by:
        return End(0, COMMAND, "its client ended the session")
    if reason := _ended_from_outside(outcome, code):
        return End(code, SIGNAL, reason)
    if outcome.unstarted and outcome.unstarted == code:
        return End(code, COMMAND, _UNSTARTED[code])
    if code > 128:
        return End(code, COMMAND, f"the command ended with {code}, as of {_signal(code)}{caps}")
    return End(code, COMMAND, f"the command ended with {code}{caps}")


def _ended_from_outside(outcome: Outcome, code: int) -> str:
    """Why a command ended that did not by itself; "" where it did."""
    if outcome.reader_left:
        return "ended because nobody read its output any more"
    if not outcome.was_told or code - 128 not in _ENDING:
        return ""
    reason = f"somebody ended it by {_signal(128 + outcome.told_by if outcome.told_by else code)}"
    if outcome.told_by and code == 128 + signal.SIGKILL:
        return f"{reason}, which it did not heed in {GRACE_SECONDS:.0f} s: it was killed"
    return reason


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"signal {code - 128}"


def _replace(path: str, text: str) -> None:
    """The old file or the new one, never a part. By hand: `tempfile` takes longer to import than this does."""
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
