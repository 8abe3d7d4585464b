"""How large an epoch is, and when it is worth to look."""

from __future__ import annotations

import pytest

from pystate.common import Row
from pystate.core.state.kinds.epoch_size import EpochGauge, mapping_size, object_size

BOUND = 128 << 20


def test_a_small_epoch_is_never_looked_at() -> None:
    gauge = EpochGauge(BOUND)
    assert not any(gauge.took(10_000, 100_000) for _ in range(2))


@pytest.mark.parametrize("bytes_per_record", [20, 300, 5_000])
def test_looks_are_few_and_in_time(bytes_per_record: int) -> None:
    """However much state a record makes, the bound is passed by little, and next to no look is for nothing."""
    gauge = EpochGauge(BOUND)
    held = looks = spills = 0
    for _ in range(4_000):
        held += 1_000 * bytes_per_record
        if gauge.took(1_000, 24_000):
            looks += 1
            if gauge.is_over(held):
                assert held < 1.3 * BOUND
                gauge.start()
                held = 0
                spills += 1
    assert looks <= 7 * (spills + 1)
    assert spills == pytest.approx(4_000_000 * bytes_per_record / BOUND, abs=max(1, spills // 5))


def test_an_epoch_without_memory_is_looked_at_at_once() -> None:
    gauge = EpochGauge(1)
    assert gauge.took(1, 1)
    assert gauge.is_over(1)


def test_what_an_object_holds_counts() -> None:
    text = "x" * 1_000
    plain = object_size(text)
    for one in ([text], (text,), {text: 1}, Row(text), [[[text]]], {1: {2: text}}):
        assert plain < object_size(one) < plain + 1_000, one
    assert object_size([text + str(n) for n in range(500)]) == pytest.approx(500 * plain, rel=0.1)
    endless: list[object] = []
    endless.append(endless)
    assert object_size(endless) < 1_000


def test_a_dict_is_measured_by_a_sample() -> None:
    entries = {f"{n:0500}": n for n in range(3_000)}
    assert mapping_size(entries) == pytest.approx(3_000 * (549 + 28) + 150_000, rel=0.1)
    assert mapping_size(entries, keys=False) < 400_000
    assert mapping_size({}) < 100
