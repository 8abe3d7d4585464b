"""Whether a job of this installation has ended, read from its files: neither driver nor job manager has to run for it."""

from __future__ import annotations

from pystate.common.errors import PystateError, UsageError
from pystate.common.home import JobDirectory, PystateHome
from pystate.common.processes import is_alive, started_at
from pystate.job_folder.job_record import JobRecord, RecordPhase
from pystate.job_folder.job_status_file import JobStatusFile
from pystate.job_folder.small_files import DriverTermFile


def has_ended(directory: JobDirectory) -> bool:
    """Whether a job is known to have ended: what can't be read must not cost anybody a snapshot."""
    try:
        status, record = JobStatusFile.read_from(directory.status), JobRecord.read(directory)
        if status is not None and status.state.is_terminal:
            return True
        if record is not None:
            return record.phase is RecordPhase.ENDED
        # a plain `python job.py` has no record, and leaves an old status when it is killed
        term = DriverTermFile.read_from(directory.term)
        return term is None or not _lives(term)
    except (OSError, PystateError):
        return False


def _lives(term: DriverTermFile) -> bool:
    """Whether the process that has a term lives. Its id may be another one's by now: ids wrap, and begin anew at a boot."""
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
