"""
What passes between a session's client and the tool server in its sandbox (docs/session-protocol.md): the rules alone.

The client is trusted and may be mistaken; what comes from the sandbox is its agent's to forge. A frame of either is
held against what it may say, and of what the sandbox says only what was understood is passed on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from aisb.domain.frames import MOST_NUMBER, Frame, Malformed, parse_list
from aisb.domain.printing import printable
from aisb.domain.session_calls import CALLS, OWN, TYPES, Wrong, checked, is_number, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL = 1
MOST_OPEN = 256
MOST_UNDER_WAY = 1 << 20

NO_JSON = -32700
NO_REQUEST = -32600
NO_METHOD = -32601
WRONG_PARAMS = -32602
TOO_MANY = -32000
DIED = -32001
NO_SANDBOX = -32002
CANCELLED = -32003
OS_ERROR = -32010
TOO_MUCH = -32013
REFUSED = -32020

_LONGEST_MESSAGE = 1000
_LONGEST_PATH = 4096
_ERRNO = re.compile(r"E[A-Z0-9]{1,20}")


class NoRequest(ValueError):
    """The client says something that cannot be answered: the session ends."""


class Forged(ValueError):
    """The sandbox says something that no tool server says."""


class ToClient(NamedTuple):
    """A frame for the client."""

    frame: Frame


class ToSandbox(NamedTuple):
    """A frame for the tool server."""

    frame: Frame


class Ask(NamedTuple):
    """A request for aisb itself."""

    number: int
    method: str
    params: dict[str, object]


Step = ToClient | ToSandbox | Ask


class _Open:
    """A request that the sandbox has not answered. `client` is the client's number, None where it has been answered."""

    __slots__ = ("client", "method", "passed", "under_way")

    def __init__(self, client: int, method: str, under_way: int) -> None:
        self.client: int | None = client
        self.method = method
        self.under_way = under_way
        # Bytes of data that came back.
        self.passed = 0


class Exchange:
    """
    The open requests of a session. Each method returns what is to be done, in order.

    The sandbox sees numbers of ours: one that it knows is never given to another request.
    """

    def __init__(self) -> None:
        self.has_sandbox = False
        self._next = 1
        self._open: dict[int, _Open] = {}
        # The client's number -> ours; 0 for a request that aisb answers itself.
        self._numbers: dict[int, int] = {}

    def is_open(self, number: int) -> bool:
        """Whether the client waits for an answer to this."""
        return number in self._numbers

    # --- from the client --------------------------------------------------------------------------

    def from_client(self, frame: Frame) -> list[Step]:
        """Raises NoRequest for what is neither a request nor a notification."""
        header = frame.header
        if not set(header) <= {"jsonrpc", "id", "method", "params"} or header.get("jsonrpc") != "2.0":
            raise NoRequest("this is no request of JSON-RPC 2.0")
        method, params = header.get("method"), header.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            raise NoRequest("a request has a method and params")
        if "id" not in header:
            return list(self._note(method, params, frame.body))
        number = header["id"]
        if not is_number(number, 1, MOST_NUMBER):
            raise NoRequest("an id is a number from 1 to 2^53-1")
        if number in self._numbers:
            raise NoRequest(f"request {number} is open already")
        return [self._request(number, method, params, frame.body)]

    def _request(self, number: int, method: str, params: dict[str, object], body: bytes) -> Step:
        call = CALLS.get(method) or OWN.get(method)
        if call is None:
            return _error(number, NO_METHOD, f"there is no method {method[:40]!r}")
        try:
            params = checked(params, call.params)
        except Wrong as wrong:
            return _error(number, WRONG_PARAMS, str(wrong))
        if body and not call.takes_body:
            return _error(number, WRONG_PARAMS, f"{method} takes no body")
        if len(self._numbers) >= MOST_OPEN:
            return _error(number, TOO_MANY, f"{MOST_OPEN} requests are open")
        if method in OWN:
            self._numbers[number] = 0
            return Ask(number, method, params)
        if not self.has_sandbox:
            return _error(number, NO_SANDBOX, "there is no sandbox; nothing was done")
        ours, self._next = self._next, self._next + 1
        self._numbers[number] = ours
        self._open[ours] = _Open(number, method, len(body))
        return ToSandbox(_request(ours, method, params, body))

    def _note(self, method: str, params: dict[str, object], body: bytes) -> Iterator[Step]:
        number = params.get("id")
        if method not in ("data", "cancel"):
            return
        if not is_number(number, 1, MOST_NUMBER):
            raise NoRequest(f"{method} without the id of a request")
        is_last = params.get("last", False)
        if type(is_last) is not bool or not set(params) <= ({"id", "last"} if method == "data" else {"id"}):
            raise NoRequest(f"{method} with other params than it has")
        ours = self._numbers.get(number, 0)
        if not ours:
            return
        if method == "cancel":
            yield ToSandbox(_notification("cancel", {"id": ours}))
        elif CALLS[self._open[ours].method].takes_data:
            yield from self._data(number, ours, body, is_last=is_last)

    def _data(self, number: int, ours: int, body: bytes, *, is_last: bool) -> Iterator[Step]:
        request = self._open[ours]
        request.under_way += len(body)
        if request.under_way > MOST_UNDER_WAY:
            yield ToSandbox(_notification("cancel", {"id": ours}))
            yield self._answered(ours, _error(number, TOO_MUCH, f"more than {MOST_UNDER_WAY} bytes are under way"))
            return
        yield ToSandbox(_notification("data", {"id": ours, "last": is_last}, body))

    def not_sent(self, number: object) -> ToClient:
        """The request of that number of ours is longer than the sandbox may be sent, by what we write otherwise."""
        ours, request = self._find(number)
        client = request.client or 0
        return self._answered(ours, _error(client, WRONG_PARAMS, "a header that is too long"), is_done=True)

    def own(self, number: int, result: dict[str, object]) -> ToClient:
        """aisb's own answer to a request."""
        del self._numbers[number]
        return _result(number, result, b"")

    def refused(self, number: int, message: str, data: dict[str, object]) -> ToClient:
        """aisb's own refusal of one."""
        del self._numbers[number]
        return _error(number, REFUSED, message, data)

    # --- from the sandbox -------------------------------------------------------------------------

    def from_sandbox(self, frame: Frame) -> list[ToClient]:
        """Raises Forged for what no tool server says."""
        header = frame.header
        if header.get("jsonrpc") != "2.0":
            raise Forged("a frame that is not of JSON-RPC 2.0")
        keys = set(header)
        try:
            if keys == {"jsonrpc", "method", "params"}:
                return self._heard(header["method"], header["params"], frame.body)
            if keys == {"jsonrpc", "id", "result"}:
                return self._result(header["id"], header["result"], frame.body)
            if keys == {"jsonrpc", "id", "error"} and not frame.body:
                return self._failure(header["id"], header["error"])
        except Wrong as wrong:
            raise Forged(str(wrong)) from wrong
        raise Forged("a frame that is no answer")

    def _find(self, number: object) -> tuple[int, _Open]:
        if not is_number(number, 1, MOST_NUMBER) or number not in self._open:
            raise Forged("an answer to what nobody asked")
        return number, self._open[number]

    def _heard(self, method: object, params: object, body: bytes) -> list[ToClient]:
        if not isinstance(params, dict):
            raise Forged("a notification without params")
        _, request = self._find(params.get("id"))
        if method == "data" and set(params) == {"id", "stream"} and _is_stream(params["stream"], request):
            request.passed += len(body)
            said = {"stream": params["stream"]}
        elif method == "taken" and set(params) == {"id", "bytes"} and not body:
            count = params["bytes"]
            if not is_number(count, 1, request.under_way):
                raise Forged("bytes that were not under way were taken")
            request.under_way -= count
            said = {"bytes": count}
        else:
            raise Forged("a notification that there is not")
        if request.client is None:
            return []
        return [ToClient(_notification(str(method), {"id": request.client, **said}, body))]

    def _result(self, number: object, result: object, body: bytes) -> list[ToClient]:
        ours, request = self._find(number)
        call = CALLS[request.method]
        if not isinstance(result, dict) or (body and not call.yields_body):
            raise Forged("a result that is none")
        found = checked(result, call.result)
        if request.method == "readFile" and found["bytes"] != request.passed + len(body):
            raise Forged("a file of another length than it says")
        if request.method == "readdir":
            check_entries(body)
        if request.client is None:
            return self._forget(ours)
        return [self._answered(ours, _result(request.client, found, body), is_done=True)]

    def _failure(self, number: object, error: object) -> list[ToClient]:
        ours, request = self._find(number)
        if not isinstance(error, dict) or not set(error) <= {"code", "message", "data"}:
            raise Forged("an error that is none")
        code, message, data = error.get("code"), error.get("message"), error.get("data", {})
        if code not in (OS_ERROR, CANCELLED, WRONG_PARAMS) or not is_text(message, _LONGEST_MESSAGE):
            raise Forged("an error that there is not")
        if not isinstance(data, dict) or set(data) != ({"errno", "path"} if code == OS_ERROR else set()):
            raise Forged("an error without its number, or with more than that")
        if data and not (_is_errno(data["errno"]) and is_text(data["path"], _LONGEST_PATH)):
            raise Forged("an error whose number or path is none")
        if request.client is None:
            return self._forget(ours)
        return [self._answered(ours, _error(request.client, code, printable(str(message)), dict(data)), is_done=True)]

    def _answered(self, ours: int, answer: ToClient, *, is_done: bool = False) -> ToClient:
        """The client has its answer. What the sandbox may still say of it is for nobody."""
        request = self._open[ours]
        if request.client is not None:
            del self._numbers[request.client]
        request.client = None
        if is_done:
            del self._open[ours]
        return answer

    def _forget(self, ours: int) -> list[ToClient]:
        del self._open[ours]
        return []

    def died(self) -> list[ToClient]:
        """The sandbox is gone: what is open is answered, and nothing more is passed on."""
        self.has_sandbox = False
        lost = [request.client for request in self._open.values() if request.client is not None]
        self._open.clear()
        for number in lost:
            del self._numbers[number]
        message = "the sandbox died before it had answered; this may have been carried out, in part"
        return [_error(number, DIED, message) for number in lost]


def check_ready(frame: Frame) -> None:
    """Raise Forged unless this is how a tool server begins."""
    if frame != Frame({"jsonrpc": "2.0", "method": "ready", "params": {"protocol": PROTOCOL}}):
        raise Forged("it does not begin as a tool server does")


def check_entries(body: bytes) -> None:
    """Raise Forged unless these are the entries of a directory."""
    try:
        entries = parse_list(body)
    except Malformed as error:
        raise Forged(str(error)) from error
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 2 or not is_text(entry[0]) or not _is_type(entry[1]):
            raise Forged("an entry of a directory that is none")


def _is_type(value: object) -> bool:
    return isinstance(value, str) and value in TYPES


def _is_errno(value: object) -> bool:
    return isinstance(value, str) and _ERRNO.fullmatch(value) is not None


def _is_stream(value: object, request: _Open) -> bool:
    return isinstance(value, str) and value in CALLS[request.method].streams


def said(method: str, params: dict[str, object]) -> ToClient:
    """A notification of aisb's own."""
    return ToClient(_notification(method, params))


def last_words(code: int, message: str) -> ToClient:
    """What the client hears that said what cannot be answered."""
    return ToClient(Frame({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}))


def _notification(method: str, params: dict[str, object], body: bytes = b"") -> Frame:
    return Frame({"jsonrpc": "2.0", "method": method, "params": params}, body)


def _request(number: int, method: str, params: dict[str, object], body: bytes) -> Frame:
    return Frame({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, body)


def _result(number: int, result: dict[str, object], body: bytes) -> ToClient:
    return ToClient(Frame({"jsonrpc": "2.0", "id": number, "result": result}, body))


def _error(number: int, code: int, message: str, data: dict[str, object] | None = None) -> ToClient:
    error = {"code": code, "message": message, **({"data": data} if data else {})}
    return ToClient(Frame({"jsonrpc": "2.0", "id": number, "error": error}))
