"""
One connection from a sandbox: read its first request, judge it, and refuse it or join it with squid.

A denied client is answered at once and in words: squid, at the door where it looks into TLS, would answer
200 and wait.
"""

from __future__ import annotations

import _socket
from typing import TYPE_CHECKING

from aisb.domain.hosts import is_address, show_authority
from aisb.domain.rules import Failure, HttpRequest, Reason, Verdict
from gate import ports
from gate.heads import RESOLVE, BadRequest, Request, parse_head, split_head
from gate.host_call import HostCall
from gate.identity import proxy_header
from gate.loop import READ, receive
from gate.pump import Farewell, Pump
from gate.refusal import Refusal, refusal_of, response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisb.domain.rules import Engine
    from gate.ends import ClientEnd, HostEnd, SquidEnd
    from gate.ledger import Ledger
    from gate.limits import Bucket
    from gate.loop import Loop
    from gate.squid import Squid

# For a client that has connected but says nothing, or not all.
HEAD_SECONDS = 60.0
_CHUNK_BYTES = 65536
_TLS_PORT = 443
_HTTP_PORT = 80
_TUNNEL_IS_UP = b"HTTP/1.1 200 Connection established\r\n\r\n"
_QUESTION = RESOLVE.encode("ascii") + b" "
_MAY_BE_RESOLVED = b"AISB/1 200 allowed\r\n\r\n"
_NOT_BY_URL = "a port of the host is reached without a proxy: its name is in no_proxy"
_NOBODY_THERE = (
    b"HTTP/1.1 502 Nobody listens at that port of the host\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
_NO_SQUID = (
    b"HTTP/1.1 502 The gate's squid does not answer\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)


class Client:
    """
    Owns its connection from the first byte to the last; `on_done(self)` when it is closed.

    `doors` is where aisb listens for each port of the host that the run may reach.
    """

    def __init__(
        self,
        loop: Loop,
        run: str,
        socket: ClientEnd,
        engine: Engine,
        ledger: Ledger,
        squid: Squid,
        bucket: Bucket,
        on_done: Callable[[Client], None],
        doors: str = "",
    ) -> None:
        self._loop = loop
        self._run = run
        self._socket = socket
        self._engine = engine
        self._ledger = ledger
        self._squid = squid
        self._bucket = bucket
        # What went on to squid, and its number in the ledger.
        self._passed_on: tuple[Request, int] | None = None
        self._on_done = on_done
        self._doors = doors
        self._data = b""
        self._paid = False
        self._stop: Callable[[], None] = self._close
        self._timer = loop.after(HEAD_SECONDS, self._close)
        loop.watch(socket.fileno(), READ, self._on_event)

    def close(self) -> None:
        """End the connection now, whatever it is at."""
        self._stop()

    def adopt(self, engine: Engine, *, narrows: bool) -> bool:
        """Judge by this engine from now on, and end the connection if it forbids it: whether it did."""
        self._engine = engine
        if not narrows or self._passed_on is None or self._is_allowed_still(*self._passed_on):
            return False
        self._passed_on = None
        self.close()
        return True

    def _is_allowed_still(self, request: Request, number: int) -> bool:
        # On one that carries whole URLs each request may be for another host, and squid alone sees the later ones. It
        # says of each that it is done; whoever has said more meanwhile, and no body, may be at another one by now.
        has_said_more = not request.has_body and bool(self._data or self._socket.taken)
        is_known = request.is_tunnel or (self._ledger.is_at_its_first(number) and not has_said_more)
        return is_known and self._engine.judge(request.host, request.port).allowed

    def refuse_at_once(self) -> None:
        """There are too many: say so without waiting for what this one wants."""
        self._refuse(refusal_of(self._run, "", 0, "", "", Verdict(allowed=False, reason=Reason.LIMIT)))

    def _on_event(self, _events: int) -> None:
        data = receive(self._socket, _CHUNK_BYTES)
        if data is None:
            return
        if not data:
            self._close()
            return
        self._data += data
        self._read_on()

    def _read_on(self) -> None:
        try:
            # A question is paid for before it is read: reading it is the work.
            while self._is_paid_for() and (parts := split_head(self._data)) is not None:
                head, self._data = parts
                self._paid = False
                request = parse_head(head)
                if request.method != RESOLVE:
                    self._judge(request, head)
                    return
                if not self._resolve(request.host):
                    self._close()
                    return
        except BadRequest as error:
            self._refuse(Refusal(self._run, "", 0, "", "", Reason.BAD_REQUEST, add="", detail=str(error), status=400))

    def _is_paid_for(self) -> bool:
        """Whether the next question may be read now. Of a run that asks too much it is heard later, in its turn."""
        if self._paid or not self._data.startswith(_QUESTION):
            return True
        self._paid = True
        seconds = self._bucket.claim()
        if not seconds:
            return True
        self._loop.forget(self._socket.fileno())
        self._loop.after(seconds, self._go_on)
        return False

    def _go_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.watch(self._socket.fileno(), READ, self._on_event)
            self._read_on()

    def _resolve(self, name: str) -> bool:
        """Answer whether a name may be resolved; False where the client does not even read answers."""
        self._timer.cancel()
        verdict = self._engine.judge_name(name)
        answer = _MAY_BE_RESOLVED
        if not verdict.allowed:
            answer = f"AISB/1 403 {verdict.reason}\r\n\r\n".encode("ascii")
            self._ledger.refused(refusal_of(self._run, name, 0, RESOLVE, "", verdict))
        return self._send_whole(answer)

    def _judge(self, request: Request, head: bytes) -> None:
        if request.is_tunnel:
            verdict = self._engine.judge(request.host, request.port)
        else:
            verdict = self._engine.judge_request(
                HttpRequest(
                    method=request.method,
                    path=request.path,
                    host=request.host,
                    port=request.port,
                    scheme="http",
                    url_host=request.host,
                    url_port=request.port,
                    host_header=request.host_header,
                    upgrade=request.upgrade,
                    has_body=request.has_body,
                )
            )
        is_host = self._engine.is_host(request.host)
        if verdict.allowed and is_host and not request.is_tunnel:
            verdict = Verdict(allowed=False, reason=Reason.BAD_REQUEST, detail=_NOT_BY_URL)
        if verdict.allowed and is_host:
            # aisb itself leads to ports of the host; squid never does.
            self._pass_to_host(request, verdict.rule)
        elif verdict.allowed:
            self._pass_on(request, verdict.rule, head)
        else:
            refusal = refusal_of(self._run, request.host, request.port, request.method, request.path, verdict)
            self._refuse(refusal, request.wants_json)

    def _refuse(self, refusal: Refusal, wants_json: bool = False) -> None:
        self._ledger.refused(refusal)
        self._say_farewell(response_of(refusal, wants_json))

    def _say_farewell(self, answer: bytes) -> None:
        self._leave_loop()
        self._stop = self._cut
        Farewell(self._loop, self._socket, answer, self._done)

    def _cut(self) -> None:
        """Whoever has the socket now ends by itself once both directions are closed."""
        try:
            self._socket.shutdown(_socket.SHUT_RDWR)
        except OSError:
            return

    def _pass_on(self, request: Request, rule: str, head: bytes) -> None:
        """Call squid at the door where requests of this kind are judged again."""
        self._leave_loop()
        number = self._ledger.opened(request, rule)
        self._passed_on = request, number
        meant = show_authority(request.host, request.port)
        if not request.is_tunnel:
            first = proxy_header(self._run, number, request.port) + head + self._data
            self._call(ports.EXPLICIT, b"", lambda squid, _: self._join(number, squid, first))
        elif request.port == _HTTP_PORT and not is_address(request.host):
            # The requests inside are judged one by one: squid is told which name they have to be for.
            first = proxy_header(self._run, number, request.port, meant) + self._data
            self._call(ports.PLAIN, b"", lambda squid, _: self._join(number, squid, first, _TUNNEL_IS_UP))
        else:
            # squid hands the name on with each request that it reads inside.
            words = proxy_header(self._run, number, request.port, meant)
            words += f"CONNECT {meant} HTTP/1.1\r\nHost: {meant}\r\nConnection: close\r\n\r\n".encode("ascii")
            # An entry for an address says where bytes may go, not what they are: they pass unread.
            is_tls = request.port == _TLS_PORT and not is_address(request.host)
            door = ports.TLS if is_tls else ports.EXPLICIT
            self._call(door, words, lambda squid, answer: self._on_answer(number, squid, answer, is_tls))

    def _pass_to_host(self, request: Request, rule: str) -> None:
        """Call the forwarder for this port. What passes then is nobody's to read."""
        self._leave_loop()
        number = self._ledger.opened(request, rule)
        self._passed_on = request, number

        def on_host(host: HostEnd | None) -> None:
            self._join(number, host, self._data, _TUNNEL_IS_UP, sorry=_NOBODY_THERE)

        call = HostCall(self._loop, f"{self._doors}/{request.port}", on_host)

        def stop() -> None:
            call.cancel()
            on_host(None)

        self._stop = stop

    def _call(self, door: int, words: bytes, then: Callable[[SquidEnd | None, bytes], None]) -> None:
        call = self._squid.call(self._loop, door, words, then)

        def stop() -> None:
            call.cancel()
            then(None, b"")

        self._stop = stop

    def _on_answer(self, number: int, squid: SquidEnd | None, answer: bytes, is_tls: bool) -> None:
        """squid has answered a CONNECT: yes, or an error that the client is to see as it is."""
        head, end, rest = answer.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200 "):
            self._join(number, squid, self._data, _TUNNEL_IS_UP + rest, is_tls)
        else:
            # What the client said for its tunnel is no request: squid does not get it.
            self._join(number, squid, b"", head + end + rest)

    def _join(
        self,
        number: int,
        squid: SquidEnd | HostEnd | None,
        to_squid: bytes,
        to_client: bytes = b"",
        is_tls: bool = False,
        sorry: bytes = _NO_SQUID,
    ) -> None:
        """From here on bytes are passed both ways; where there is nobody to pass them to, the client is told so."""
        if squid is None or not self._send_whole(to_client):
            self._passed_on = None
            if squid is not None:
                squid.close()
            self._ledger.ended(number, 0, 0, failed="" if squid else Failure.UNANSWERED)
            self._say_farewell(sorry if squid is None else b"")
            return
        sent_before = len(self._data)
        squid.serve(self._loop, self._socket, must_be_tls=is_tls)

        def on_done() -> None:
            self._passed_on = None
            self._ledger.ended(number, sent_before + self._socket.taken, squid.taken)
            self._done()

        pump = Pump(self._loop, squid, self._socket, on_done, to_squid, inner=squid)
        self._stop = pump.abort

    def _send_whole(self, data: bytes) -> bool:
        try:
            return not data or self._socket.send(data) == len(data)
        except OSError:
            return False

    def _leave_loop(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._socket.fileno())

    def _close(self) -> None:
        self._leave_loop()
        self._socket.close()
        self._done()

    def _done(self) -> None:
        self._on_done(self)
