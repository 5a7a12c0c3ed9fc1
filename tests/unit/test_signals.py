"""Signals that a run waits for: which of our threads takes them in."""

from __future__ import annotations

import signal
import threading

from aisb.effects.signals import left_to_others


def test_a_thread_that_leaves_them_to_others_takes_in_none_that_somebody_waits_for() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    masks: list[set[int]] = []
    with left_to_others():
        thread = threading.Thread(target=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        thread.start()
    thread.join()

    waited_for = {
        signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN
    }  # fmt: skip
    assert (waited_for <= masks[0], signal.pthread_sigmask(signal.SIG_BLOCK, ())) == (True, before)
