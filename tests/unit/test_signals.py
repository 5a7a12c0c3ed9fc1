"""Signals that a run waits for: which of our threads takes them in."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from aisb.effects.signals import EndedBySignal, ended_in_order, interrupt_postponed, left_to_others, number_of


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_must_not_be_cut_in_two_is_done_before_a_signal_ends_us(number: signal.Signals) -> None:
    done = []

    def work() -> None:
        with interrupt_postponed():
            os.kill(os.getpid(), number)
            done.append("whole")
        done.append("went on")

    with pytest.raises(KeyboardInterrupt) as raised, ended_in_order():
        work()

    assert (done, number_of(raised.value)) == (["whole"], number)


def test_afterwards_a_signal_does_what_it_did_before() -> None:
    with ended_in_order(), interrupt_postponed():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == [signal.SIG_DFL] * 2


def test_one_that_our_caller_ignores_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order(), interrupt_postponed():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_is_told_once() -> None:
    """What it has begun is not cut short by the next."""

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(EndedBySignal), ended_in_order():
        work()
