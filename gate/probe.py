"""
Proves, as the command's own user, that the sandbox is closed and that its one way out leads to the gate.

All questions are put at once, and the whole takes a few milliseconds. Each line of `allow_legs` and
`closed_legs` says what is dialled and what has to come of it; anything else is a refusal to run.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import time

from gate import dns

# As `typing` has it, whose import would take 15 ms of every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Names that every gate knows: it answers the first itself, and no policy can allow the second.
ALLOWED_NAME = "ok.aisb.internal"
DENIED_NAME = "denied.aisb.internal"
# Addresses that belong to nobody: documentation (RFC 5737 and 3849).
DENIED_V4 = ("192.0.2.1", 443)
DENIED_V6 = ("2001:db8:ffff::1", 443)
RESOLVER = ("198.18.0.1", 53)
PROXY = ("127.0.0.1", 3128)
# Where slirp4netns and pasta show the host.
HOST_ADDRESSES = (("10.0.2.2", 80), ("169.254.1.2", 80))
HOST_V6 = ("fd00::2", 80)

LIMIT_SECONDS = 2.0
LONGEST_ANSWER = 4096
_IN_PROGRESS = frozenset({0, errno.EINPROGRESS, errno.EAGAIN})


class Failure(Exception):
    """What did not come out as it had to, in one sentence."""


class Leg:
    """
    One connection: what is sent when it stands, and what has to come of it.

    `judge` gets the bytes that have come so far and whether more may come; it returns True when the
    leg is proved, False to wait, and raises Failure. `is_right` says of an error whether it proves the leg.
    """

    def __init__(
        self,
        what: str,
        family: int,
        kind: int,
        address: tuple[str, int],
        request: bytes,
        judge: Callable[[bytes, bool], bool],
        is_right: Callable[[int], bool],
    ) -> None:
        self.what = what
        self.socket = _socket.socket(family, kind | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        self._address = address
        self._request = request
        self._judge = judge
        self._is_right = is_right
        self._received = b""
        self._is_sent = False

    def start(self) -> bool:
        """Dial. True when the leg is proved already."""
        code = self.socket.connect_ex(self._address)
        return code not in _IN_PROGRESS and self._on_error(code)

    def on_event(self) -> bool:
        """Go on: the socket is ready. True when the leg is proved."""
        try:
            if not self._is_sent:
                code = self.socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if code:
                    return self._on_error(code)
                self._is_sent = True
                if self._request:
                    self.socket.send(self._request)
                return False
            data = self.socket.recv(LONGEST_ANSWER)
        except BlockingIOError:
            return False
        except OSError as error:
            return self._on_error(error.errno or errno.EIO)
        self._received += data
        return self._judge(self._received, bool(data) and len(self._received) < LONGEST_ANSWER)

    def waits_for(self) -> int:
        """The event that goes on with it."""
        return select.POLLIN if self._is_sent else select.POLLOUT

    def _on_error(self, code: int) -> bool:
        if self._is_right(code):
            return True
        raise Failure(f"{self.what}: {os.strerror(code)}")


def _no_error(_code: int) -> bool:
    return False


def _any_error(_code: int) -> bool:
    return True


def _refused_by_the_rules(code: int) -> bool:
    # A rule that refuses what is sent ends the sending itself; without it a datagram comes back from lo as refused.
    return code == errno.EPERM


def _refused_or_no_way(code: int) -> bool:
    # A network without IPv6 has no way for such an address, and none of the rules is asked.
    return code in (errno.EPERM, errno.ENETUNREACH)


def prove_allow(*, with_v6: bool) -> None:
    """Mode allow: the allowed name answers through the gate, everything else is refused. Raises Failure."""
    found: list[bytes] = []
    question = dns.ask(int.from_bytes(os.urandom(2), "big"), ALLOWED_NAME)

    def judge_name(answer: bytes, _more: bool) -> bool:
        address = dns.address_in(answer, question)
        if address is None:
            raise Failure(f"{ALLOWED_NAME} could not be resolved: the gate was not reached")
        found.append(address)
        return True

    legs = [
        Leg("the resolver", _socket.AF_INET, _socket.SOCK_DGRAM, RESOLVER, question, judge_name, _no_error),
        *_closed_legs(with_v6=with_v6),
        *_datagram_legs(with_v6=with_v6),
        _proxy_leg(),
    ]
    _run(legs, lambda: [_allowed_leg(found.pop())] if found else [])


def prove_pinned(*, with_v6: bool) -> None:
    """
    Mode pinned: a name that is not in the table does not exist, and neither an address that is not allowed nor the
    host is reached. Raises Failure.

    Nobody may be there to answer anyway: datagrams prove the rules, which end the sending itself.
    """
    question = dns.ask(int.from_bytes(os.urandom(2), "big"), DENIED_NAME)

    def judge_name(answer: bytes, _more: bool) -> bool:
        if not dns.is_no_such_name(answer, question):
            raise Failure(f"{DENIED_NAME} was not answered as a name that is not allowed")
        return True

    families = [(_socket.AF_INET, address) for address in (DENIED_V4, *HOST_ADDRESSES)]
    families += [(_socket.AF_INET6, address) for address in (DENIED_V6, HOST_V6) if with_v6]
    legs = [
        Leg("the resolver", _socket.AF_INET, _socket.SOCK_DGRAM, RESOLVER, question, judge_name, _no_error),
        *(_refused_leg(family, address) for family, address in families),
        *(_datagram_leg(family, address, _refused_or_no_way) for family, address in families),
    ]
    _run(legs, list)


def prove_closed(*, with_v6: bool, to_host: bool) -> None:
    """Mode none: no address is reached. Mode full (`to_host`): the host's are not. Raises Failure."""
    if to_host:
        _run([_refused_leg(_socket.AF_INET, address) for address in HOST_ADDRESSES], list)
    else:
        _run(_closed_legs(with_v6=with_v6), list)


def _closed_legs(*, with_v6: bool) -> list[Leg]:
    legs = [_refused_leg(_socket.AF_INET, DENIED_V4)]
    return [*legs, _refused_leg(_socket.AF_INET6, DENIED_V6)] if with_v6 else legs


def _refused_leg(family: int, address: tuple[str, int]) -> Leg:
    what = f"{address[0]} port {address[1]}, which is not allowed"

    def judge(_answer: bytes, _more: bool) -> bool:
        # The relay takes a connection before it asks; then only a reset is a refusal.
        raise Failure(f"{what}, was reached")

    return Leg(what, family, _socket.SOCK_STREAM, address, b"", judge, _any_error)


def _datagram_legs(*, with_v6: bool) -> list[Leg]:
    """TCP is redirected, and so proves one chain of the rules; only the other one refuses a datagram."""
    legs = [_datagram_leg(_socket.AF_INET, DENIED_V4)]
    return [*legs, _datagram_leg(_socket.AF_INET6, DENIED_V6)] if with_v6 else legs


def _datagram_leg(
    family: int, address: tuple[str, int], is_right: Callable[[int], bool] = _refused_by_the_rules
) -> Leg:
    what = f"a datagram to {address[0]} port {address[1]}, which the rules should refuse"

    def judge(_answer: bytes, _more: bool) -> bool:
        raise Failure(f"{what}, was answered")

    return Leg(what, family, _socket.SOCK_DGRAM, address, b"?", judge, is_right)


def _proxy_leg() -> Leg:
    request = f"CONNECT {DENIED_NAME}:443 HTTP/1.1\r\nHost: {DENIED_NAME}:443\r\n\r\n".encode("ascii")
    return Leg(
        "the proxy",
        _socket.AF_INET,
        _socket.SOCK_STREAM,
        PROXY,
        request,
        _status(b"403", DENIED_NAME),
        _no_error,
    )


def _allowed_leg(address: bytes) -> Leg:
    request = f"GET / HTTP/1.1\r\nHost: {ALLOWED_NAME}\r\nConnection: close\r\n\r\n".encode("ascii")
    target = (_socket.inet_ntoa(address), 80)
    return Leg(
        ALLOWED_NAME,
        _socket.AF_INET,
        _socket.SOCK_STREAM,
        target,
        request,
        _status(b"200", ALLOWED_NAME),
        _no_error,
    )


def _status(expected: bytes, name: str) -> Callable[[bytes, bool], bool]:
    def judge(answer: bytes, more: bool) -> bool:
        line, end, _ = answer.partition(b"\r\n")
        if not end and more:
            return False
        status = line.split(b" ")[1:2]
        if status != [expected]:
            came = status[0].decode("ascii", "replace") if status else "nothing"
            raise Failure(f"{name} answered {came} instead of {expected.decode('ascii')}")
        return True

    return judge


def _run(legs: Iterable[Leg], more_legs: Callable[[], list[Leg]]) -> None:
    """Run all legs to their proof, those of `more_legs` too as they come up."""
    deadline = time.monotonic() + LIMIT_SECONDS
    poll = select.poll()
    open_legs: dict[int, Leg] = {}

    def start(new: Iterable[Leg]) -> None:
        for leg in new:
            if leg.start():
                leg.socket.close()
            else:
                open_legs[leg.socket.fileno()] = leg
                poll.register(leg.socket.fileno(), leg.waits_for())

    start(legs)
    while open_legs:
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            what = ", ".join(leg.what for leg in open_legs.values())
            raise Failure(f"no answer within {LIMIT_SECONDS:g} s: {what}")
        for descriptor, _ in poll.poll(left_seconds * 1000):
            leg = open_legs[descriptor]
            if leg.on_event():
                poll.unregister(descriptor)
                del open_legs[descriptor]
                leg.socket.close()
            else:
                poll.modify(descriptor, leg.waits_for())
        start(more_legs())
