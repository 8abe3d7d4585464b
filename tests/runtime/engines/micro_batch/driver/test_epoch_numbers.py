"""Epoch numbers over a job's drivers."""

import pytest

from pystate.common.errors import DriverReplacedError
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import RESERVED_AT_ONCE, EpochNumbers
from pystate.runtime.job_folder.driver_term import DriverTerm


def test_epoch_numbers_are_never_given_twice(tmp_path):
    numbers = EpochNumbers(tmp_path / "epochs.json")
    assert numbers.resume_above(-1) == -1
    numbers.reserve(0)
    numbers.reserve(7)
    after_a_crash = EpochNumbers(tmp_path / "epochs.json")
    assert after_a_crash.resume_above(5) >= 7
    assert after_a_crash.resume_above(10**6) == 10**6


def test_a_driver_that_was_replaced_takes_no_number_back(tmp_path):
    path, (old, new) = tmp_path / "epochs.json", (DriverTerm(tmp_path / "term.json") for _ in range(2))
    old.begin()
    replaced, follower = EpochNumbers(path, old.check), EpochNumbers(path, new.check)
    replaced.reserve(0)
    new.begin()
    above = follower.resume_above(-1)
    assert above >= 0, "what the old driver reserved before the takeover counts, however early the new one was made"
    follower.reserve(above + 1)
    replaced.reserve(RESERVED_AT_ONCE)  # within what it has reserved: nothing is written
    with pytest.raises(DriverReplacedError):
        replaced.reserve(RESERVED_AT_ONCE + 1)
    assert EpochNumbers(path).resume_above(-1) == above + 1 + RESERVED_AT_ONCE
