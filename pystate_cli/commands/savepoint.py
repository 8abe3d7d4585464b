"""`pystate savepoint JOBID [DIR]` and `pystate savepoint -d PATH`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import UsageError
from pystate_cli.commands.savepoints_disposal import dispose
from pystate_cli.job_selection import find_job
from pystate_cli.options import JobManagerOption, MessageOption, VerboseOption, absolute_path, checked_message
from pystate_cli.session import Session
from pystate_cli.waiting import await_operation


def savepoint(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOBID", help="The job's id, at least 4 digits it begins with, or the job's name.", show_default=False
        ),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where it goes; default: execution.checkpointing.savepoint-dir."),
    ] = None,
    disposed: Annotated[
        str | None,
        typer.Option("-d", "--dispose", metavar="PATH", help="Delete this savepoint instead; an id will do, too."),
    ] = None,
    message: MessageOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Take a savepoint of a running job and print its path; or delete one with -d."""
    session = Session.of(context)
    said = checked_message(message)
    if disposed is not None:
        if job is not None or said is not None:
            problem = "-d takes the path of a savepoint, and neither a job nor a message."
            raise UsageError(problem, hint="pystate savepoint --help")
        dispose(session, disposed, job_manager)
        return
    if job is None:
        problem = "Missing JobID. Specify a Job ID to trigger a savepoint."
        raise UsageError(problem, hint="pystate list")
    client = session.connect(job_manager)
    job_id = find_job(client, job)
    session.console.story(f"Triggering savepoint for job {job_id}.")
    body = {
        "target-directory": None if directory is None else absolute_path(directory),
        "cancel-job": False,
        "formatType": "CANONICAL",
        "triggerId": None,
        "message": said,
    }
    request_id = client.post(f"/jobs/{job_id}/savepoints", body)["request-id"]
    session.console.story("Waiting for response...")
    with session.console.progress("The savepoint is being written") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", show)["location"]
    session.console.story(f"Savepoint completed. Path: {path}")
    session.console.story("You can resume your program from this savepoint with the run command.")
    session.console.result(path)
