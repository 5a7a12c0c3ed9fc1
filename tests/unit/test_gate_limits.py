"""A bucket of tokens."""

from __future__ import annotations

import time

from gate.limits import Bucket, Limits


def test_a_burst_and_then_no_more_than_the_rate() -> None:
    bucket = Bucket(Limits(a_second=50.0, burst=5.0))

    assert [bucket.take() for _ in range(7)] == [True] * 5 + [False] * 2
    assert bucket.wait_seconds == 0.02
    begun = time.monotonic()
    while not bucket.take():
        assert time.monotonic() - begun < 5
    assert time.monotonic() - begun > 0.01


def test_who_waits_has_a_place_in_the_queue() -> None:
    bucket = Bucket(Limits(a_second=10.0, burst=2.0))

    assert [round(bucket.claim(), 1) for _ in range(5)] == [0.0, 0.0, 0.1, 0.2, 0.3]


def test_what_is_not_used_is_kept_up_to_the_burst_and_no_further() -> None:
    bucket = Bucket(Limits(a_second=1000.0, burst=3.0))
    begun = time.monotonic()
    while time.monotonic() - begun < 0.02:
        pass

    assert [bucket.take() for _ in range(3)] == [True] * 3
    assert not bucket.take()
