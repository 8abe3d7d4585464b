"""Starting a job once more as it was submitted, with changes: file, arguments, settings and environment stay.

A job's environment is deleted when the job ends, since it may hold secrets. Whoever stops a job to start it again says so
before: then the environment is kept beside the job until the successor runs, or until the job is forgotten. Several may say
so, as two do who rescale a job at once, of whom only one can: who is refused takes back what he has said, and no more.
"""

from __future__ import annotations

from dataclasses import replace

from pystate.common.configuration.options import CoreOptions
from pystate.common.errors import JobNotFoundError, PystateError
from pystate.common.files.home import new_job_id
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.supervised_job import SupervisedJob
from pystate.runtime.job_folder.resubmission_file import Keeper, Resubmission
from pystate.runtime.job_folder.small_files import EnvironmentFile
from pystate.runtime.job_folder.submission import SubmissionFile
from pystate.runtime.rest.own_job_messages import ResubmissionInfo

CLAIM_MODE_KEY = "execution.state-recovery.claim-mode"
"""What was said of the snapshot that the job was first started from doesn't hold for the next one."""


class NotKeptError(PystateError):
    """What a job would have to be started with again isn't there."""


class SuccessorThereError(PystateError):
    """The job was started again already, and that one has not ended."""


def keep(job: SupervisedJob, parallelism: int) -> ResubmissionInfo:
    """Keep what the job can be started with again when it has ended; return what is kept.

    Raises:
        NotKeptError: The job has ended, and nothing was kept before.
    """
    with job.resubmitting:
        earlier = Resubmission.read_from(job.directory.resubmission)
        environment = EnvironmentFile.read_from(job.directory.environment)
        if environment is not None:
            variables = environment.variables
        elif earlier is not None:
            variables = earlier.environment
        else:
            raise _not_kept(job)
        keepers = [*([] if earlier is None else earlier.keepers), Keeper(new_job_id(), parallelism)]
        successor = None if earlier is None else earlier.successor
        Resubmission(variables, parallelism, successor, keepers).write_to(job.directory.resubmission)
        return kept(job)


def kept(job: SupervisedJob) -> ResubmissionInfo:
    """Return what is kept of a job, without its environment.

    Raises:
        NotKeptError: Nothing.
    """
    found = Resubmission.read_from(job.directory.resubmission)
    if found is None:
        raise _not_kept(job)
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


def forget(job: SupervisedJob, keeper: str | None = None) -> None:
    """Delete what was kept.

    Args:
        job: The job.
        keeper: Who needs it no more; it stays where others do. None deletes it for all.
    """
    with job.resubmitting:
        found = None if keeper is None else Resubmission.read_from(job.directory.resubmission)
        others = [] if found is None else [one for one in found.keepers if one.keeper_id != keeper]
        if found is not None and others:
            replace(found, parallelism=others[-1].parallelism, keepers=others).write_to(job.directory.resubmission)
        else:
            job.directory.resubmission.unlink(missing_ok=True)


def resubmit(dispatcher: Dispatcher, job: SupervisedJob, savepoint_path: str | None, parallelism: int | None) -> str:
    """Start a job as another one was submitted; return its id.

    Args:
        dispatcher: The jobs.
        job: The one that was kept.
        savepoint_path: What it starts from; None for nothing.
        parallelism: The value of `-p`; None for that of the submission.

    Raises:
        NotKeptError: The other one was not kept.
        SuccessorThereError: It was started again already, and that one has not ended.
        PystateError: What was submitted is gone, or the driver can't be started.
    """
    with job.resubmitting:  # two from one savepoint would do the same work twice
        return _resubmit(dispatcher, job, savepoint_path, parallelism)


def _resubmit(dispatcher: Dispatcher, job: SupervisedJob, savepoint_path: str | None, parallelism: int | None) -> str:
    found = Resubmission.read_from(job.directory.resubmission)
    if found is None:
        raise _not_kept(job)
    _check_successor(dispatcher, job, found.successor)
    submission = SubmissionFile.read(job.directory)
    submission.check_paths()
    settings = {key: value for key, value in submission.configuration.items() if key != CLAIM_MODE_KEY}
    changed = replace(
        submission,
        parallelism=submission.parallelism if parallelism is None else parallelism,
        savepoint_path=savepoint_path,
        allow_non_restored_state=False,
        configuration=settings,
        attached=False,
    )
    job_id = dispatcher.submit(changed, found.environment)
    told = replace(found, successor=job_id, parallelism=_submitted_parallelism(changed))
    # the successor runs: an error would make the client start another one
    job.runner.run_step("noting the successor", lambda: told.write_to(job.directory.resubmission))
    return job_id


def _submitted_parallelism(submission: SubmissionFile) -> int:
    configured = submission.configuration.get(CoreOptions.DEFAULT_PARALLELISM.key)
    asked = submission.parallelism if submission.parallelism is not None else configured
    return CoreOptions.DEFAULT_PARALLELISM.default if asked is None else int(asked)


def _check_successor(dispatcher: Dispatcher, job: SupervisedJob, successor: str | None) -> None:
    if successor is None:
        return
    try:
        state = dispatcher.job(successor).state()
    except JobNotFoundError:
        return
    if not state.is_terminal:
        message = f"Job {job.job_id} was started again already, as job {successor}, which is {state.value}."
        raise SuccessorThereError(message, hint=f"pystate watch {successor}")


def _not_kept(job: SupervisedJob) -> NotKeptError:
    if job.program is not None:
        message = f"Job {job.job_id} is run by its own program (process {job.program.pid}), which nobody else starts again."
        return NotKeptError(message, hint="stop it with a savepoint, and run the program with pystate run -s SAVEPOINT")
    message = f"Nothing was kept to start job {job.job_id} again with."
    return NotKeptError(message, hint="start it with pystate run -s SAVEPOINT")
