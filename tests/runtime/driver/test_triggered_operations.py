from __future__ import annotations

import os

import pytest

from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory, new_job_id
from pystate.runtime.driver.triggered_operations import TriggeredOperations
from pystate.runtime.job_folder.late_writes import LateWrites
from pystate.runtime.job_folder.operation_file import OperationFile, OperationKind

DONE = OperationFile(OperationKind.SAVEPOINT, location="file:/s", checkpoint_id=1)


@pytest.fixture
def directory(tmp_path):
    return JobDirectory(tmp_path)


def kept(directory):
    return sorted(path.stem for path in directory.operations.glob("*"))


def test_results_are_kept_in_files_and_the_oldest_go(directory):
    operations = TriggeredOperations(directory, LateWrites(), most=3)
    operations.start()
    ids = [new_job_id() for _ in range(5)]
    for trigger_id in ids:
        operations.begin(trigger_id)
        assert operations.is_running(trigger_id)
        operations.end(trigger_id, DONE)
        assert not operations.is_running(trigger_id)
    assert kept(directory) == sorted(ids[2:])
    assert operations.result(ids[0]) is operations.result(ids[1]) is None
    assert operations.result(ids[4]) == DONE == OperationFile.read_from(directory.operation(ids[4]))


def test_what_an_earlier_driver_left_counts_too(directory):
    operations = TriggeredOperations(directory, LateWrites(), most=3)
    operations.start()
    ids = [new_job_id() for _ in range(4)]
    for age, trigger_id in enumerate(ids[:3]):
        operations.end(trigger_id, DONE)
        os.utime(directory.operation(trigger_id), (age, age))
    after = TriggeredOperations(directory, LateWrites(), most=3)
    after.start()
    assert after.result(ids[0]) == DONE
    after.end(ids[3], DONE)
    assert kept(directory) == sorted(ids[1:])


def test_a_failure_is_not_kept_at_its_length(directory):
    operations = TriggeredOperations(directory, LateWrites())
    operations.start()
    trigger_id, long = new_job_id(), "a" * (4 << 20)
    operations.end(trigger_id, OperationFile.failed(OperationKind.SAVEPOINT, PystateError(long, where=long)))
    assert directory.operation(trigger_id).stat().st_size < 8 << 10
    failure = operations.result(trigger_id).failure
    assert failure.error_class == "PystateError"
    assert len(failure.where) < 4 << 10
