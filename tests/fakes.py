"""Stand-ins for the world, for tests of what aisb makes of its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.effects.process import Finished

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.effects.process import Command


class FakeRunner:
    """Answers commands from a script, in order, and remembers them. A command that nobody scripted is an error."""

    def __init__(self, *answers: Finished) -> None:
        self._answers = list(answers)
        self.argvs: list[tuple[str, ...]] = []

    def announce(self, argv: tuple[str, ...]) -> None:
        """Remembered like the others."""
        self.argvs.append(argv)

    def run(self, command: Command) -> Finished:
        """The next answer."""
        self.argvs.append(command.argv)
        if not self._answers:
            raise AssertionError(f"nobody scripted: {command.as_shell()}")
        return self._answers.pop(0)

    def stream(self, command: Command, on_line: Callable[[str], None], on_tick: Callable[[], None]) -> int:
        """The next answer, line by line."""
        finished = self.run(command)
        on_tick()
        for line in finished.stdout.decode().splitlines():
            on_line(line)
        return finished.code


def said(text: str, code: int = 0) -> Finished:
    """An answer on stdout."""
    return Finished(code=code, stdout=text.encode())
