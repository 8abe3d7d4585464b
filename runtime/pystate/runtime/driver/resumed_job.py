"""A job whose program is started again by something else than a job manager: it goes on, if it hasn't ended.

It has the same id over all starts (`pystate.job-id`), so its folder says how far it has come. The new driver's term ends
that of the one before, which completes no checkpoint any more, should it live on.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions, StateRecoveryOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import JobExecutionError, JobTerminatedError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.core.file_systems.places import parse_location
from pystate.core.snapshot.storage.snapshot_location import METADATA_FILE
from pystate.runtime.job_folder.job_record import JobRecord
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile


def resume(directory: JobDirectory, job_id: str) -> str | None:
    """Let a job go on that an earlier start of the program has left; return a sentence about it, None for a new job.

    Args:
        directory: The job's files.
        job_id: The job.

    Raises:
        JobTerminatedError: It has ended.
        JobExecutionError: Its program runs on this machine, or a job manager runs it.
        PystateError: One of its files is damaged.
    """
    key = PystateOptions.JOB_ID.key
    status, program = JobStatusFile.read_from(directory.status), EmbeddedProgramFile.read_from(directory.embedded)
    if JobRecord.read(directory) is not None:
        message = f"The job {job_id} is one that a job manager has started."
        raise JobExecutionError(message, where=key, hint="give the program an id of its own: 32 hex digits")
    if status is None:
        return None
    if program is not None and program.runs():
        message = f"The job {job_id} runs already, in process {program.pid} on {program.host}."
        raise JobExecutionError(message, where=key, hint="pystate list shows it; pystate stop or pystate cancel ends it")
    if not status.goes_on_in_next_start:
        message = f"The job {job_id} has {status.state.value}, so it isn't run again."
        hint = f"give the next one another {key}; execution.state-recovery.path lets it start from a savepoint"
        raise JobTerminatedError(message, where=key, hint=hint)
    now = current_time_ms()
    if status.state is JobStatus.CANCELLING:
        status.moved_to(JobStatus.CANCELED, now).write_to(directory.status)
        return resume(directory, job_id)
    going_on = replace(status, state=JobStatus.RUNNING, end_time=-1) if status.state.is_terminal else status
    going_on = going_on.restarting(now)
    going_on.write_to(directory.status)
    return f"Job {job_id} goes on from its latest checkpoint: its program was started again (attempt {going_on.attempt})."


def check_not_left_elsewhere(configuration: Configuration, directory: JobDirectory, job_id: str) -> None:
    """Make sure that a job that is new to this home has left nothing from a start in another one: it would start over.

    Args:
        configuration: The options in force.
        directory: The job's files.
        job_id: The job.

    Raises:
        JobExecutionError: It has.
    """
    place = configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
    if place is None or configuration.get(StateRecoveryOptions.SAVEPOINT_PATH) or directory.status.exists():
        return
    latest = _latest_checkpoint(f"{place.rstrip('/')}/{job_id}")
    if latest is None:
        return
    key = PystateOptions.JOB_ID.key
    message = f"The job {job_id} has left the checkpoint {latest}, but none of its files is in this home."
    hint = (
        "set PYSTATE_HOME to the home of its earlier starts, which all machines that start it must see; or let a new job, "
        f"with another {key}, start from there: {StateRecoveryOptions.SAVEPOINT_PATH.key} = {latest}"
    )
    raise JobExecutionError(message, where=str(directory.path), hint=hint)


def _latest_checkpoint(place: str) -> str | None:
    """Return the newest complete checkpoint below a folder; None if there is none, or if nobody can tell."""
    with contextlib.suppress(OSError, PystateError):
        fs, path, _ = parse_location(place)
        names = [str(name).rstrip("/").rpartition("/")[2] for name in fs.ls(path, detail=False)]
        numbers = sorted((int(name[4:]) for name in names if re.fullmatch(r"chk-\d+", name)), reverse=True)
        complete = (number for number in numbers if fs.exists(f"{path.rstrip('/')}/chk-{number}/{METADATA_FILE}"))
        found = next(complete, None)
        return None if found is None else f"{place}/chk-{found}"
    return None
