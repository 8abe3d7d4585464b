"""The status of a job over its drivers: the history of its failures."""

import pytest

from pystate.common.errors import JobExecutionError, UserFunctionError
from pystate.common.files.home import JobDirectory, read_json
from pystate.common.job_status import JobStatus
from pystate.runtime.execution.status import JobStatusStore, failure_dict
from pystate.runtime.job_folder.failure_history import MAX_FAILURES, MAX_STACK_TRACE, JobFailure, bounded_trace
from pystate.runtime.job_folder.job_status_file import IllegalJobStatusMoveError, JobStatusFile


@pytest.fixture
def directory(tmp_path):
    return JobDirectory(tmp_path)


def failure(message="no", trace="Trace"):
    return failure_dict(UserFunctionError(message, where="count"), trace)


def has_failed(status):
    return JobStatusFile.from_plain(status).has_failed


def test_what_a_job_waits_for_is_known_until_it_moves_on(directory):
    status = JobStatusStore(directory, "job")
    status.waits("Waiting for 6 cores.")
    assert read_json(directory.status)["waits_for"] == "Waiting for 6 cores."
    status.update(JobStatus.CREATED)
    assert read_json(directory.status)["waits_for"] is None
    status.waits("Waiting for 6 cores.")
    status.waits(None)
    assert read_json(directory.status)["waits_for"] is None
    status.update(JobStatus.FAILED)
    status.waits("too late")
    assert status.snapshot()["waits_for"] is None


def test_failures_are_kept_with_their_attempt_the_newest_first(directory):
    status = JobStatusStore(directory, "job")
    status.update(JobStatus.CREATED)
    status.update(JobStatus.RUNNING)
    assert not has_failed(status.snapshot())
    status.update(JobStatus.RESTARTING, failure=failure("first"), attempt=1)
    assert not has_failed(status.snapshot())
    status.update(JobStatus.FAILED, failure=failure("second"))

    data = read_json(directory.status)
    assert [(one["attempt"], one["message"]) for one in data["failures"]] == [(1, "second"), (0, "first")]
    assert data["failures"][0] | {"timestamp": 0} == {
        "class": "UserFunctionError",
        "message": "second",
        "where": "count",
        "hint": None,
        "stack_trace": "Trace",
        "attempt": 1,
        "timestamp": 0,
    }
    assert data["failures"][0]["timestamp"] == data["timestamps"]["FAILED"]
    assert has_failed(data)
    assert not status.update(JobStatus.FAILED, failure=failure("after the end"))
    assert read_json(directory.status)["failure_count"] == 2


def test_the_next_driver_goes_on_with_the_history(directory):
    status = JobStatusStore(directory, "job")
    status.report_failure(failure_dict(JobExecutionError("Spark is gone."), ""))
    assert has_failed(status.snapshot())
    assert status.state is JobStatus.INITIALIZING

    again = JobStatusStore(directory, "job")
    again.update(JobStatus.RESTARTING, failure=failure(), attempt=1)

    assert [one["message"] for one in again.snapshot()["failures"]] == ["no", "Spark is gone."]


def test_only_the_last_failures_are_kept_and_all_are_counted():
    status = JobStatusFile.begun("job", 0)
    for number in range(MAX_FAILURES + 4):
        status = status.with_failure(JobFailure.from_plain(failure(str(number))), number).restarting(number)
    assert [one.timestamp for one in status.failures] == list(range(MAX_FAILURES + 3, 3, -1))
    assert [one.attempt for one in status.failures] == list(range(MAX_FAILURES + 3, 3, -1))
    assert status.failure_count == MAX_FAILURES + 4


def test_a_long_stack_trace_keeps_its_ends():
    assert bounded_trace("x" * MAX_STACK_TRACE) == "x" * MAX_STACK_TRACE
    text = "begin " + "x" * 100_000 + " end"
    short = bounded_trace(text)
    assert len(short) < MAX_STACK_TRACE + 60
    assert short.startswith("begin ")
    assert short.endswith(" end")
    assert f"\n... {len(text) - MAX_STACK_TRACE} characters are left out ...\n" in short
    status = JobStatusFile.begun("job", 0).with_failure(JobFailure.from_plain(failure(trace=text)), 1)
    assert status.failures[0].stack_trace == short


def test_what_an_attempt_tells_of_its_progress_does_not_take_a_cancel_back(directory):
    status = JobStatusStore(directory, "job")
    status.update(JobStatus.CREATED)
    assert status.update(JobStatus.CANCELLING)
    assert not status.update(JobStatus.CREATED)
    assert not status.update(JobStatus.RUNNING)
    assert status.state is JobStatus.CANCELLING
    assert list(read_json(directory.status)["timestamps"]) == ["CANCELLING", "CREATED", "INITIALIZING"]
    assert status.update(JobStatus.CANCELED)


def test_a_move_that_no_job_makes_is_an_error(directory):
    status = JobStatusStore(directory, "job")
    with pytest.raises(IllegalJobStatusMoveError, match="INITIALIZING and can't become RUNNING"):
        status.update(JobStatus.RUNNING)
    assert read_json(directory.status)["state"] == "INITIALIZING"
