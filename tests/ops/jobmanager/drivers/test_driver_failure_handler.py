"""What the end of a driver means for its job, decision by decision."""

from __future__ import annotations

import pytest

from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.drivers.driver_failure_handler import DriverFailureHandler, DueRestart
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import JobVerdict
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import FixedDelayRestartBackoffTimeStrategy

NOW = 1_000
RUNNING = JobStatusFile(JobStatus.RUNNING, "count", attempt=2)


@pytest.fixture
def directory(tmp_path):
    return JobDirectory(tmp_path)


@pytest.fixture
def handler(directory):
    return DriverFailureHandler("ab" * 16, directory, lambda: NOW)


def allow(directory, restarts, end_state=None):
    RecoveryTerms(FixedDelayRestartBackoffTimeStrategy(restarts, 50), end_state).write(directory)


def test_a_restart_counts_the_failure_and_is_due_after_the_delay(directory, handler):
    allow(directory, 1)
    due = handler.after_death(RUNNING, "It was killed.")
    assert isinstance(due, DueRestart)
    assert due.delay_ms == 50
    assert due.status.failure.message == "It was killed."
    assert (due.status.failure_count, due.status.failures[0].attempt) == (1, 2)

    due.terms.write(directory)
    assert handler.after_death(RUNNING, "It was killed.") is None, "the strategy allows one"


def test_what_a_driver_has_said_of_its_end_stays(directory, handler):
    allow(directory, 1)
    said = JobFailure("Spark is gone.", "SparkLostError")
    due = handler.after_death(RUNNING.with_failure(said, NOW), "It was killed.")
    assert isinstance(due, DueRestart)
    assert [failure.message for failure in due.status.failures] == ["Spark is gone."]


@pytest.mark.parametrize("status", [None, JobStatusFile(JobStatus.FINISHED), JobStatusFile(JobStatus.FAILED)])
def test_a_job_that_has_ended_or_whose_status_is_damaged_is_not_restarted(directory, handler, status):
    allow(directory, 1)
    assert handler.after_death(status, "It was killed.") is None


def test_nothing_is_restarted_without_a_submission_or_with_damaged_terms(directory, handler):
    assert handler.after_death(RUNNING, "It was killed.") is None
    directory.recovery.write_text("{")
    assert handler.after_death(RUNNING, "It was killed.") is None


def test_after_the_savepoint_of_its_stop_a_job_has_ended(directory, handler):
    allow(directory, 1, JobStatus.FINISHED)
    ended = JobVerdict(JobStatus.FINISHED, None, NOW)
    assert handler.after_death(RUNNING, "It was killed.") == ended
    assert handler.after_takeover() == ended


def test_a_takeover_goes_on_and_uses_up_no_restart(directory, handler):
    assert handler.after_takeover() is None
    allow(directory, 0)
    assert handler.after_takeover() is None


def test_without_a_last_word_a_job_was_cancelled_or_has_failed(handler):
    assert handler.without_last_word(RUNNING, "It was killed.", cancelled=True) == JobVerdict(JobStatus.CANCELED, None, NOW)
    failed = handler.without_last_word(None, "It was killed.", cancelled=False)
    assert (failed.state, failed.failure.message) == (JobStatus.FAILED, "It was killed.")
