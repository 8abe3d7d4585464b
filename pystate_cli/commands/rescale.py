"""`pystate rescale JOBID -p N`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import UsageError
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    JobManagerOption,
    JsonOption,
    RunningJobIdArgument,
    VerboseOption,
    absolute_path,
)
from pystate_cli.running.rescaling import Rescaling
from pystate_cli.session import Session

_DEFAULT_TIMEOUT = 600.0


def rescale(
    context: typer.Context,
    job: RunningJobIdArgument = None,
    parallelism: Annotated[
        int | None, typer.Option("-p", "--parallelism", metavar="N", min=1, help="The new number of subtasks.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(
            "--savepointPath",
            metavar="DIR",
            help="Where the savepoint goes; default: execution.checkpointing.savepoint-dir.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=1, help="How long this job, and then the new one, may take until it runs."
        ),
    ] = _DEFAULT_TIMEOUT,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Give a running job another parallelism, and print the id it goes on with.

    It is stopped with a savepoint and started from it as it was submitted. If that fails it is started as it was.
    """
    if parallelism is None:
        message = "Missing parallelism. Specify it with -p."
        raise UsageError(message, hint="pystate rescale JOBID -p N")
    session = Session.of(context)
    target = None if directory is None else absolute_path(directory)
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=True)
    successor = Rescaling(session.console, client, job_id, parallelism, timeout).run(target)
    if as_json:
        session.console.result_json({"job_id": successor, "rescaled_from": job_id, "parallelism": parallelism})
    else:
        session.console.result(successor)
