"""What became of operations, as it stands in a job's folder."""

from __future__ import annotations

import pytest

from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.common.files.home import read_json, write_json
from pystate.runtime.job_folder.content import DamagedFileError
from pystate.runtime.job_folder.operation_file import OperationFile, OperationKind

MADE = OperationFile(OperationKind.SAVEPOINT, location="file:/s", checkpoint_id=1)
PLAIN = {"kind": "savepoint", "status": "COMPLETED", "location": "file:/s", "checkpoint_id": 1}
ERROR = {"class": "CheckpointFailedError", "message": "no", "where": None, "hint": "look"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "operation.json"


def test_an_operation_has_the_shape_that_other_versions_know(file):
    MADE.write_to(file)
    assert read_json(file) == {"version": 1, **PLAIN}
    assert OperationFile.read_from(file) == MADE
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_failed_operation_says_why(file):
    failed = OperationFile.failed(OperationKind.CHECKPOINT, CheckpointFailedError("no", hint="look"))
    failed.write_to(file)
    assert read_json(file) == {
        "version": 1,
        "kind": "checkpoint",
        "status": "COMPLETED",
        "failure": {**ERROR, "stack_trace": ""},
    }
    assert OperationFile.read_from(file) == failed


def test_an_operation_without_a_version_is_of_the_first_one(file):
    write_json(file, PLAIN)
    assert OperationFile.read_from(file) == MADE
    write_json(file, {"kind": "stop", "status": "COMPLETED", "failure": {**ERROR, "table": [["a"]]}})
    read = OperationFile.read_from(file)
    assert read.to_plain()["failure"] == {**ERROR, "stack_trace": "", "table": [["a"]]}


def test_an_operation_of_another_version_is_refused(file):
    write_json(file, {**PLAIN, "version": 2})
    with pytest.raises(PystateError, match="has version 2; this version of pystate knows 1") as caught:
        OperationFile.read_from(file)
    assert not isinstance(caught.value, DamagedFileError)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "dance"}, "'kind'"),
        ({"status": "IN_PROGRESS"}, "it is IN_PROGRESS"),
        ({"location": None}, "neither a snapshot nor a failure"),
        ({"kind": "checkpoint", "checkpoint_id": None}, "neither a snapshot nor a failure"),
        ({"checkpoint_id": "1"}, "'checkpoint_id'"),
        ({"failure": {}}, "'failure'"),
    ],
)
def test_a_damaged_operation_is_an_error_that_names_the_file(file, changes, words):
    write_json(file, {**PLAIN, **changes})
    with pytest.raises(DamagedFileError, match=f"^The result of the operation is damaged: .*{words}") as caught:
        OperationFile.read_from(file)
    assert caught.value.where == str(file)
