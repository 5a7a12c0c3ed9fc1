"""
Ports of the host that a run may reach, and ports of a run that the host may: a process of ours stands between.

Of the first there is a door each in the run's directory. The gate connects to the doors, after it has judged; the
sandbox does not see their directory. Of the second there is a socket each in what the sandbox can read and not write:
it connects to us there, and is handed those who come to the host's port.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from aisb.assets import asset_path
from aisb.effects.process import spawn
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aisb.domain.publish import Published
    from aisb.effects.session import Session

_BACKLOG = 1024
# More than a relay ever has on the way.
_OFFERS = 64
_ADDRESS = "127.0.0.1"
_SEEN = 0o755
_LIFE = 3
_FIRST = 4
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gate.host_ports import main; main()"


@contextlib.contextmanager
def host_doors(session: Session, ports: Sequence[int], publish: Sequence[Published] = ()) -> Iterator[None]:
    """
    While the block runs, and no longer than we live, these ports of the loopback can be reached by the run's gate.

    And those that it publishes lead into its sandbox. All are open when the block begins: whoever comes before the
    process is ready waits in the queue. Raises Unavailable where a port has been taken meanwhile.
    """
    if not ports and not publish:
        yield
        return
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(listener) for listener in _opened(session, ports, publish)]
        life, held = os.pipe2(os.O_CLOEXEC)
        try:
            child = spawn(forwarder_argv(ports, publish), {_LIFE: life} | _numbered(opened), {})
        finally:
            os.close(life)
    try:
        yield
    finally:
        os.close(held)
        # It ends by itself as well, but nothing is to be waited for.
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def need_free_ports(publish: Iterable[Published]) -> None:
    """Raise Unavailable where one of the ports is somebody else's, before anything is started."""
    for item in publish:
        _listener(item).close()


def forwarder_argv(ports: Sequence[int], publish: Sequence[Published] = ()) -> tuple[str, ...]:
    """The process between: this Python, without anything of the user's."""
    folder = os.path.dirname(asset_path("gate"))
    words = [*map(str, ports), *(item.text() for item in publish)]
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, folder, *words)


def _opened(session: Session, ports: Sequence[int], publish: Sequence[Published]) -> Iterator[socket.socket]:
    """What the process listens on, in the order of its arguments."""
    if ports:
        os.mkdir(session.doors, 0o700)
    # The gate's first process is the caller as well.
    yield from (_door(f"{session.doors}/{port}", 0o600) for port in ports)
    if publish:
        os.mkdir(session.published)
        # Seen by the relay, which is somebody else; the directories above are the caller's alone.
        os.chmod(session.published, _SEEN)
    for item in publish:
        yield _listener(item)
        yield _door(f"{session.published}/{item.port}", 0o666, _OFFERS)


def _numbered(listeners: Sequence[socket.socket]) -> dict[int, int]:
    return {_FIRST + index: listener.fileno() for index, listener in enumerate(listeners)}


def _listener(item: Published) -> socket.socket:
    listener = socket.socket()
    try:
        # What a former run's clients have left behind is nobody's.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_ADDRESS, item.host))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"--publish {item.text()}: nothing can listen on {_ADDRESS}:{item.host} of this machine: {error.strerror}",
            hint=f"see who does: ss -ltnp 'sport = :{item.host}'; or take another port: --publish PORT:{item.port}",
        ) from error
    return listener


def _door(path: str, mode: int, backlog: int = _BACKLOG) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    os.chmod(path, mode)
    door.listen(backlog)
    return door
