"""`pystate savepoint JOBID [DIR]`, `pystate savepoint JOBID --trigger-id ID` and `pystate savepoint -d PATH`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import UsageError
from pystate.runtime.rest.operation_messages import SavepointResult, TriggerResponse
from pystate.runtime.rest.request_bodies import SavepointTriggerRequestBody
from pystate_cli.arguments.completions import complete_savepoint
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    DetachedOption,
    JobManagerOption,
    JsonOption,
    MessageOption,
    RunningJobIdArgument,
    VerboseOption,
    absolute_path,
    checked_message,
)
from pystate_cli.arguments.snapshot_options import FormatOption, checked_format
from pystate_cli.commands.snapshots.savepoints.disposal import dispose
from pystate_cli.running.triggered import (
    TriggerIdOption,
    WaitOption,
    refuse_beside_trigger_id,
    tell_operation,
    tell_trigger_id,
)
from pystate_cli.running.waiting import await_operation
from pystate_cli.session import Session


def savepoint(
    context: typer.Context,
    job: RunningJobIdArgument = None,
    directory: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where it goes; default: execution.checkpointing.savepoint-dir."),
    ] = None,
    disposed: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--dispose",
            metavar="PATH",
            help="Delete this savepoint instead; an id will do, too.",
            autocompletion=complete_savepoint,
        ),
    ] = None,
    detached: DetachedOption = False,
    trigger_id: TriggerIdOption = None,
    wait: WaitOption = False,
    format_type: FormatOption = None,
    message: MessageOption = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Take a savepoint of a running job and print its path; or delete one with -d."""
    session = Session.of(context)
    said, chosen = checked_message(message), checked_format(format_type)
    new = {"-d": disposed is not None, "DIR": directory is not None, "--detached": detached, "--message": said is not None}
    new["-type"] = format_type is not None
    refuse_beside_trigger_id(trigger_id, wait, new)
    if disposed is not None:
        if job is not None or said is not None:
            problem = "-d takes the path of a savepoint, and neither a job nor a message."
            raise UsageError(problem, hint="pystate savepoint --help")
        dispose(session, disposed, job_manager, as_json=as_json)
        return
    target = None if directory is None else absolute_path(directory)
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=trigger_id is None)
    if trigger_id is not None:
        path = f"/jobs/{job_id}/savepoints/{trigger_id}"
        tell_operation(session, client, path, SavepointResult, wait=wait, as_json=as_json)
        return
    session.console.info(f"Triggering savepoint {'in detached mode ' if detached else ''}for job {job_id}.")
    body = SavepointTriggerRequestBody(target_directory=target, format_type=chosen, message=said)
    request_id = client.post(f"/jobs/{job_id}/savepoints", body, TriggerResponse).request_id
    if detached:
        tell_trigger_id(session, "manual savepoint", request_id, "savepoint", job_id, as_json=as_json)
        return
    session.console.info("Waiting for response...")
    with session.console.progress("The savepoint is being written", waiter="The savepoint") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", SavepointResult, show).outcome
    session.console.info(f"Savepoint completed. Path: {path}")
    session.console.info("You can resume your program from this savepoint with the run command.")
    if as_json:
        session.console.result_json({"jobId": job_id, "location": path})
    else:
        session.console.result(path)
