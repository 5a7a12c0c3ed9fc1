"""End a run from outside: by its aisb, which tidies up after it."""

from __future__ import annotations

import os
import select
import signal

from aisb.effects.session import Session, owner_of
from aisb.errors import Unavailable

# Longer than a command is given to heed SIGTERM, and its container to go.
_PATIENCE_MILLISECONDS = 30_000


def stop(session: Session) -> None:
    """Tell its aisb to end it, and wait until that has. Raises Unavailable where it does not."""
    process = owner_of(session)
    if not process:
        return
    try:
        owner = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        # Looked at again, now that the number can be nobody else's.
        if owner_of(session):
            signal.pidfd_send_signal(owner, signal.SIGTERM)
        poll = select.poll()
        poll.register(owner, select.POLLIN)
        if not poll.poll(_PATIENCE_MILLISECONDS):
            raise Unavailable(
                f"run {session.run} does not end", hint=f"see what holds it: podman ps; run {session.run}"
            )
    except ProcessLookupError:
        return
    finally:
        os.close(owner)
