"""How long the proof of an epoch waits for Spark's record of it."""

from functools import partial

import pytest

from pystate.common.errors import IncompleteInputError
from pystate.common.processes.machine_load import PatientDeadline
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.spark import epoch_proof
from pystate.runtime.engines.micro_batch.spark.epoch_proof import EpochProof
from pystate.runtime.engines.micro_batch.spark.input_proof import StageFacts, TaskFacts

PREPARED = {("count", 0): PreparedEpoch(3, 5, 70, rows_read=10, rows_in=10, rows_out=10)}
WROTE = StageFacts(4, 1, True, 0, 10)
READ = StageFacts(5, 1, True, 10, 0)
RUNNING = StageFacts(5, 1, False, 0, 0, (TaskFacts(70, 0, TaskOutcome.RUNNING, 0, 0),))
RAN_AGAIN = StageFacts(5, 1, False, 0, 0, (TaskFacts(70, 0, TaskOutcome.SUCCEEDED, 10, 0),))


class Record:
    """A record that tells one thing after another, and the last one for ever."""

    def __init__(self, *told):
        self.told = list(told)
        self.now = 0.0
        self.caught_up = 0

    def stage(self, stage_id):
        if stage_id == 4:
            return WROTE
        return self.told.pop(0) if len(self.told) > 1 else self.told[0]

    def catch_up(self, timeout_s):
        self.caught_up += 1

    def check(self):
        def sleep(seconds):
            self.now += seconds

        EpochProof(self, repeatable=True, clock=lambda: self.now, sleep=sleep).check(3, PREPARED)


def test_a_record_that_is_there_is_read_once():
    record = Record(READ)
    record.check()
    assert (record.now, record.caught_up) == (0.0, 0)


def test_a_record_that_lags_a_little_is_looked_at_again():
    record = Record(RUNNING, RUNNING, READ)
    record.check()
    assert 0 < record.now < 0.01
    assert record.caught_up == 0


def test_where_tasks_ran_again_all_that_has_happened_must_be_known():
    record = Record(RAN_AGAIN)
    record.check()
    assert record.caught_up == 1


def test_an_epoch_that_is_not_whole_fails_when_all_is_known():
    record = Record(StageFacts(5, 1, True, 12, 0))
    with pytest.raises(IncompleteInputError, match="Epoch 3 is not whole: Spark's tasks of stage 5 have read 12 rows"):
        record.check()
    assert record.caught_up == 1


def test_an_epoch_of_which_spark_does_not_tell_fails_after_a_minute_of_a_machine_that_is_not_busy(monkeypatch):
    monkeypatch.setattr(epoch_proof, "PatientDeadline", partial(PatientDeadline, share=lambda: 1.0))
    record = Record(RUNNING)
    with pytest.raises(IncompleteInputError, match="does not tell of the end of task 70, which fed subtask 0 of count"):
        record.check()
    assert 60 <= record.now < 61
