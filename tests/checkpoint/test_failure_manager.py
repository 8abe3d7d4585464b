from __future__ import annotations

import re
from pathlib import Path

import pytest

import pystate
from pystate.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.checkpoint.failure_reason import CheckpointFailureReason

IGNORE = CheckpointFailureDecision.IGNORE
TOLERATE = CheckpointFailureDecision.TOLERATE
FAIL_JOB = CheckpointFailureDecision.FAIL_JOB
EXPIRED = CheckpointFailureReason.CHECKPOINT_EXPIRED


def test_every_reason_has_a_sentence_of_its_own_and_is_given_somewhere() -> None:
    assert len({reason.message for reason in CheckpointFailureReason}) == len(CheckpointFailureReason)
    rules = frozenset({"failure_reason", "failure_manager"})
    given = {
        reason
        for path in Path(pystate.__file__).parent.rglob("*.py")
        if path.stem not in rules
        for reason in re.findall(r"CheckpointFailureReason\.([A-Z_]+)", path.read_text())
    }
    assert given == {reason.name for reason in CheckpointFailureReason}


def test_by_default_the_first_failure_fails_the_job() -> None:
    assert CheckpointFailureManager(0).handle_failure(1, EXPIRED) is FAIL_JOB


def test_a_number_of_failures_in_a_row_is_tolerated() -> None:
    manager = CheckpointFailureManager(2)
    assert [manager.handle_failure(n, EXPIRED) for n in (1, 2, 3)] == [TOLERATE, TOLERATE, FAIL_JOB]
    assert manager.handle_failure(4, EXPIRED) is TOLERATE  # the count began anew with the restart


def test_a_success_breaks_the_row() -> None:
    manager = CheckpointFailureManager(1)
    manager.handle_failure(1, EXPIRED)
    manager.handle_success()
    assert manager.handle_failure(3, EXPIRED) is TOLERATE
    assert manager.continuous_failures == 1


def test_a_checkpoint_counts_once() -> None:
    manager = CheckpointFailureManager(1)
    assert manager.handle_failure(1, EXPIRED) is TOLERATE
    assert manager.handle_failure(1, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION) is TOLERATE
    assert manager.handle_failure(None, CheckpointFailureReason.IO_EXCEPTION) is FAIL_JOB


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
