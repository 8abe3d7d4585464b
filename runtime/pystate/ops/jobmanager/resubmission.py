"""Resubmits a job with changes: file, arguments, settings and environment are kept. A fork does so beside the job.

A job's environment is deleted when the job ends, since it may contain secrets. A client that stops a job to resubmit it
announces that before: then the environment is kept with the job until the successor runs, or until the job is forgotten.
There may be several keepers, e.g. when two clients rescale a job concurrently, of which only one can: the rejected one
withdraws only its own announcement.
"""

from __future__ import annotations

from dataclasses import replace

from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.errors import JobNotFoundError, PystateError
from pystate.common.files.home import new_job_id
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.storage.snapshot_location import resolve_snapshot
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.resubmission_file import Keeper, Resubmission
from pystate.runtime.job_folder.small_files import EnvironmentFile
from pystate.runtime.job_folder.submission import SubmissionFile
from pystate.runtime.rest.own_job_messages import ResubmissionInfo

CLAIM_MODE_KEY = "execution.state-recovery.claim-mode"
"""What was said of the snapshot that the job was first started from doesn't hold for the next one."""


class NotKeptError(PystateError):
    """The data to resubmit a job isn't kept."""


class SuccessorThereError(PystateError):
    """The job was already resubmitted, and its successor hasn't ended."""


def keep(
    dispatcher: Dispatcher,
    job: SupervisedJob,
    parallelism: int,
    *,
    warm: bool = False,
    ready: bool = False,
    keeper: str | None = None,
) -> ResubmissionInfo:
    """Keep the data to resubmit the job after its end; return what is kept.

    A driver for the successor gets ready meanwhile, with a Spark session of its parallelism.

    Args:
        dispatcher: The jobs.
        job: The job.
        parallelism: What its successor is to get.
        warm: Whether the successor comes at some time, and not at once: its driver practises, whatever the parallelism.
        ready: Whether the successor comes at once, also where its parallelism is the same.
        keeper: The id of the caller, which replaces its earlier request; None for a new one.

    Raises:
        NotKeptError: The job has ended, and nothing was kept before.
    """
    with job.resubmitting:
        earlier = Resubmission.read_from(job.directory.resubmission)
        variables = _variables(job)
        if variables is None:
            raise not_kept(job)
        SubmissionFile.read(job.directory).check_paths()  # else secrets would be kept for nothing
        others = [] if earlier is None else [one for one in earlier.keepers if one.keeper_id != keeper]
        keepers = [*others, Keeper(keeper or new_job_id(), parallelism)]
        successor = None if earlier is None else earlier.successor
        Resubmission(variables, parallelism, successor, keepers).write_to(job.directory.resubmission)
        found = kept(job)
        comes = warm or ready or found.submitted_parallelism != parallelism
        if dispatcher.spares is not None and successor is None and comes:
            submission = SubmissionFile.read(job.directory)
            if found.submitted_parallelism != parallelism:
                submission = replace(submission, parallelism=parallelism)
            dispatcher.spares.reserve(job.directory, submission, variables, practises=warm)
        return found


def kept(job: SupervisedJob) -> ResubmissionInfo:
    """Return the data kept of a job, without its environment.

    Raises:
        NotKeptError: Nothing is kept.
    """
    found = Resubmission.read_from(job.directory.resubmission)
    if found is None:
        raise not_kept(job)
    submission = SubmissionFile.read(job.directory)
    submission.check_paths()
    return ResubmissionInfo(
        job_id=job.job_id,
        job_file=submission.job_file,
        arguments=submission.arguments,
        submitted_parallelism=_submitted_parallelism(submission),
        parallelism=found.parallelism,
        successor=found.successor,
        keeper=found.keepers[-1].keeper_id if found.keepers else None,
    )


def forget(dispatcher: Dispatcher, job: SupervisedJob, keeper: str | None = None) -> None:
    """Delete the kept data.

    Args:
        dispatcher: The jobs.
        job: The job.
        keeper: The keeper that no longer needs it; it stays if others do. None deletes it for all.
    """
    with job.resubmitting:
        found = None if keeper is None else Resubmission.read_from(job.directory.resubmission)
        others = [] if found is None else [one for one in found.keepers if one.keeper_id != keeper]
        if found is not None and others:
            replace(found, parallelism=others[-1].parallelism, keepers=others).write_to(job.directory.resubmission)
        else:
            job.directory.resubmission.unlink(missing_ok=True)
            if dispatcher.spares is not None:
                dispatcher.spares.release(job.directory)


def resubmit(
    dispatcher: Dispatcher,
    job: SupervisedJob,
    savepoint_path: str | None,
    parallelism: int | None,
    *,
    allow_non_restored_state: bool = False,
    job_id: str | None = None,
) -> str:
    """Resubmit a job; return the id of the new job.

    Args:
        dispatcher: The jobs.
        job: The old job.
        savepoint_path: The snapshot to start from; None for none.
        parallelism: The value of `-p`; None for that of the submission.
        allow_non_restored_state: Whether state that no operator takes is left out.
        job_id: The id of the new job; where there is a job with it, that is the new one. None for one that is chosen here.

    Raises:
        NotKeptError: The data of the old job wasn't kept.
        SuccessorThereError: It was already resubmitted, and its successor hasn't ended.
        PystateError: A submitted file is gone, or the driver can't be started.
    """
    with job.resubmitting:  # two jobs from one savepoint would do the same work twice
        submission, found = _resubmitted(job, savepoint_path, parallelism, allow_non_restored_state=allow_non_restored_state)
        if job_id is not None and dispatcher.knows(job_id):
            return job_id
        _check_successor(dispatcher, job, found.successor)
        chosen = job_id or new_job_id()
        told = replace(found, successor=chosen, parallelism=_submitted_parallelism(submission))
        told.write_to(job.directory.resubmission)  # a successor that nobody knows of would be followed by a second one
        return dispatcher.submit(submission, found.environment, chosen)


def fork(
    dispatcher: Dispatcher,
    job: SupervisedJob,
    savepoint_path: str,
    parallelism: int | None,
    job_name: str | None,
    *,
    allow_non_restored_state: bool,
) -> str:
    """Start another job of the program of a job, which may run or have ended; return the id of the new one.

    The program is that of today: its file is read again. Of an ended job nobody keeps the environment, for the secrets that
    may be in it: the new one then gets that of the job manager.

    Args:
        dispatcher: The jobs.
        job: The job whose program, arguments and settings are taken.
        savepoint_path: The snapshot to start from.
        parallelism: The value of `-p`; None for that of the submission.
        job_name: The value of `--name`; None for that of the submission.
        allow_non_restored_state: Whether state that no operator takes is left out.

    Raises:
        NotKeptError: The job is run by its own program.
        PystateError: The snapshot or a submitted file is gone, or the driver can't be started.
    """
    if job.program is not None:
        raise not_kept(job)
    submission = SubmissionFile.read(job.directory)
    submission.check_paths()
    location = resolve_snapshot(savepoint_path)
    changed = _changed(submission, parallelism, location.uri, allow_non_restored_state=allow_non_restored_state)
    changed = replace(changed, job_name=job_name or submission.job_name)
    return dispatcher.submit(changed, _variables(job) or {})


def _resubmitted(
    job: SupervisedJob, savepoint_path: str | None, parallelism: int | None, *, allow_non_restored_state: bool
) -> tuple[SubmissionFile, Resubmission]:
    """Return the submission of a job's successor, and what is kept of the job."""
    found = Resubmission.read_from(job.directory.resubmission)
    if found is None:
        raise not_kept(job)
    submission = SubmissionFile.read(job.directory)
    submission.check_paths()
    return _changed(submission, parallelism, savepoint_path, allow_non_restored_state=allow_non_restored_state), found


def _changed(
    submission: SubmissionFile, parallelism: int | None, savepoint_path: str | None, *, allow_non_restored_state: bool
) -> SubmissionFile:
    settings = {key: value for key, value in submission.configuration.items() if key != CLAIM_MODE_KEY}
    return replace(
        submission,
        parallelism=submission.parallelism if parallelism is None else parallelism,
        savepoint_path=savepoint_path,
        allow_non_restored_state=allow_non_restored_state,
        configuration=settings,
        attached=False,
    )


def _variables(job: SupervisedJob) -> dict[str, str] | None:
    """Return the environment of the job's drivers; None where it is not kept any more."""
    environment = EnvironmentFile.read_from(job.directory.environment)
    if environment is not None:
        return environment.variables
    kept_before = Resubmission.read_from(job.directory.resubmission)
    return None if kept_before is None else kept_before.environment


def _submitted_parallelism(submission: SubmissionFile) -> int:
    configured = submission.configuration.get(CoreOptions.DEFAULT_PARALLELISM.key)
    asked = submission.parallelism if submission.parallelism is not None else configured
    return CoreOptions.DEFAULT_PARALLELISM.default if asked is None else int(asked)


def _check_successor(dispatcher: Dispatcher, job: SupervisedJob, successor: str | None) -> None:
    state = None if successor is None else _state(dispatcher, successor)
    if state is not None and not state.is_terminal:
        message = f"Job {job.job_id} was started again already, as job {successor}, which is {state.value}."
        raise SuccessorThereError(message, hint=f"pystate watch {successor}")


def _state(dispatcher: Dispatcher, job_id: str) -> JobStatus | None:
    try:
        return dispatcher.job(job_id).state()
    except JobNotFoundError:
        return None


def not_kept(job: SupervisedJob) -> NotKeptError:
    """Return the error for a job of which nothing is kept to start it again with."""
    if job.program is not None:
        message = f"Job {job.job_id} is run by its own program (process {job.program.pid}), which nobody else starts again."
        return NotKeptError(message, hint="stop it with a savepoint, and run the program with pystate run -s SAVEPOINT")
    message = f"Nothing was kept to start job {job.job_id} again with."
    return NotKeptError(message, hint="start it with pystate run -s SAVEPOINT")
