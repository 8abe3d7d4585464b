"""`pystate cancel [-s] [DIR] JOBID`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from pystate.common.errors import JobTerminatedError, PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_messages import MultipleJobsDetails
from pystate.runtime.rest.operation_messages import SavepointResult, TriggerResponse
from pystate.runtime.rest.request_bodies import SavepointTriggerRequestBody
from pystate_cli.arguments.completions import complete_running_job
from pystate_cli.arguments.job_selection import JOB_ID, connect_to_job, may_mean_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    JobManagerOption,
    JsonOption,
    MessageOption,
    VerboseOption,
    absolute_path,
    checked_message,
)
from pystate_cli.arguments.snapshot_options import FormatOption, checked_format
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.formats import printable
from pystate_cli.running.waiting import await_end, await_operation
from pystate_cli.session import Session, job_failure


def cancel(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR] JOBID",
            help="The job and, with -s, where the savepoint goes, in either order.",
            autocompletion=complete_running_job,
            show_default=False,
        ),
    ] = None,
    with_savepoint: Annotated[
        bool,
        typer.Option(
            "-s", "--withSavepoint", help="Take a savepoint first; the job goes on if that fails.", show_default=False
        ),
    ] = False,
    format_type: FormatOption = None,
    message: MessageOption = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Cancel a job and wait for its end; with -s print the path of its savepoint."""
    session = Session.of(context)
    check_arguments(arguments or [], with_savepoint)
    said, chosen = checked_message(message), checked_format(format_type)
    if format_type is not None and not with_savepoint:
        problem = "-type is of the savepoint, and there is none without -s."
        raise UsageError(problem, hint="pystate cancel --help")
    if said is not None and not with_savepoint:
        problem = "--message is of the savepoint, and there is none without -s."
        raise UsageError(problem, hint="pystate cancel --help")
    means_job = partial(_means_job, session, job_manager)
    if application_id is None:
        job, directory = split_arguments(arguments or [], means_job)
    else:
        job, directory = split_beside_application(arguments or [], means_job)
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=True)
    if with_savepoint:
        _cancel_with_savepoint(session, client, job_id, directory, chosen, said, as_json=as_json)
    else:
        _cancel(session, client, job_id, as_json=as_json)


def check_arguments(arguments: list[str], with_savepoint: bool) -> None:
    """Check that the arguments can be a job and, with -s, a directory.

    Raises:
        UsageError: There are too many arguments, or one is empty.
    """
    if with_savepoint and not all(argument.strip() for argument in arguments):
        message = "The job's or the directory's word is empty: is a variable of your script not set?"
        raise UsageError(message, hint="pystate cancel --help")
    if len(arguments) > 2:
        message = f"cancel takes one job, and with -s a directory, not {' '.join(arguments)!r}."
        raise UsageError(message, hint="pystate cancel --help")
    if len(arguments) == 2 and not with_savepoint:
        message = "A directory needs -s."
        raise UsageError(message, hint=f"pystate cancel -s {' '.join(arguments)}")


def split_beside_application(arguments: list[str], means_job: Callable[[str], bool]) -> tuple[str | None, str | None]:
    """Return job and directory if the job is already given by its application: a single argument may be either."""
    if len(arguments) == 1 and not JOB_ID.fullmatch(arguments[0]) and not means_job(arguments[0]):
        return None, arguments[0]
    return split_arguments(arguments, means_job) if arguments else (None, None)


def split_arguments(arguments: list[str], means_job: Callable[[str], bool]) -> tuple[str | None, str | None]:
    """Return job and directory, which may be in either order.

    Args:
        arguments: At most two arguments.
        means_job: Returns whether an argument is the prefix of a job's id or a job's name; not called if one of two is a
            whole id.

    Raises:
        UsageError: Both arguments are jobs.
    """
    if len(arguments) < 2:
        return (arguments[0] if arguments else None), None
    ids = [JOB_ID.fullmatch(argument) is not None for argument in arguments]
    first, second = ids if any(ids) else [means_job(argument) for argument in arguments]
    if first and second and not all(ids):
        one, other = arguments
        message = f'Both "{printable(one)}" and "{printable(other)}" mean jobs; one of them must be a directory.'
        raise UsageError(message, hint=f"write the directory as a path: ./{one} or ./{other}")
    # Flink's order has the job last: used for two ids, and if neither is a job
    job, directory = arguments if first and not second else reversed(arguments)
    return job, directory


def _means_job(session: Session, job_manager: str | None, argument: str) -> bool:
    return may_mean_job(argument, session.connect(job_manager).get("/jobs/overview", MultipleJobsDetails).jobs)


def _cancel(session: Session, client: RestClient, job_id: str, *, as_json: bool) -> None:
    session.console.info(f"Cancelling job {job_id}.")
    try:
        client.patch(f"/jobs/{job_id}?mode=cancel")
        with session.console.waiting("The job is ending"):
            state = await_end(client, job_id)
    except PystateError as error:
        session.console.info(f"Could not cancel job {job_id}.")
        raise error
    _check_cancelled(session, client, job_id, state)
    session.console.info(f"Cancelled job {job_id}.")
    if as_json:
        session.console.result_json({"jobId": job_id, "state": state.value})


def _cancel_with_savepoint(
    session: Session,
    client: RestClient,
    job_id: str,
    directory: str | None,
    chosen: str,
    message: str | None,
    *,
    as_json: bool,
) -> None:
    target = None if directory is None else absolute_path(directory)
    where = "default savepoint directory" if target is None else target
    session.console.info(f"Cancelling job {job_id} with {chosen} savepoint to {where}.")
    body = SavepointTriggerRequestBody(target_directory=target, cancel_job=True, format_type=chosen, message=message)
    request_id = client.post(f"/jobs/{job_id}/savepoints", body, TriggerResponse).request_id
    with session.console.progress("The savepoint is being written", waiter="The savepoint") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", SavepointResult, show).outcome
    with session.console.waiting("The job is ending"):
        state = await_end(client, job_id)
    if as_json:
        session.console.result_json({"jobId": job_id, "state": state.value, "location": path})
    else:
        session.console.result(path)  # the savepoint exists, however the job ended
    _check_cancelled(session, client, job_id, state)
    session.console.info(f"Cancelled job {job_id}. Savepoint stored in {path}.")


def _check_cancelled(session: Session, client: RestClient, job_id: str, state: JobStatus) -> None:
    if state is JobStatus.CANCELED:
        return
    if state is JobStatus.FAILED:
        raise job_failure(client, job_id)
    message = f"Job {job_id} had ended ({state.value}) before it could be cancelled."
    raise JobTerminatedError(message)
