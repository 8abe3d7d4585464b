"""`AT_LEAST_ONCE`: after a failure some records count twice, none is lost; with `EXACTLY_ONCE` each counts once."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common.job_status import JobStatus
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob, printed_pairs
from tests.runtime.engines.real_time.driver.programs import KEYS, late_barriers
from tests.waiting import wait_until

COUNT = 24_000
"""More than are read, at 800 a second, until there are checkpoints, however slow the machine is."""


def counted_over_a_failure(tmp_path, capsys, mode):
    """Return what each key was counted to by a job of which a slot was killed, where barriers came late on one channel."""
    gate = tmp_path / "gate"
    program = late_barriers(COUNT, 800, 0.3, str(gate))
    one = RealTimeJob(tmp_path / "aaaaaaaa", program, **{"execution.checkpointing.mode": mode})
    try:
        wait_until(lambda: one.error or (tmp_path / "late").exists())
        one.await_checkpoints(2)  # one was under way
        one.kill_slot(0)
        one.await_attempt(1)
        gate.touch()
        assert one.end() is JobStatus.FINISHED
        assert one.coordinator.statistics()["counts"]["restored"] == 1
    finally:
        one.close()
    most = Counter()
    for key, count in printed_pairs(capsys.readouterr().out):
        most[key] = max(most[key], count)
    return most


EACH_ONCE = Counter(number % KEYS for number in range(COUNT))


def test_records_after_an_early_barrier_count_twice_after_a_failure(tmp_path, capsys):
    counted = counted_over_a_failure(tmp_path, capsys, "AT_LEAST_ONCE")
    assert all(counted[key] >= count for key, count in EACH_ONCE.items()), "a record was lost"
    assert counted.total() > EACH_ONCE.total()


def test_each_record_counts_once_where_early_channels_wait(tmp_path, capsys):
    assert counted_over_a_failure(tmp_path, capsys, "EXACTLY_ONCE") == EACH_ONCE


@pytest.mark.parametrize("mode", ["EXACTLY_ONCE", "AT_LEAST_ONCE"])
def test_without_a_failure_both_are_the_same(tmp_path, capsys, mode):
    program = late_barriers(600, 800, 0.1, str(tmp_path / "never"))
    one = RealTimeJob(tmp_path / "aaaaaaaa", program, **{"execution.checkpointing.mode": mode})
    try:
        assert one.end() is JobStatus.FINISHED
    finally:
        one.close()
    pairs = printed_pairs(capsys.readouterr().out)
    assert len(pairs) == len(set(pairs)) == 600
