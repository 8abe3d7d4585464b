"""Determines from its files whether a job of this installation has ended; no driver or job manager needs to run."""

# A program that runs its job itself may end without recording it (a signal, os._exit): the next reader records it.

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import replace

from pystate.common.errors import DriverLostError, PystateError, UsageError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.job_status import JobStatus
from pystate.common.processes.processes import is_alive, started_at
from pystate.common.time import current_time_ms
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import DriverTermFile, EmbeddedProgramFile


def has_ended(directory: JobDirectory) -> bool:
    """Whether a job is known to have ended; False if its files are unreadable, so that no snapshot is lost."""
    try:
        status, record = JobStatusFile.read_from(directory.status), JobRecord.read(directory)
        if status is not None and status.state.is_terminal:
            return True
        if record is not None:
            return record.phase is RecordPhase.ENDED
        # a plain `python job.py` has no record, and leaves an old status when it is killed
        program = EmbeddedProgramFile.read_from(directory.embedded)
        if program is not None:
            return program.runs() is False
        term = DriverTermFile.read_from(directory.term)
        return term is None or not _lives(term)
    except (OSError, PystateError):
        return False


@contextlib.contextmanager
def alone_in(directory: JobDirectory) -> Iterator[None]:
    """Keep others from recording the end of a job's program, or its next start, at the same time.

    Where the file system has no locks for folders (NFS), nothing is kept from anybody.

    Args:
        directory: The job's files.

    Raises:
        OSError: The folder can't be opened.
    """
    descriptor = os.open(directory.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def settled_status(directory: JobDirectory, program: EmbeddedProgramFile) -> JobStatusFile | None:
    """Return the status of an embedded job; its end is recorded if the program has died without recording it.

    Args:
        directory: The job's files.
        program: The program.

    Returns:
        The status; None if the program has not begun with it.

    Raises:
        OSError: A file can't be read, or the end not be written.
        PystateError: The status is damaged.
    """
    with alone_in(directory):
        return _settled(directory, program)


def _settled(directory: JobDirectory, program: EmbeddedProgramFile) -> JobStatusFile | None:
    gone = program.runs() is False  # checked first, so that what is read then is final
    status = JobStatusFile.read_from(directory.status)
    if not gone or (status is not None and status.state.is_terminal):
        return status
    if EmbeddedProgramFile.read_from(directory.embedded) != program:  # the job goes on in another process
        return status
    now = current_time_ms()
    status = status or JobStatusFile.begun("", now)
    if status.state is JobStatus.CANCELLING:
        status = status.moved_to(JobStatus.CANCELED, now)
    else:
        message = f"The program that ran the job (process {program.pid} on {program.host}) ended before the job."
        hint = "pystate checkpoints shows what it has left; start the program from there with execution.state-recovery.path"
        failure = JobFailure.of(DriverLostError(message, where=program.program or None, hint=hint), "")
        status = replace(status.with_failure(failure, now), failure=failure).moved_to(JobStatus.FAILED, now)
    status.write_to(directory.status, directory.status_reserve)
    return status


def _lives(term: DriverTermFile) -> bool:
    """Whether the process of a term is alive. Its id may be reused by now: ids wrap around, and restart at a boot."""
    if term.started is None:  # an older version has written it
        return is_alive(term.pid)
    return started_at(term.pid) == term.started


def job_runs(home: PystateHome, job_id: str) -> bool | None:
    """Whether a job has not ended; None for one that this installation doesn't know."""
    try:
        directory = home.job(job_id)
    except UsageError:
        return None
    if not directory.path.is_dir():
        return None
    return not has_ended(directory)
