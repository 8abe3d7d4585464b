"""`status.json`: its shape, and the moves between a job's states."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import JobDirectory, read_json, write_json
from pystate.common.job_status import JobStatus
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_status_file import IllegalJobStatusMoveError, JobStatusFile, JobVertexStatus

LEGAL = {
    "INITIALIZING": "CREATED RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "CREATED": "CREATED RUNNING RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "RUNNING": "RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "RESTARTING": "CREATED RUNNING RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "CANCELLING": "RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "FAILED": "",
    "CANCELED": "",
    "FINISHED": "",
    "FAILING": "RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "SUSPENDED": "RESTARTING CANCELLING FAILED CANCELED FINISHED",
    "RECONCILING": "RESTARTING CANCELLING FAILED CANCELED FINISHED",
}

FAILURE = {"class": "RecordError", "message": "no", "where": "count", "hint": None, "stack_trace": "Trace"}
PLAIN: dict[str, Any] = {
    "state": "RUNNING",
    "name": "count",
    "parallelism": 2,
    "max_parallelism": 128,
    "start_time": 10,
    "end_time": -1,
    "timestamps": {"INITIALIZING": 10, "CREATED": 11, "RUNNING": 12},
    "attempt": 1,
    "failure": {**FAILURE, "table": [["a", "b"]]},
    "failures": [{**FAILURE, "attempt": 0, "timestamp": 11}],
    "failure_count": 1,
    "vertices": [{"id": "ab" * 16, "uid": "count", "name": "count", "parallelism": 2, "status": "RUNNING"}],
    "plan": [{"id": "source", "inputs": []}],
    "plan_warnings": ["no uid"],
    "engine": "real-time",
    "checkpoint_config": {"interval": 10},
    "guarantees": [
        {
            "source": "words",
            "source_uid": "words",
            "sink": "Print",
            "sink_uid": "auto-1",
            "guarantee": "at-least-once",
            "reason": "what is printed is printed again",
        }
    ],
    "application_id": "app-1",
    "waits_for": "2 cores",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


@pytest.mark.parametrize(("state", "to"), list(itertools.product(JobStatus, JobStatus)))
def test_a_job_moves_between_its_states_as_the_table_says(state, to):
    vertex = JobVertexStatus("ab" * 16, "count", "count", 1, state)
    status = replace(JobStatusFile.begun("job", 1), state=state, vertices=[vertex], waits_for="2 cores")
    if to.value in LEGAL[state.value].split():
        moved = status.moved_to(to, 7)
        assert (moved.state, moved.timestamps[to.value], moved.vertices[0].status) == (to, 7, to)
        assert moved.end_time == (7 if to.is_terminal else -1)
        assert moved.waits_for is None
    else:
        with pytest.raises(IllegalJobStatusMoveError, match=f"is {state.value} and can't become {to.value}"):
            status.moved_to(to, 7)


def test_the_file_has_the_shape_that_other_versions_know(path):
    write_json(path, PLAIN)
    before = path.read_bytes()

    status = JobStatusFile.read_from(path)
    status.write_to(path)

    assert path.read_bytes() == before
    assert status.failure.error_class == "RecordError"
    assert set(JobStatusFile.begun("count", 1).to_file()) == set(PLAIN)


def test_what_another_version_has_written_is_kept_and_what_it_lacks_has_a_default(path):
    vertex = {**PLAIN["vertices"][0], "slots": 3}
    older = {name: value for name, value in PLAIN.items() if name not in ("plan", "waits_for", "application_id")}
    write_json(path, {**older, "vertices": [vertex], "watermark": 5})

    JobStatusFile.read_from(path).restarting(20).write_to(path)

    written = read_json(path)
    assert (written["watermark"], written["vertices"][0]["slots"]) == (5, 3)
    assert (written["plan"], written["waits_for"], written["application_id"]) == ([], None, None)
    assert (written["state"], written["attempt"], written["timestamps"]["RESTARTING"]) == ("RESTARTING", 2, 20)
    assert written["vertices"][0]["status"] == "RESTARTING"


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"state": "LOST"}',
        b'{"state": ["RUNNING"]}',
        b"[" * 100_000,
        json.dumps({**PLAIN, "attempt": "1"}).encode(),
        json.dumps({**PLAIN, "vertices": [{"id": "ab"}]}).encode(),
        json.dumps({**PLAIN, "failures": [{"attempt": 1}]}).encode(),
    ],
)
def test_a_damaged_status_is_an_error_that_names_the_file(path, damaged):
    path.write_bytes(damaged)
    with pytest.raises(DamagedFileError, match="The job's status is damaged") as caught:
        JobStatusFile.read_from(path)
    assert caught.value.where == str(path)


def test_a_job_without_a_status_has_none(tmp_path):
    assert JobStatusFile.read_from(JobDirectory(tmp_path).status) is None


def test_an_attempt_has_failed_once_it_has_left_word(path):
    status = JobStatusFile.from_plain(PLAIN)
    assert not status.has_failed
    failed = status.with_failure(JobFailure.of(ValueError("no"), "x" * 100_000), 30)
    assert failed.has_failed
    assert (failed.failures[0].attempt, failed.failures[0].timestamp, failed.failure_count) == (1, 30, 2)
    assert failed.failures[1:] == status.failures
    assert not failed.restarting(31).has_failed
