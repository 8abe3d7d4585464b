from __future__ import annotations

from pystate.core.metrics.rate_meter import RateMeter


def test_a_rate_is_taken_over_the_last_seconds():
    meter = RateMeter(5.0)
    assert meter.rate is None
    meter.add(10.0, 100)
    assert meter.rate is None
    meter.add(12.0, 300)
    assert meter.rate == 100
    for moment in range(13, 30):
        meter.add(moment, 300)
    assert meter.rate == 0


def test_bursts_are_levelled():
    meter = RateMeter(5.0)
    for second in range(60):
        meter.add(float(second), second // 5 * 500)

    assert meter.rate == 100


def test_while_an_epoch_runs_the_rate_stays_and_is_that_of_whole_epochs():
    meter = RateMeter(5.0)
    meter.add(0.0, 0)
    for second in range(1, 60):
        ended = second // 20  # each takes 20 s and has 1000 rows
        meter.add(float(second), ended * 1000, under_way=True)
        assert meter.rate == (None if second < 20 else 50)
    for second in range(60, 80):  # nothing comes any more
        meter.add(float(second), 2000)
    assert meter.rate == 0


def test_a_counter_that_begins_anew_gives_no_negative_rate():
    meter = RateMeter(5.0)
    meter.add(1.0, 1000)
    meter.add(2.0, 10)
    assert meter.rate is None
    meter.add(3.0, 20)
    assert meter.rate == 10


def test_samples_without_a_count_are_left_out():
    meter = RateMeter()
    meter.add(1.0, None)
    meter.add(1.0, 5)
    meter.add(1.0, 6)

    assert meter.rate is None
