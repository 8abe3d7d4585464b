"""What a driver does where the disk refuses its files for a while."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future

import pytest

from pystate.common.errors import PystateError
from pystate.common.files import job_files
from pystate.common.files.home import JobDirectory, read_json
from pystate.common.job_status import JobStatus
from pystate.runtime.checkpoint.checkpoint_recovery import DurableCheckpointIds
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.execution.status import JobStatusStore, failure_dict
from pystate.runtime.job_folder.late_writes import LateWrites
from tests.ops.jobmanager.harness import eventually


@pytest.fixture
def full(monkeypatch):
    """Makes new files be refused until it is called with False."""
    temporary = job_files._temporary
    switch = [False]

    def checked(path):
        if switch[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return temporary(path)

    monkeypatch.setattr(job_files, "_temporary", checked)
    return lambda value=True: switch.__setitem__(0, value)


def test_the_latest_content_is_written_and_said_once(tmp_path, full):
    said: list[str] = []
    writes, file = LateWrites(said.append), tmp_path / "a.json"
    full()
    writes.write(file, {"n": 1})
    writes.write(file, {"n": 2})
    writes.write(tmp_path / "b.json", {})
    assert not writes.wait_for(file, 0)
    assert not file.exists()

    full(False)
    assert writes.wait_for_all(30)

    assert read_json(file) == {"n": 2}
    eventually(lambda: len(said) == 2)
    assert said[0].startswith(f"WARNING: {file} can't be written: ")
    assert said[1] == "All files of the job are written again."


def test_a_job_moves_on_and_its_end_is_written_when_it_can_be(tmp_path, full):
    directory = JobDirectory(tmp_path)
    status = JobStatusStore(directory, "job")
    full()
    status.update(JobStatus.CREATED)
    status.update(JobStatus.FAILED, failure=failure_dict(ValueError("why"), "where"))

    assert status.snapshot()["state"] == "FAILED"
    full(False)
    status.wait_until_written()

    assert read_json(directory.status)["state"] == "FAILED"
    assert read_json(directory.status)["failure"]["message"] == "why"


def test_the_last_word_has_room_on_a_full_disk(tmp_path, no_new_files):
    directory = JobDirectory(tmp_path)
    status = JobStatusStore(directory, "job")
    directory.status_reserve.ensure()

    no_new_files()
    status.update(JobStatus.CREATED)
    assert read_json(directory.status)["state"] == "INITIALIZING"
    status.update(JobStatus.FAILED, failure=failure_dict(ValueError("why"), "where"))

    assert read_json(directory.status)["state"] == "FAILED"


def test_a_savepoint_gets_its_id_on_a_full_disk(tmp_path, no_new_files):
    directory = JobDirectory(tmp_path)
    ids = DurableCheckpointIds(directory.checkpoint_ids, directory.checkpoint_ids_reserve)
    assert ids.get_and_increment() == 1

    no_new_files()
    assert ids.get_and_increment() == 2

    assert read_json(directory.checkpoint_ids) == {"next": 3}


def test_who_asks_for_a_savepoint_is_answered_while_its_result_can_not_be_written(tmp_path, full):
    directory = JobDirectory(tmp_path)
    directory.secret.write_bytes(b"secret")
    status = JobStatusStore(directory, "job")
    endpoint = ControlEndpoint(directory, status)
    directory.operations.mkdir()
    trigger_id, done = "ab" * 16, Future()
    done.set_exception(PystateError("The disk is full."))

    full()
    endpoint._record(trigger_id, "trigger_savepoint", done)

    assert endpoint._operation(trigger_id)["failure"]["message"] == "The disk is full."
    full(False)
    assert status.writes.wait_for_all(30)
    assert read_json(directory.operation(trigger_id))["failure"]["message"] == "The disk is full."
