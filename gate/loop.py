"""
One thread that waits for many descriptors and a few timers.

Written on `select.epoll` alone: `asyncio` would cost 75 ms of every start and 10 MB a process,
and `selectors` and `socket` 14 ms, most of it for turning constants into enumerations.
"""

from __future__ import annotations

import errno
import select
import time

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_STEP_SECONDS = 0.005
# The kernel counts what is waited for by user, and a sandbox's programs are that user's too.
_NO_ROOM = (errno.ENOSPC, errno.ENOMEM)
_AGAIN_SECONDS = 0.05


def receive(socket: _socket.socket, most: int) -> bytes | None:
    """What has come; b"" where nothing will any more, by an error too; None where nothing has come yet."""
    try:
        return socket.recv(most)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _nothing() -> None:
    """What has to be undone for a loop that is nobody's part."""


class Timer:
    """An action that is due once. `cancel` forgets it; cancelling twice, or after it ran, does nothing."""

    __slots__ = ("_queue", "action", "due")

    def __init__(self, queue: dict[int, Timer], due: float, action: Callable[[], None]) -> None:
        self._queue = queue
        self.due = due
        self.action = action
        queue[id(self)] = self

    def cancel(self) -> None:
        """Never run the action."""
        self._queue.pop(id(self), None)


class Loop:
    """Calls a handler when its descriptor is ready, and an action when its time has come."""

    def __init__(self, epoll: select.epoll | None = None) -> None:
        self._epoll = epoll or select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._events: dict[int, int] = {}
        # Those for which the kernel has no room yet.
        self._unknown: dict[int, Timer] = {}
        self._enter: Callable[[], None] = _nothing
        self._leave: Callable[[], None] = _nothing
        # One queue a duration: timers of one duration fall due in the order in which they were set.
        self._timers: dict[float, dict[int, Timer]] = {}

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Call `handler(events)` while one of `events` holds; 0 stops that. Errors and hang-ups count as events."""
        known = descriptor in self._handlers
        if not events:
            if known:
                self.forget(descriptor)
        elif known:
            self._handlers[descriptor] = handler
            # Most of those who are watched on wait for the same as before: no need to tell the kernel.
            if self._events[descriptor] != events:
                self._events[descriptor] = events
                if descriptor not in self._unknown:
                    self._epoll.modify(descriptor, events)
        else:
            self._register(descriptor, events)
            self._handlers[descriptor] = handler
            self._events[descriptor] = events

    def forget(self, descriptor: int) -> None:
        """Stop watching. To be called before the descriptor is closed; one that is not watched is no error."""
        if self._handlers.pop(descriptor, None) is not None:
            del self._events[descriptor]
            if timer := self._unknown.pop(descriptor, None):
                timer.cancel()
            else:
                self._epoll.unregister(descriptor)

    def _register(self, descriptor: int, events: int) -> None:
        """Tell the kernel; where it has no room for one more, it is told again soon."""
        try:
            self._epoll.register(descriptor, events)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._unknown[descriptor] = self.after(_AGAIN_SECONDS, lambda: self._register_again(descriptor))

    def _register_again(self, descriptor: int) -> None:
        del self._unknown[descriptor]
        self._register(descriptor, self._events[descriptor])

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, in `seconds` or a little later."""
        # Rounded up: who asks for ever other durations would have a queue for each.
        seconds = -(-seconds // _STEP_SECONDS) * _STEP_SECONDS
        return Timer(self._timers.setdefault(seconds, {}), time.monotonic() + seconds, action)

    def share(self, most: int) -> Loop:
        """
        A loop for one party of many: its timers are ours, and no more than `most` of its events are dealt with a turn.

        The kernel hands them out in turn, so none of them waits for ever.
        """
        part = Loop()
        part._timers = self._timers

        def on_ready(_events: int) -> None:
            part._deal_with(part._epoll.poll(0, most))

        part._enter = lambda: self.watch(part._epoll.fileno(), READ, on_ready)
        part._leave = lambda: self.forget(part._epoll.fileno())
        part._enter()
        return part

    def hold(self) -> None:
        """Deal with nothing of this part until `go_on`; its timers run."""
        self._leave()

    def go_on(self) -> None:
        """End what `hold` began. Nothing is lost meanwhile: the kernel keeps it."""
        if not self._epoll.closed:
            self._enter()

    def run_once(self, longest_seconds: float | None = None) -> None:
        """Wait until something is ready or due, and deal with all that is."""
        self._deal_with(self._epoll.poll(self._wait_seconds(longest_seconds)))
        if self._timers:
            self._run_due()

    def run(self) -> None:
        """Run for ever."""
        while True:
            self.run_once()

    def close(self) -> None:
        """Let go of the kernel's part."""
        self._leave()
        for timer in self._unknown.values():
            timer.cancel()
        self._epoll.close()

    def _deal_with(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            # A handler may close others of this round: then there is nobody left to tell.
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler(events)

    def _first_timers(self) -> list[Timer]:
        return [next(iter(queue.values())) for queue in self._timers.values() if queue]

    def _wait_seconds(self, longest_seconds: float | None) -> float | None:
        if not self._timers:
            return longest_seconds
        due = [timer.due for timer in self._first_timers()]
        if not due:
            return longest_seconds
        wait = max(0.0, min(due) - time.monotonic())
        return wait if longest_seconds is None else min(wait, longest_seconds)

    def _run_due(self) -> None:
        now = time.monotonic()
        for seconds, queue in list(self._timers.items()):
            if not queue:
                del self._timers[seconds]
            while queue:
                timer = next(iter(queue.values()))
                if timer.due > now:
                    break
                timer.cancel()
                timer.action()
