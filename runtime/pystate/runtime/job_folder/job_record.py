"""The job manager's persistent record of a job."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from pystate.common.files.home import JobDirectory, write_file_atomically
from pystate.common.files.job_files import read_job_file
from pystate.common.files.regular_files import OddFileError
from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import PlainData
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.failure_history import JobFailure

_WITHOUT_CHECKSUM = 1
"""The oldest version that is read."""


class RecordPhase(str, Enum):
    """The phase of a job in the job manager."""

    SUBMITTED = "SUBMITTED"  # on disk, no driver was started yet
    STARTED = "STARTED"  # a driver was started
    RESTARTING = "RESTARTING"  # the driver has died, another one is to be started
    ENDED = "ENDED"  # the driver is gone, and it is known how the job ended


@dataclass(frozen=True)
class JobVerdict(PlainData):
    """The end of a job: its driver's last word, or the job manager's where there is none.

    Attributes:
        state: The last state.
        failure: Its failure; None if it did not fail.
        end_time: When, ms since 1970.
    """

    state: JobStatus
    failure: JobFailure | None
    end_time: int


@dataclass(frozen=True)
class JobRecord(FileContent):
    """`record.json`: written by the job manager before and after each step, so that a new one can continue from it.

    With several job managers for high availability, each writes a file with its fencing token in the name, and the highest
    token counts: what a replaced job manager writes is never read.

    Attributes:
        job_id: 32 hex digits.
        name: The job's name until the driver sets it.
        submitted_at: Milliseconds since 1970.
        phase: The phase of the job in the job manager.
        pid: The driver's process id, for display.
        cancel_requested: Whether a cancel was requested, so that the request outlives this process.
        exit_code: The driver's exit code, negative for a signal; None while it runs, or if unknown.
        verdict: How the job ended; None while it goes on, and in records of earlier versions where its driver said so.
        machine: Where the driver was started, see `this_machine`; None in records of older versions.
    """

    title: ClassVar[str] = "The job record"
    version: ClassVar[int | None] = 2
    has_checksum: ClassVar[bool] = True

    job_id: str
    name: str
    submitted_at: int
    phase: RecordPhase = RecordPhase.SUBMITTED
    pid: int | None = None
    cancel_requested: bool = False
    exit_code: int | None = None
    verdict: JobVerdict | None = None
    machine: str | None = None

    def with_changes(self, **changes: Any) -> JobRecord:
        """Return a copy with other values."""
        return replace(self, **changes)

    def write(self, directory: JobDirectory, token: int | None = None) -> None:
        """Write it atomically.

        Args:
            directory: The job's files.
            token: The fencing token of the job manager; None if it has no stand-in.
        """
        self.write_to(directory.record_of(token), directory.record_reserve)

    @staticmethod
    def read(directory: JobDirectory) -> JobRecord | None:
        """Read it; None if there is none.

        Raises:
            DamagedFileError: It is damaged.
            PystateError: It is of a version this job manager doesn't know.
        """
        return JobRecord.read_from(directory.latest_record)

    @classmethod
    def from_file(cls, plain: Any, where: str) -> JobRecord:  # noqa: D102
        if isinstance(plain, dict) and plain.get("version") == _WITHOUT_CHECKSUM:
            return cls.from_plain({"machine": None, **plain})
        return super().from_file(plain, where)

    @staticmethod
    def set_aside(directory: JobDirectory) -> Path:
        """Rename a damaged record, so that another one can be written; return its new path."""
        record = directory.latest_record
        aside = directory.path / f"{record.name}.damaged"
        written = os.lstat(record).st_mtime_ns
        try:
            write_file_atomically(aside, read_job_file(record), mode=0o600)
            os.utime(aside, ns=(written, written))
        except OddFileError:  # a pipe, a folder, something huge: nothing to copy
            os.replace(record, aside)
        record.unlink(missing_ok=True)
        return aside


def record_token(directory: JobDirectory) -> int | None:
    """Return the token of the job manager whose record counts; None if the record was written without one."""
    return max(directory.record_tokens(), default=None)


def remove_older_records(directory: JobDirectory, token: int) -> None:
    """Delete the records of earlier job managers; what they write later is ignored."""
    for older in directory.record_tokens():
        if older < token:
            directory.record_of(older).unlink(missing_ok=True)
