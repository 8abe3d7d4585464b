import pytest

from pystate.core.metrics.rates import Rates, RateWindow


def test_a_rate_is_taken_over_what_has_passed_while_that_is_less_than_the_span():
    window = RateWindow(60)
    assert window.rate == 0
    window.update(100, 50)
    assert window.rate == 0
    window.update(102, 70)
    assert window.rate == pytest.approx(10)
    window.update(102, 70)
    assert window.rate == pytest.approx(10)


def test_a_window_keeps_few_points_however_often_it_is_fed():
    window = RateWindow(60)
    for step in range(200_000):
        window.update(step / 1000, step)
    assert window.rate == pytest.approx(1000, rel=0.01)
    assert len(window._points) < 100


def test_each_count_has_a_rate_of_its_own():
    rates = Rates()
    assert (rates.of("a", 5, 0.0), rates.of("b", 7, 0.0)) == (0, 0)
    assert (rates.of("a", 6, 3.0), rates.of("b", 17, 2.0)) == (0.333, 5)


def test_a_new_count_grew_since_it_was_nothing():
    rates = Rates()
    assert rates.of("a", 8, 4.0, zero_at=2.0) == 4
    assert rates.of("b", 8, 4.0, zero_at=4.0) == 0
    assert rates.of("b", 9, 5.0, zero_at=0.0) == 1
