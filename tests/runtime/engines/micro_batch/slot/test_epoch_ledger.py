import pytest

from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker, ClaimResult, EpochLedger

FIRST = Asker(stage_id=10, task_attempt_id=100)
RETRY = Asker(stage_id=10, task_attempt_id=107)
OTHER_ACTION = Asker(stage_id=11, task_attempt_id=103)


def test_a_new_epoch_runs_and_its_number_is_begun():
    ledger = EpochLedger()
    assert ledger.claim(0, FIRST) is ClaimResult.RUN
    assert ledger.running == (0, FIRST)
    ledger.prepare()
    assert (ledger.running, ledger.prepared) == (None, (0, FIRST))
    assert not ledger.is_between_epochs
    assert ledger.finish() == 0
    assert ledger.is_between_epochs


def test_a_finished_epoch_is_replayed_to_whoever_asks_again():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    ledger.prepare()
    ledger.finish()
    assert ledger.claim(0, RETRY) is ClaimResult.REPLAY
    assert ledger.claim(0, OTHER_ACTION) is ClaimResult.REPLAY


def test_who_asks_for_an_epoch_that_another_attempt_has_prepared_must_ask_spark_about_that_one():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    ledger.prepare()
    assert ledger.claim(0, RETRY) is ClaimResult.PREPARED
    assert ledger.claim(0, OTHER_ACTION) is ClaimResult.PREPARED
    assert ledger.claim(0, FIRST) is ClaimResult.REPLAY
    assert ledger.claim(1, RETRY) is ClaimResult.UNCONFIRMED
    ledger.roll_back()
    assert ledger.finished == -1
    assert ledger.claim(0, RETRY) is ClaimResult.RUN
    ledger.prepare()
    assert ledger.claim(0, FIRST) is ClaimResult.STALE


def test_only_a_prepared_epoch_can_be_finished_and_only_a_running_one_prepared():
    ledger = EpochLedger()
    with pytest.raises(RuntimeError):
        ledger.prepare()
    ledger.claim(0, FIRST)
    with pytest.raises(RuntimeError):
        ledger.finish()


def test_a_newer_attempt_of_the_same_task_fences_the_older():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    assert ledger.claim(0, RETRY) is ClaimResult.FENCE


def test_an_older_attempt_of_the_same_task_is_stale():
    ledger = EpochLedger()
    ledger.claim(0, RETRY)
    assert ledger.claim(0, FIRST) is ClaimResult.STALE


def test_another_action_waits_for_the_one_that_runs():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    assert ledger.claim(0, OTHER_ACTION) is ClaimResult.WAIT
    ledger.roll_back()
    assert ledger.claim(0, OTHER_ACTION) is ClaimResult.RUN


def test_a_rolled_back_epoch_can_run_again():
    ledger = EpochLedger()
    ledger.claim(3, FIRST)
    ledger.roll_back()
    assert ledger.finished == -1
    assert ledger.claim(3, RETRY) is ClaimResult.RUN


def test_the_output_of_an_epoch_is_gone_once_the_next_has_begun_even_if_that_was_rolled_back():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    ledger.prepare()
    ledger.finish()
    ledger.claim(1, FIRST)
    assert ledger.claim(0, RETRY) is ClaimResult.PAST
    ledger.roll_back()
    assert ledger.claim(0, RETRY) is ClaimResult.PAST


def test_a_later_epoch_takes_over_from_one_that_was_given_up():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    assert ledger.claim(1, OTHER_ACTION) is ClaimResult.FENCE


def test_epochs_up_to_the_restored_one_are_not_run_again():
    ledger = EpochLedger(finished=41)
    assert ledger.claim(40, FIRST) is ClaimResult.PAST
    assert ledger.claim(42, FIRST) is ClaimResult.RUN


def test_a_newer_attempt_takes_over_where_the_subtask_reads_its_rows_itself():
    ledger = EpochLedger(reads_itself=True)
    ledger.claim(0, FIRST)
    assert ledger.claim(0, RETRY) is ClaimResult.TAKE_OVER
    assert ledger.claim(0, OTHER_ACTION) is ClaimResult.WAIT
    assert ledger.claim(1, RETRY) is ClaimResult.FENCE
    ledger.prepare()
    assert ledger.take_over(RETRY)
    assert ledger.claim(0, FIRST) is ClaimResult.STALE
    assert ledger.claim(0, RETRY) is ClaimResult.REPLAY
    assert ledger.finish() == 0
    assert not ledger.take_over(OTHER_ACTION)


def test_only_rows_that_the_subtask_reads_itself_outlive_their_attempt():
    ledger = EpochLedger()
    ledger.claim(0, FIRST)
    ledger.prepare()
    assert not ledger.take_over(RETRY)
    assert ledger.claim(0, FIRST) is ClaimResult.REPLAY
