"""End runs from outside: each by its aisb, which tidies up after it."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from aisb.effects.session import owner_of
from aisb.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aisb.effects.session import Session

# Longer than a command is given to heed SIGTERM, and its container to go.
_PATIENCE_SECONDS = 30.0


def stop(sessions: Sequence[Session], patience_seconds: float = _PATIENCE_SECONDS) -> None:
    """
    Tell the aisb of each to end it, and wait until they have.

    Raises Unavailable for the first that does not; the others have been told as well.
    """
    with ExitStack() as stack:
        told = [(session, owner) for session in sessions if (owner := _tell(session, stack)) is not None]
        end = time.monotonic() + patience_seconds
        stuck = [session.run for session, owner in told if not _has_ended(owner, end - time.monotonic())]
    for run in stuck:
        raise Unavailable(f"run {run} does not end", hint=f"see what holds it: podman ps; run {run}")


def _tell(session: Session, stack: ExitStack) -> int | None:
    """A descriptor of its aisb, which has been told; None where that has gone."""
    process = owner_of(session)
    if not process:
        return None
    try:
        owner = os.pidfd_open(process)
        stack.callback(os.close, owner)
        # Looked at again, now that the number can be nobody else's.
        if owner_of(session):
            signal.pidfd_send_signal(owner, signal.SIGTERM)
    except ProcessLookupError:
        return None
    return owner


def _has_ended(owner: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(owner, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))
