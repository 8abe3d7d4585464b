"""`pystate stop [-p DIR] [-d] JOBID`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import JobTerminatedError
from pystate.common.job_status import JobStatus
from pystate_cli.job_selection import find_job
from pystate_cli.options import (
    JobIdArgument,
    JobManagerOption,
    MessageOption,
    VerboseOption,
    absolute_path,
    checked_message,
)
from pystate_cli.session import Session, job_failure
from pystate_cli.waiting import await_end, await_operation


def stop(
    context: typer.Context,
    job: JobIdArgument,
    directory: Annotated[
        str | None,
        typer.Option(
            "-p",
            "--savepointPath",
            metavar="DIR",
            help="Where the savepoint goes; default: execution.checkpointing.savepoint-dir.",
        ),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option("-d", "--drain", help="Let all timers fire first, for a job that ends for good.", show_default=False),
    ] = False,
    message: MessageOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Stop a job with a savepoint and print its path; if the savepoint fails the job goes on."""
    session = Session.of(context)
    console, said = session.console, checked_message(message)
    client = session.connect(job_manager)
    job_id = find_job(client, job)
    console.story(f'{"Draining" if drain else "Suspending"} job "{job_id}" with a CANONICAL savepoint.')
    console.story(f"Triggering stop-with-savepoint for job {job_id}.")
    body = {
        "targetDirectory": None if directory is None else absolute_path(directory),
        "drain": drain,
        "formatType": "CANONICAL",
        "triggerId": None,
        "message": said,
    }
    request_id = client.post(f"/jobs/{job_id}/stop", body)["request-id"]
    console.story("Waiting for response...")
    with console.progress("The savepoint is being written") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", show)["location"]
    with console.waiting("The job is ending"):
        state = await_end(client, job_id)
    console.story(f"Savepoint completed. Path: {path}")
    console.result(path)  # the savepoint is there, however the job ended
    if state is JobStatus.FAILED:
        raise job_failure(client, job_id)
    if state is not JobStatus.FINISHED:
        ended = f"Job {job_id} ended as {state.value} behind its savepoint."
        raise JobTerminatedError(ended)
