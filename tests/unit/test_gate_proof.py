"""What a gate remembers of the questions by which it proves itself."""

from __future__ import annotations

from gate.proof import Arrivals


def test_nothing_that_others_say_is_kept_or_drives_out_what_is_waited_for() -> None:
    """Any sandbox gets to the place that a gate asks itself at, and may say there what it likes."""
    arrivals = Arrivals()
    arrivals.await_all([b"one", b"two"])
    arrivals.note(b"one")
    for number in range(2000):
        arrivals.note(number.to_bytes(16, "big"))

    assert arrivals.take([b"one", b"two", b"three"]) == [True, False, False]

    arrivals.note(b"one")
    assert arrivals.take([b"one"]) == [False]
