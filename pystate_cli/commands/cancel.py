"""`pystate cancel [-s] [DIR] JOBID`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import JobTerminatedError, PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate_cli.completions import complete_running_job
from pystate_cli.job_selection import JOB_ID, connect_to_job
from pystate_cli.options import (
    ApplicationOption,
    JobManagerOption,
    MessageOption,
    VerboseOption,
    absolute_path,
    checked_message,
)
from pystate_cli.rest_client import RestClient
from pystate_cli.session import Session, job_failure
from pystate_cli.snapshot_options import FormatOption, checked_format
from pystate_cli.waiting import await_end, await_operation


def cancel(
    context: typer.Context,
    words: Annotated[
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
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Cancel a job and wait for its end; with -s print the path of its savepoint."""
    session = Session.of(context)
    if application_id is None:
        job, directory = split_words(words or [], with_savepoint)
    else:
        job, directory = split_beside_application(words or [], with_savepoint)
    said, chosen = checked_message(message), checked_format(format_type)
    if format_type is not None and not with_savepoint:
        problem = "-type is of the savepoint, and there is none without -s."
        raise UsageError(problem, hint="pystate cancel --help")
    if said is not None and not with_savepoint:
        problem = "--message is of the savepoint, and there is none without -s."
        raise UsageError(problem, hint="pystate cancel --help")
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=True)
    if with_savepoint:
        _cancel_with_savepoint(session, client, job_id, directory, chosen, said)
    else:
        _cancel(session, client, job_id)


def split_beside_application(words: list[str], with_savepoint: bool) -> tuple[str | None, str | None]:
    """Return job and directory where the job is named by its application already: a single word behind -s is a directory."""
    if len(words) == 1 and with_savepoint and not JOB_ID.fullmatch(words[0]):
        return None, words[0]
    return split_words(words, with_savepoint) if words else (None, None)


def split_words(words: list[str], with_savepoint: bool) -> tuple[str | None, str | None]:
    """Return job and directory: the job is the last word of 32 hex digits; where none is one, it is the last word.

    Raises:
        UsageError: There are too many words.
    """
    if not words:
        return None, None
    if len(words) > 2:
        message = f"cancel takes one job, and with -s a directory, not {' '.join(words)!r}."
        raise UsageError(message, hint="pystate cancel --help")
    if len(words) == 2 and not with_savepoint:
        message = "A directory needs -s."
        raise UsageError(message, hint=f"pystate cancel -s {' '.join(words)}")
    jobs = [index for index, word in enumerate(words) if JOB_ID.fullmatch(word)]
    chosen = jobs[-1] if jobs else len(words) - 1
    others = [word for index, word in enumerate(words) if index != chosen]
    return words[chosen], others[0] if others else None


def _cancel(session: Session, client: RestClient, job_id: str) -> None:
    session.console.story(f"Cancelling job {job_id}.")
    try:
        client.patch(f"/jobs/{job_id}?mode=cancel")
        with session.console.waiting("The job is ending"):
            state = await_end(client, job_id)
    except PystateError as error:
        session.console.story(f"Could not cancel job {job_id}.")
        raise error
    _check_cancelled(session, client, job_id, state)
    session.console.story(f"Cancelled job {job_id}.")


def _cancel_with_savepoint(
    session: Session, client: RestClient, job_id: str, directory: str | None, chosen: str, message: str | None
) -> None:
    target = None if directory is None else absolute_path(directory)
    where = "default savepoint directory" if target is None else target
    session.console.story(f"Cancelling job {job_id} with {chosen} savepoint to {where}.")
    body = {
        "target-directory": target,
        "cancel-job": True,
        "formatType": chosen,
        "triggerId": None,
        "message": message,
    }
    request_id = client.post(f"/jobs/{job_id}/savepoints", body)["request-id"]
    with session.console.progress("The savepoint is being written") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", show)["location"]
    with session.console.waiting("The job is ending"):
        state = await_end(client, job_id)
    session.console.result(path)  # the savepoint is there, however the job ended
    _check_cancelled(session, client, job_id, state)
    session.console.story(f"Cancelled job {job_id}. Savepoint stored in {path}.")


def _check_cancelled(session: Session, client: RestClient, job_id: str, state: JobStatus) -> None:
    if state is JobStatus.CANCELED:
        return
    if state is JobStatus.FAILED:
        raise job_failure(client, job_id)
    message = f"Job {job_id} had ended ({state.value}) before it could be cancelled."
    raise JobTerminatedError(message)
