from __future__ import annotations

from typing import Any

import pytest

from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.serialized_throwable import serialized_throwable

JOB = "83f146a87b5572d7c71730b6a8b1dbae"
VERTEX = {"id": "9f" * 16, "uid": "count", "name": "count -> print", "parallelism": 3, "status": "RUNNING"}


def status(state: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    return {
        "state": state,
        "name": "keyed-count",
        "parallelism": 3,
        "max_parallelism": 128,
        "start_time": 1000,
        "end_time": -1,
        "timestamps": {"INITIALIZING": 1000, "CREATED": 1600, "RUNNING": 1900},
        "attempt": 0,
        "failure": None,
        "failures": [],
        "failure_count": 0,
        "vertices": [{**VERTEX, "status": state}],
        "plan_warnings": [],
        **changes,
    }


def failed() -> dict[str, Any]:
    failure = {"class": "RestoreError", "message": "no", "where": "count", "hint": "run -n", "stack_trace": "Trace\nno"}
    times = {"INITIALIZING": 1000, "FAILED": 1500}
    history = {"failures": [{**failure, "attempt": 2, "timestamp": 1500}], "failure_count": 1}
    return status("FAILED", end_time=1500, failure=failure, timestamps=times, attempt=2, **history)


def test_progress_has_what_the_driver_knows_and_none_for_the_rest():
    known = {"name": "keyed-count", "state": "RUNNING", "attempt": 0, "start-time": 1000, "end-time": -1}

    restore = {"checkpoint_id": 4, "bytes": 7, "total": 9}
    counts = {"engine": "micro-batch", "epoch": 7, "records_in": 20, "records_out": 10}
    assert messages.progress(status(**counts, restore=restore, watermark=-5, watermark_task="count")).to_plain() == {
        **known,
        "engine": "micro-batch",
        "epoch": 7,
        "records-in": 20,
        "records-out": 10,
        "epoch-durations": [],
        "epoch-running": None,
        "epochs": [],
        "backlog": None,
        "restore": {"checkpoint-id": 4, "bytes": 7, "total": 9},
        "watermark": -5,
        "watermark-task": "count",
    }
    of_rows = ("records-in", "records-out", "backlog", "restore", "watermark", "watermark-task")
    unknown = dict.fromkeys(("engine", "epoch", "epoch-running", *of_rows))
    assert messages.progress(status()).to_plain() == {**known, **unknown, "epoch-durations": [], "epochs": []}


def test_an_operation_in_progress_tells_how_far_it_is():
    operation = {"status": "IN_PROGRESS", "acknowledged": 1, "total": 3, "bytes": 2048, "waits_for_epoch": 2}

    assert messages.savepoint_result(operation).to_plain() == {
        "status": {"id": "IN_PROGRESS"},
        "operation": None,
        "pystate": {"acknowledged": 1, "total": 3, "bytes": 2048, "waits_for_epoch": 2},
    }


def test_a_summary_has_flinks_fields_and_counts_subtasks():
    summary = messages.job_summary(JOB, status(), now=5000).to_plain()

    assert summary == {
        "jid": JOB,
        "name": "keyed-count",
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": 1000,
        "end-time": -1,
        "duration": 4000,
        "state": "RUNNING",
        "last-modification": 1900,
        "tasks": {
            "running": 3,
            "canceling": 0,
            "canceled": 0,
            "total": 3,
            "created": 0,
            "scheduled": 0,
            "deploying": 0,
            "reconciling": 0,
            "finished": 0,
            "initializing": 0,
            "failed": 0,
        },
        "pending-operators": 0,
        "pystate": {"restarts": 0, "application-id": None, "silent-since": None, "embedded": None},
    }


def test_details_name_every_state_with_a_zero_for_those_never_entered():
    details = messages.job_details(JOB, status(), now=5000).to_plain()

    assert details["timestamps"] == {
        "RUNNING": 1900,
        "SUSPENDED": 0,
        "INITIALIZING": 1000,
        "RECONCILING": 0,
        "FINISHED": 0,
        "FAILED": 0,
        "CANCELED": 0,
        "CANCELLING": 0,
        "FAILING": 0,
        "CREATED": 1600,
        "RESTARTING": 0,
    }
    assert details["vertices"][0]["tasks"]["RUNNING"] == 3
    assert details["status-counts"]["RUNNING"] == 1
    assert details["plan"]["nodes"][0]["description"] == "count -> print"


@pytest.mark.parametrize(
    ("job_state", "task_state"),
    [("INITIALIZING", "CREATED"), ("RESTARTING", "CREATED"), ("CANCELLING", "CANCELING"), ("CANCELED", "CANCELED")],
)
def test_tasks_have_flinks_names_for_their_states(job_state, task_state):
    vertex = messages.job_details(JOB, status(job_state), now=5000).to_plain()["vertices"][0]

    assert vertex["status"] == task_state
    assert vertex["tasks"][task_state] == 3


def test_a_job_that_runs_has_no_result():
    assert messages.execution_result(JOB, status()).to_plain() == {"status": {"id": "IN_PROGRESS"}}


@pytest.mark.parametrize(("state", "outcome"), [("FINISHED", "SUCCEEDED"), ("CANCELED", "CANCELED")])
def test_a_job_that_ended_has_its_outcome_and_run_time(state, outcome):
    result = messages.execution_result(JOB, status(state, end_time=9155)).to_plain()["job-execution-result"]

    assert (result["application-status"], result["net-runtime"]) == (outcome, 8155)
    assert "failure-cause" not in result


def test_a_failed_job_has_a_cause_with_a_stack_trace_and_our_error():
    result = messages.execution_result(JOB, failed()).to_plain()["job-execution-result"]

    assert result["failure-cause"] == {
        "class": "RestoreError",
        "stack-trace": "Trace\nno",
        "serialized-throwable": serialized_throwable("RestoreError", "no", "Trace\nno"),
        "pystate": {"class": "RestoreError", "message": "no", "where": "count", "hint": "run -n"},
    }


def test_exceptions_are_empty_until_something_fails():
    assert messages.exceptions(status()).to_plain() == {"exceptionHistory": {"entries": [], "truncated": False}}
    assert messages.exceptions(failed()).to_plain() == {
        "exceptionHistory": {
            "entries": [
                {
                    "exceptionName": "RestoreError",
                    "stacktrace": "Trace\nno",
                    "timestamp": 1500,
                    "failureLabels": {},
                    "taskName": None,
                    "endpoint": None,
                    "taskManagerId": None,
                    "concurrentExceptions": [],
                    "pystate": {"class": "RestoreError", "message": "no", "where": "count", "hint": "run -n", "attempt": 2},
                }
            ],
            "truncated": False,
        }
    }


def test_exceptions_say_that_there_were_more():
    many = failed()
    many["failures"] = [{**many["failures"][0], "attempt": number} for number in (3, 2, 1)]
    many["failure_count"] = 3
    assert not messages.exceptions(many).to_plain()["exceptionHistory"]["truncated"]
    two = messages.exceptions(many, 2).to_plain()["exceptionHistory"]
    assert ([one["pystate"]["attempt"] for one in two["entries"]], two["truncated"]) == ([3, 2], True)
    assert messages.exceptions({**many, "failure_count": 4}).to_plain()["exceptionHistory"]["truncated"]


def test_an_operation_under_way_has_no_result_but_its_progress():
    answer = messages.savepoint_result({"status": "IN_PROGRESS", "acknowledged": 1, "total": 3, "bytes": 9}).to_plain()

    assert answer == {
        "status": {"id": "IN_PROGRESS"},
        "operation": None,
        "pystate": {"acknowledged": 1, "total": 3, "bytes": 9},
    }


def test_results_of_operations_have_flinks_fields():
    done = {"status": "COMPLETED"}
    failure = {"class": "SnapshotError", "message": "disk full"}

    savepoint = messages.savepoint_result({**done, "kind": "savepoint", "location": "/s"}).to_plain()
    checkpoint = messages.checkpoint_result({**done, "kind": "checkpoint", "checkpoint_id": 22}).to_plain()
    no_savepoint = messages.savepoint_result({**done, "kind": "stop", "failure": failure}).to_plain()
    no_checkpoint = messages.checkpoint_result({**done, "kind": "checkpoint", "failure": failure}).to_plain()

    assert savepoint["operation"] == {"location": "/s"}
    assert checkpoint["operation"] == {"checkpointId": 22}
    assert no_savepoint["operation"]["failure-cause"]["stack-trace"] == "SnapshotError: disk full"
    assert list(no_checkpoint["operation"]) == ["failureCause"]


def test_the_overview_counts_jobs_by_how_they_ended():
    statuses = [status(), status("RESTARTING"), status("CANCELED"), failed(), status("FINISHED"), status("FINISHED")]

    overview = messages.overview(statuses).to_plain()

    names = ("taskmanagers", "slots-total", "jobs-running", "jobs-finished", "jobs-cancelled", "jobs-failed")
    assert [overview[name] for name in names] == [2, 6, 2, 2, 1, 1]
