"""A bucket of tokens."""

from __future__ import annotations

import time

from gate.limits import Bucket, Limits


def test_a_burst_and_then_no_more_than_the_rate() -> None:
    bucket = Bucket(Limits(a_second=50.0, burst=5.0))
    begun = time.monotonic()

    taken = [bucket.take() for _ in range(1000)]

    assert taken[:5] == [True] * 5
    # Whoever is held up meanwhile earns what comes in that time.
    assert taken.count(True) <= 5 + 50 * (time.monotonic() - begun)
    assert bucket.wait_seconds == 0.02
    while not bucket.take():
        assert time.monotonic() - begun < 30


def test_who_waits_has_a_place_in_the_queue() -> None:
    bucket = Bucket(Limits(a_second=0.01, burst=2.0))

    # To ten seconds: so little is what passes meanwhile.
    assert [round(bucket.claim(), -1) for _ in range(5)] == [0.0, 0.0, 100.0, 200.0, 300.0]


def test_what_is_not_used_is_kept_up_to_the_burst_and_no_further() -> None:
    bucket = Bucket(Limits(a_second=1000.0, burst=3.0))
    begun = time.monotonic()
    while time.monotonic() - begun < 0.02:
        pass

    begun = time.monotonic()
    taken = [bucket.take() for _ in range(20)]

    assert taken[:3] == [True] * 3
    assert taken.count(True) <= 3 + 1000 * (time.monotonic() - begun)
