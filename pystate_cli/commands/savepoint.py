"""`pystate savepoint JOBID [DIR]`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.home import parse_job_id
from pystate_cli.options import JobIdArgument, JobManagerOption, VerboseOption, absolute_path
from pystate_cli.session import Session
from pystate_cli.waiting import await_operation


def savepoint(
    context: typer.Context,
    job_id: JobIdArgument,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where it goes; default: execution.checkpointing.savepoint-dir."),
    ] = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Take a savepoint of a running job and print its path."""
    session = Session.of(context)
    job = parse_job_id(job_id)
    client = session.connect(job_manager)
    session.console.story(f"Triggering savepoint for job {job}.")
    body = {
        "target-directory": None if directory is None else absolute_path(directory),
        "cancel-job": False,
        "formatType": "CANONICAL",
        "triggerId": None,
    }
    request_id = client.post(f"/jobs/{job}/savepoints", body)["request-id"]
    session.console.story("Waiting for response...")
    with session.console.waiting("The savepoint is being written"):
        path = await_operation(client, f"/jobs/{job}/savepoints/{request_id}")["location"]
    session.console.story(f"Savepoint completed. Path: {path}")
    session.console.story("You can resume your program from this savepoint with the run command.")
    session.console.result(path)
