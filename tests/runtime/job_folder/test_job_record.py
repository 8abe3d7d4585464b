from __future__ import annotations

import contextlib

import pytest

from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome, new_job_id, write_json
from pystate.common.job_status import JobStatus
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import (
    JobRecord,
    JobVerdict,
    RecordPhase,
    record_token,
    remove_older_records,
)


def test_a_record_comes_back_as_it_was_written(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    verdict = JobVerdict(JobStatus.FAILED, JobFailure("no", "RecordError"), 3)
    record = JobRecord("ab" * 16, "count", 1, RecordPhase.ENDED, 77, True, -9, verdict)

    record.write(directory)

    assert JobRecord.read(directory) == record
    assert directory.record.stat().st_mode & 0o777 == 0o600


def test_a_job_without_a_record_has_none(tmp_path):
    assert JobRecord.read(PystateHome(tmp_path).job(new_job_id())) is None


@pytest.mark.parametrize("damage", [b"{", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "phase": "LOST"}', b"\xff"])
def test_a_damaged_record_is_an_error_that_names_the_file(tmp_path, damage):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    directory.record.write_bytes(damage)

    with pytest.raises(PystateError, match="damaged") as caught:
        JobRecord.read(directory)

    assert caught.value.where == str(directory.record)


def test_a_record_of_another_version_is_refused(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    write_json(directory.record, {"version": 3, "phase": "STARTED"})

    with pytest.raises(PystateError, match="has version 3; this version of pystate knows 2"):
        JobRecord.read(directory)


def test_a_record_of_version_1_is_read(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    content = {"job_id": "ab" * 16, "name": "count", "submitted_at": 1, "phase": "STARTED", "pid": 7}
    write_json(directory.record, {"version": 1, **content, "cancel_requested": False, "exit_code": None, "verdict": None})

    assert JobRecord.read(directory) == JobRecord("ab" * 16, "count", 1, RecordPhase.STARTED, 7)


def test_every_flipped_bit_of_a_record_is_noticed(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    record = JobRecord("ab" * 16, "count", 1, RecordPhase.STARTED, 77, machine="here")
    record.write(directory)
    sound = directory.record.read_bytes()

    for position in range(len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << position % 8
        directory.record.write_bytes(damaged)
        with contextlib.suppress(PystateError):
            assert JobRecord.read(directory) == record  # a blank that became a line's end, for one


def test_the_record_with_the_highest_token_counts(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    first = JobRecord("ab" * 16, "count", 1)
    first.write(directory, 9)
    first.with_changes(pid=10).write(directory, 10)
    first.with_changes(pid=8).write(directory, 9)

    assert JobRecord.read(directory).pid == 10
    assert record_token(directory) == 10
    remove_older_records(directory, 10)
    assert {path.name for path in directory.path.iterdir()} == {"record-00000000000000000010.json", "record.reserve"}


def test_a_record_is_what_other_versions_know_to_the_byte(tmp_path):
    directory = PystateHome(tmp_path).job(new_job_id())
    directory.path.mkdir(parents=True)
    failure = {"class": "E", "message": "m", "where": None, "hint": None, "stack_trace": "t", "table": [["a"]]}
    content = {"job_id": "ab" * 16, "name": "count", "submitted_at": 1, "phase": "ENDED", "pid": 77, "machine": "here"}
    content |= {"cancel_requested": True, "exit_code": -9}
    content |= {"verdict": {"state": "FAILED", "failure": failure, "end_time": 3}}
    write_json(directory.record, {"version": 2, "crc32": 4119448995, **content})  # as the first writer of version 2 did
    before = directory.record.read_bytes()

    record = JobRecord.read(directory)
    record.write(directory)

    assert record.verdict.failure.error_class == "E"
    assert directory.record.read_bytes() == before
