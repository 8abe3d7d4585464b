"""`pystate savepoint JOBID [DIR]`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate_cli.job_selection import find_job
from pystate_cli.options import JobIdArgument, JobManagerOption, VerboseOption, absolute_path
from pystate_cli.session import Session
from pystate_cli.waiting import await_operation


def savepoint(
    context: typer.Context,
    job: JobIdArgument,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where it goes; default: execution.checkpointing.savepoint-dir."),
    ] = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Take a savepoint of a running job and print its path."""
    session = Session.of(context)
    client = session.connect(job_manager)
    job_id = find_job(client, job)
    session.console.story(f"Triggering savepoint for job {job_id}.")
    body = {
        "target-directory": None if directory is None else absolute_path(directory),
        "cancel-job": False,
        "formatType": "CANONICAL",
        "triggerId": None,
    }
    request_id = client.post(f"/jobs/{job_id}/savepoints", body)["request-id"]
    session.console.story("Waiting for response...")
    with session.console.progress("The savepoint is being written") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", show)["location"]
    session.console.story(f"Savepoint completed. Path: {path}")
    session.console.story("You can resume your program from this savepoint with the run command.")
    session.console.result(path)
