"""`pystate stop [-p DIR] [-d] [-detached] JOBID`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import JobTerminatedError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.operation_messages import SavepointResult, TriggerResponse
from pystate.runtime.rest.request_bodies import StopWithSavepointRequestBody
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
from pystate_cli.running.triggered import tell_trigger_id
from pystate_cli.running.waiting import await_end, await_operation
from pystate_cli.session import Session, job_failure


def stop(
    context: typer.Context,
    job: RunningJobIdArgument = None,
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
        typer.Option(
            "-d",
            "--drain",
            help="Event time comes to its end first: all windows and timers of event time fire.",
            show_default=False,
        ),
    ] = False,
    detached: DetachedOption = False,
    format_type: FormatOption = None,
    message: MessageOption = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Stop a job with a savepoint and print its path; if the savepoint fails the job goes on."""
    session = Session.of(context)
    console, said, chosen = session.console, checked_message(message), checked_format(format_type)
    target = None if directory is None else absolute_path(directory)
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=True)
    console.info(f'{"Draining" if drain else "Suspending"} job "{job_id}" with a {chosen} savepoint.')
    console.info(f"Triggering stop-with-savepoint {'in detached mode ' if detached else ''}for job {job_id}.")
    body = StopWithSavepointRequestBody(target_directory=target, drain=drain, format_type=chosen, message=said)
    request_id = client.post(f"/jobs/{job_id}/stop", body, TriggerResponse).request_id
    if detached:
        tell_trigger_id(session, "stop-with-savepoint in detached mode", request_id, "savepoint", job_id, as_json=as_json)
        return
    console.info("Waiting for response...")
    with console.progress("The savepoint is being written", waiter="The savepoint") as show:
        path = await_operation(client, f"/jobs/{job_id}/savepoints/{request_id}", SavepointResult, show).outcome
    with console.waiting("The job is ending"):
        state = await_end(client, job_id)
    console.info(f"Savepoint completed. Path: {path}")
    if as_json:
        console.result_json({"jobId": job_id, "location": path, "state": state.value})
    else:
        console.result(path)  # the savepoint exists, however the job ended
    if state is JobStatus.FAILED:
        raise job_failure(client, job_id)
    if state is not JobStatus.FINISHED:
        ended = f"Job {job_id} ended as {state.value} after its savepoint."
        raise JobTerminatedError(ended)
