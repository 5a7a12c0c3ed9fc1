"""`aisb serve`: a sandbox for the program on stdin and stdout, which says what is to be done in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aisb.cli.output import say
from aisb.cli.run import run
from aisb.effects.serve import Service, need_pipes
from aisb.effects.signals import ended_in_order
from aisb.errors import AisbError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from aisb.cli.splitter import Split
    from aisb.effects.decisions import News
    from aisb.effects.session import Session


def serve(split: Split, verbs: frozenset[str]) -> int:
    """Start it, and serve calls until end of file."""
    if split.has("dry-run") or any(name.startswith("print-") for name, _ in split.flags):
        return run(split, verbs)
    need_pipes()
    service = Service(answer_own, _watch)
    return lent(service, lambda: run(split, verbs, service=service))


def lent(service: Service, work: Callable[[], int]) -> int:
    """Have that done for the client, which may hang up at any moment of it; the exit code of aisb."""
    # Also where our caller has us ignore ^C: what ends the start then is a signal that would end us on the spot.
    with ended_in_order():
        try:
            # Whoever has hung up by now has the start end before it has begun.
            service.begin()
            code = work()
        except AisbError as error:
            service.fail(error)
            raise
        except KeyboardInterrupt:
            # A client that hung up before there was a sandbox ends it so.
            if not service.is_over():
                raise
            code = 0
        if service.fault():
            say(f"the client said what no client says: {service.fault()}")
        return service.exit_code(code)


def answer_own(session: Session, method: str, params: dict[str, object]) -> dict[str, object]:
    """`allow` and `deny` of a client, as the verbs have them."""
    from aisb.cli.live import checked_entry, say_entry

    if params.get("check"):
        return checked_entry(session, method, str(params["entry"]))
    seconds = params.get("seconds", 0)
    return say_entry(session, method, str(params["entry"]), seconds if isinstance(seconds, int) else 0)


def _watch(session: Session, tell: Callable[[News], None], ended: threading.Event) -> None:
    """Tell what the gate decides, while it does."""
    from aisb.effects.decisions import follow_decisions

    follow_decisions(session, tell, ended)
