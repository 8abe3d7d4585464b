"""Which records at which a job has failed are kept, as its exceptions tell."""

from __future__ import annotations

from pathlib import Path

from pystate.ops.jobmanager.rest.kept_records import kept_records
from pystate.runtime.job_folder.failing_record import FailingRecord, keep_failing_record
from tests.ops.jobmanager.rest.in_process import InProcess


def record(attempt: int) -> bytes:
    fields = {"uid": "shares", "operator": "Shares", "subtask": 1, "parallelism": 2, "max_parallelism": 128}
    rest = {"time_ms": 1, "error": "no", "key": None, "state": None, "steps": [], "watermark": 0, "whole": True}
    return FailingRecord(**fields, attempt=attempt, **rest).to_bytes()  # type: ignore[arg-type]


def test_an_exception_names_the_record_that_is_kept(tmp_path: Path) -> None:
    application = InProcess(tmp_path / "home")
    try:
        job = application.submit("--fail-user", "0", state="FAILED")
        assert "record" not in application.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"][0]["pystate"]
        path = keep_failing_record(application.home.job(job).path, record(0), 10)
        (entry,) = application.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        place = {"operator": "Shares", "uid": "shares", "subtask": 1}
        assert entry["pystate"]["record"] == {"number": 1, "file": str(path), **place}
    finally:
        application.close()


def test_a_damaged_record_is_not_named_and_an_attempt_has_its_latest(tmp_path: Path) -> None:
    for attempt in (0, 1, 1):
        latest = keep_failing_record(tmp_path, record(attempt), 10)
    keep_failing_record(tmp_path, b"PSFR" + bytes(80), 10)
    found = kept_records(tmp_path)
    assert {attempt: one.number for attempt, one in found.items()} == {0: 1, 1: 3}
    assert found[1].file == str(latest)
