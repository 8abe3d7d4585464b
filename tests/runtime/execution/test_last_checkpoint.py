"""The end of a bounded job: after its last checkpoint, and after the commits of its sinks."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pystate.common.errors import CommitError, JobExecutionError
from pystate.runtime.execution import execution_attempt
from pystate.runtime.execution.execution_attempt import AttemptEnd, AttemptOutcome, ExecutionAttempt
from tests.runtime.checkpoint.harness import in_thread
from tests.waiting import ends, wait_until


def read(monkeypatch, completed, *, commits):
    """Let all records of an attempt be through; return it."""
    monkeypatch.setattr(execution_attempt, "commits", lambda plan: commits)
    monkeypatch.setattr(execution_attempt, "writes_to_sinks", lambda plan: commits)
    attempt = attempt_with(None if completed is None else Future())
    if completed is not None:
        attempt._coordinator.final_checkpoint().set_result(completed)
    ExecutionAttempt.sources_read(attempt)
    return attempt


def attempt_with(last):
    attempt = Mock(_coordinator=Mock(final_checkpoint=Mock(return_value=last)), _end=None, _ended=threading.Condition())
    attempt._wake = partial(ExecutionAttempt._wake, attempt)
    return attempt


def last(*, heard):
    return SimpleNamespace(checkpoint_id=7, path="file:/chk-7", heard=heard)


def ended(attempt):
    return [call.args[0].outcome for call in attempt.end.call_args_list]


def test_a_job_whose_sinks_have_not_heard_of_the_last_checkpoint_starts_from_it(monkeypatch):
    with pytest.raises(CommitError, match="Not all subtasks have heard that checkpoint 7 is complete"):
        read(monkeypatch, last(heard=False), commits=True)


@pytest.mark.parametrize(("heard", "commits"), [(True, True), (False, False)])
def test_a_job_ends_at_its_last_checkpoint(monkeypatch, heard, commits):
    attempt = read(monkeypatch, last(heard=heard), commits=commits)
    assert ended(attempt) == [AttemptOutcome.FINISHED]
    assert not attempt._pool.call_all.called


def test_without_checkpoints_sinks_commit_at_the_end_and_a_job_where_they_can_not_has_failed(monkeypatch):
    attempt = read(monkeypatch, None, commits=True)
    assert attempt._pool.call_all.call_args.args[0] == "commit_rest"
    assert ended(attempt) == [AttemptOutcome.FINISHED]
    broken = attempt_with(None)
    broken._pool.call_all.side_effect = JobExecutionError("no")
    with pytest.raises(JobExecutionError, match="no"):
        ExecutionAttempt.sources_read(broken)
    assert not broken.end.called


@pytest.mark.parametrize("outcome", [AttemptOutcome.FINISHED, AttemptOutcome.FAILED])
def test_a_last_checkpoint_never_comes_after_the_savepoint_of_a_stop_and_nobody_waits_for_it(outcome):
    attempt = attempt_with(Future())
    reading = in_thread(lambda: ExecutionAttempt.sources_read(attempt))
    wait_until(lambda: attempt._coordinator.final_checkpoint.called)
    attempt._end = AttemptEnd(outcome)  # as `end` does it, which the savepoint calls
    attempt._wake()
    assert ends(reading)
    assert not attempt.end.called


def test_a_last_checkpoint_that_comes_late_is_waited_for():
    attempt = attempt_with(Future())
    reading = in_thread(lambda: ExecutionAttempt.sources_read(attempt))
    wait_until(lambda: attempt._coordinator.final_checkpoint.called)
    attempt._coordinator.final_checkpoint().set_result(last(heard=True))
    assert ends(reading)
    assert ended(attempt) == [AttemptOutcome.FINISHED]
