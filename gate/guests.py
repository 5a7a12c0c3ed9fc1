"""
On the host, beside aisb: hands who comes to a published port one of the connections that its sandbox keeps with us.

The sandbox connects to us, never we to it: in what it can write, a link would decide where we land. Whatever comes from
it may be the agent's. A connection at hand that speaks unasked is dropped, and its place stays taken for a while; there
is no room for more than a few, so that the others wait in the kernel's queue and cost nothing. The answer is one byte,
and what follows it goes to the guest alone: nothing is dialled here, whatever the sandbox says.
"""

from __future__ import annotations

import _socket

from gate.loop import READ, receive
from gate.loopback import REACHED, Intake
from gate.pump import Pump, refuse

# As `typing` has it, whose import would take 15 ms of a start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gate.loop import Loop, Timer

# What a sandbox is told when somebody has come.
COME = b"!"
# Guests of one run at once.
MOST_GUESTS = 512
# As many as the sandbox keeps with us, for each port.
MOST_AT_HAND = 8
# A sandbox may only just begin; and it dials a server that is beside it.
WAIT_SECONDS = 10.0
ANSWER_SECONDS = 10.0
PENALTY_SECONDS = 0.1


class Room:
    """How many guests a run has, at all its ports."""

    def __init__(self, most: int = MOST_GUESTS) -> None:
        self._most = most
        self.guests = 0

    def take(self) -> bool:
        """Whether there is room for one more, which is counted then."""
        if self.guests >= self._most:
            return False
        self.guests += 1
        return True

    def leave(self) -> None:
        """One has gone."""
        self.guests -= 1


class Published:
    """One port: who has come and waits, and the connections at hand to lead them by."""

    def __init__(self, loop: Loop, listener: _socket.socket, door: _socket.socket, room: Room) -> None:
        self._loop = loop
        self._room = room
        self._at_hand: dict[int, _socket.socket] = {}
        self._in_disgrace = 0
        # In the order in which they came.
        self._waiting: dict[_Guest, None] = {}
        self._listener = Intake(loop, listener, self._on_guest)
        self._door = Intake(loop, door, self._on_offer, self._has_room)

    def _has_room(self) -> bool:
        return len(self._at_hand) + self._in_disgrace < MOST_AT_HAND

    def _on_guest(self, client: _socket.socket) -> None:
        if not self._room.take():
            refuse(client)
            return
        client.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self._waiting[_Guest(self._loop, client, self._on_gone)] = None
        self._match()

    def _on_gone(self, guest: _Guest) -> None:
        self._waiting.pop(guest, None)
        self._room.leave()

    def _on_offer(self, offer: _socket.socket) -> None:
        number = offer.fileno()
        self._at_hand[number] = offer
        self._loop.watch(number, READ, lambda _: self._on_word(number))
        self._match()

    def _match(self) -> None:
        while self._waiting and self._at_hand:
            number = next(iter(self._at_hand))
            guest = next(iter(self._waiting))
            if not guest.is_announced_by(self._at_hand[number]):
                self._drop(number)
                continue
            self._loop.forget(number)
            del self._waiting[guest]
            guest.follow(self._at_hand.pop(number))
            self._door.go_on()

    def _on_word(self, number: int) -> None:
        """It says something though nobody asked, or has gone. Of a relay that is as it should be neither comes."""
        if receive(self._at_hand[number], 1) is not None:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._loop.forget(number)
        self._at_hand.pop(number).close()
        self._in_disgrace += 1
        self._loop.after(PENALTY_SECONDS, self._forgive)

    def _forgive(self) -> None:
        self._in_disgrace -= 1
        self._door.go_on()


class _Guest:
    """Who has come to a published port, until it is led inside or turned away. Nothing is read from it meanwhile."""

    __slots__ = ("_client", "_loop", "_on_gone", "_timer")

    def __init__(self, loop: Loop, client: _socket.socket, on_gone: Callable[[_Guest], None]) -> None:
        self._loop = loop
        self._client = client
        self._on_gone = on_gone
        self._timer: Timer = loop.after(WAIT_SECONDS, self._turn_away)

    def is_announced_by(self, offer: _socket.socket) -> bool:
        """Tell the sandbox; False where nobody is there any more to be told."""
        try:
            return offer.send(COME) == len(COME)
        except OSError:
            return False

    def follow(self, offer: _socket.socket) -> None:
        """Wait for the answer, and go where it leads."""
        self._timer.cancel()
        self._timer = self._loop.after(ANSWER_SECONDS, lambda: self._end(offer))
        self._loop.watch(offer.fileno(), READ, lambda _: self._on_answer(offer))

    def _on_answer(self, offer: _socket.socket) -> None:
        answer = receive(offer, len(REACHED))
        if answer is None:
            return
        if answer != REACHED:
            self._end(offer)
            return
        self._timer.cancel()
        self._loop.forget(offer.fileno())
        Pump(self._loop, self._client, offer, lambda: self._on_gone(self))

    def _end(self, offer: _socket.socket) -> None:
        self._loop.forget(offer.fileno())
        offer.close()
        self._turn_away()

    def _turn_away(self) -> None:
        self._timer.cancel()
        refuse(self._client)
        self._on_gone(self)
