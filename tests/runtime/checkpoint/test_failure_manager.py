from __future__ import annotations

import re
from pathlib import Path

import pytest

import pystate
from pystate.runtime.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason

IGNORE = CheckpointFailureDecision.IGNORE
TOLERATE = CheckpointFailureDecision.TOLERATE
FAIL_JOB = CheckpointFailureDecision.FAIL_JOB
EXPIRED = CheckpointFailureReason.CHECKPOINT_EXPIRED


# where each reason is given: there it happens, and nowhere else is it guessed
GIVEN = {
    "IO_EXCEPTION": {
        "runtime/checkpoint/checkpoint_trigger.py",
        "runtime/checkpoint/checkpoint_failures.py",
    },  # no directory, no id for it
    "TRIGGER_CHECKPOINT_FAILURE": {
        "runtime/checkpoint/pending_checkpoint.py",  # the cut of the sources can't be taken, or not be restored from
        "runtime/engines/micro_batch/driver/epoch_barriers.py",  # nobody could be asked
        "runtime/engines/real_time/driver/barriers.py",  # nor here
    },
    "CHECKPOINT_ASYNC_EXCEPTION": {
        "runtime/slot/subtask_checkpoints.py",
        "runtime/slot/gateway.py",  # what was written can't be acknowledged
        "runtime/execution/slots/slot_calls.py",  # nor be read
    },
    "CHECKPOINT_EXPIRED": {"runtime/checkpoint/pending_checkpoint.py"},
    "CHECKPOINT_SUBSUMED": {"runtime/checkpoint/checkpoint_completion.py"},
    "CHECKPOINT_DECLINED_SUBSUMED": {
        "runtime/engines/real_time/slot/input/checkpoint_barrier_tracker.py",
        "runtime/engines/real_time/slot/input_checkpoints.py",  # says it in words
        "runtime/engines/real_time/slot/input/single_checkpoint_barrier_handler.py",
    },
    "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER": {
        "runtime/engines/real_time/slot/input/checkpoint_barrier_tracker.py",
        "runtime/engines/real_time/slot/input/single_checkpoint_barrier_handler.py",
    },
    "CHECKPOINT_DECLINED": {"runtime/engines/micro_batch/driver/epoch_barriers.py"},  # a slot says no, or can't be reached
    "CHECKPOINT_COORDINATOR_SHUTDOWN": {
        "runtime/checkpoint/checkpoint_failures.py",  # with the job
        "runtime/checkpoint/stats/file.py",  # with the driver, as the next one finds out
    },
    "CHECKPOINT_COORDINATOR_SUSPEND": {
        "runtime/checkpoint/checkpoint_failures.py",  # with the attempt
        "runtime/checkpoint/checkpoint_coordinator.py",  # an epoch that was to carry it can't begin
    },
    "TASK_CHECKPOINT_FAILURE": {"runtime/slot/subtask_checkpoints.py"},
    "FINALIZE_CHECKPOINT_FAILURE": {
        "runtime/checkpoint/checkpoint_completion.py",
        "runtime/checkpoint/pending_checkpoints.py",  # too large for where it is kept
    },
}
RULES = {"runtime/checkpoint/failure_reason.py", "runtime/checkpoint/failure_manager.py"}  # list and count them


def test_every_reason_has_a_sentence_of_its_own_and_is_given_where_it_happens() -> None:
    assert len({reason.message for reason in CheckpointFailureReason}) == len(CheckpointFailureReason)
    root = Path(pystate.__file__).parent
    given: dict[str, set[str]] = {reason.name: set() for reason in CheckpointFailureReason}
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        for reason in re.findall(r"CheckpointFailureReason\.([A-Z_]+)", "" if name in RULES else path.read_text()):
            given[reason].add(name)
    assert given == GIVEN, "a reason is given in another place: change GIVEN, and say beside it why"


def test_by_default_the_first_failure_fails_the_job() -> None:
    assert CheckpointFailureManager(0).handle_failure(1, EXPIRED) is FAIL_JOB


def test_a_number_of_failures_in_a_row_is_tolerated() -> None:
    manager = CheckpointFailureManager(2)
    assert [manager.handle_failure(n, EXPIRED) for n in (1, 2, 3)] == [TOLERATE, TOLERATE, FAIL_JOB]
    assert manager.handle_failure(4, EXPIRED) is TOLERATE  # the count started over with the restart


def test_a_success_breaks_the_row() -> None:
    manager = CheckpointFailureManager(1)
    manager.handle_failure(1, EXPIRED)
    manager.reset()
    assert manager.handle_failure(3, EXPIRED) is TOLERATE
    assert manager.continuous_failures == 1


def test_a_checkpoint_counts_once() -> None:
    manager = CheckpointFailureManager(1)
    assert manager.handle_failure(1, EXPIRED) is TOLERATE
    assert manager.handle_failure(1, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION) is TOLERATE
    assert manager.handle_failure(2, CheckpointFailureReason.IO_EXCEPTION) is FAIL_JOB


def test_savepoints_never_count() -> None:
    assert CheckpointFailureManager(0).handle_failure(1, EXPIRED, is_savepoint=True) is IGNORE


@pytest.mark.parametrize(
    "name",
    [
        "CHECKPOINT_SUBSUMED",
        "CHECKPOINT_COORDINATOR_SUSPEND",
        "CHECKPOINT_COORDINATOR_SHUTDOWN",
        "TASK_CHECKPOINT_FAILURE",
    ],
)
def test_what_says_nothing_about_checkpointing_is_ignored(name: str) -> None:
    assert CheckpointFailureManager(0).handle_failure(1, CheckpointFailureReason[name]) is IGNORE


@pytest.mark.parametrize(
    "name", ["IO_EXCEPTION", "CHECKPOINT_ASYNC_EXCEPTION", "CHECKPOINT_EXPIRED", "FINALIZE_CHECKPOINT_FAILURE"]
)
def test_trouble_with_writing_counts(name: str) -> None:
    assert CheckpointFailureManager(0).handle_failure(1, CheckpointFailureReason[name]) is FAIL_JOB
