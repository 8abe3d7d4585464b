"""Counters, meters and distributions, as functions use them."""

import pytest

from pystate.datastream import Counter, Distribution, Meter


def test_a_counter_goes_up_and_down():
    counter = Counter()
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert counter.get_count() == 3


def test_a_distribution_has_the_least_and_the_greatest_also_below_zero():
    seen = Distribution()
    assert (seen.get_count(), seen.get_mean()) == (0, 0)
    for value in (-5, -9, -2):
        seen.update(value)
    assert (seen.get_count(), seen.get_sum(), seen.get_min(), seen.get_max()) == (3, -16, -9, -2)
    assert seen.get_mean() == pytest.approx(-16 / 3)


def test_a_meter_counts_events_and_its_rate_is_that_of_its_own_span():
    meter = Meter(10)
    meter.look(0)
    for second in range(1, 31):
        meter.mark_event(2 if second <= 15 else 4)
        meter.look(second)
    assert meter.get_count() == 15 * 2 + 15 * 4
    assert meter.get_rate() == pytest.approx(4)
