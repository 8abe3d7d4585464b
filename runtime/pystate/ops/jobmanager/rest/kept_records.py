"""Which records at which a job has failed are kept for `pystate debug`, without what is in them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pystate.runtime.job_folder.failing_record import FailingRecord, FailingRecordError, kept_failing_records
from pystate.runtime.rest.failure_messages import KeptRecordInfo


def kept_records(job_folder: Path) -> dict[int, KeptRecordInfo]:
    """Return the kept records of a job by the attempt that failed at each.

    Args:
        job_folder: The job's.
    """
    found = {}
    for number, path in sorted(kept_failing_records(job_folder).items()):
        try:
            about = _read(path, path.stat().st_mtime_ns)
        except OSError:  # a later one has replaced it
            continue
        if about is not None:
            attempt, operator, uid, subtask = about
            found[attempt] = KeptRecordInfo(number=number, file=str(path), operator=operator, uid=uid, subtask=subtask)
    return found


@lru_cache(maxsize=256)
def _read(path: Path, _changed: int) -> tuple[int, str, str, int] | None:
    """Return attempt, operator, uid and subtask; None if it is damaged. Pages ask each second, and records are large."""
    try:
        record = FailingRecord.from_bytes(path.read_bytes(), str(path))
    except FailingRecordError:
        return None
    return record.attempt, record.operator, record.uid, record.subtask
