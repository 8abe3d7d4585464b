"""`pystate checkpoint JOBID [--full]`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.runtime.rest.operation_messages import CheckpointResult, TriggerResponse
from pystate.runtime.rest.request_bodies import CheckpointTriggerRequestBody
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    DetachedOption,
    JobManagerOption,
    JsonOption,
    RunningJobIdArgument,
    VerboseOption,
)
from pystate_cli.running.triggered import (
    TriggerIdOption,
    WaitOption,
    refuse_beside_trigger_id,
    tell_operation,
    tell_trigger_id,
)
from pystate_cli.running.waiting import await_operation
from pystate_cli.session import Session


def checkpoint(
    context: typer.Context,
    job: RunningJobIdArgument = None,
    full: Annotated[
        bool,
        typer.Option("-full", "--full", help="A full one, although the job's are incremental.", show_default=False),
    ] = False,
    detached: DetachedOption = False,
    trigger_id: TriggerIdOption = None,
    wait: WaitOption = False,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Take a checkpoint of a running job now, and print its id."""
    session = Session.of(context)
    console = session.console
    refuse_beside_trigger_id(trigger_id, wait, {"--full": full, "--detached": detached})
    client, job_id = connect_to_job(session, job_manager, job, application_id, changes=trigger_id is None)
    operations = f"/jobs/{job_id}/checkpoints"
    if trigger_id is not None:
        tell_operation(session, client, f"{operations}/{trigger_id}", CheckpointResult, wait=wait, as_json=as_json)
        return
    mode = "in detached mode " if detached else ""
    console.info(f"Triggering checkpoint {mode}for job {job_id}.")
    body = CheckpointTriggerRequestBody(checkpoint_type="FULL" if full else "CONFIGURED")
    request_id = client.post(operations, body, TriggerResponse).request_id
    if detached:
        tell_trigger_id(session, "manual checkpoint", request_id, "checkpoint", job_id, as_json=as_json)
        return
    console.info("Waiting for response...")
    with console.progress("The checkpoint is being written") as show:
        checkpoint_id = await_operation(client, f"{operations}/{request_id}", CheckpointResult, show).outcome
    console.info(f"Checkpoint{'(FULL)' if full else ''} {checkpoint_id} for job {job_id} completed.")
    console.info("You can resume your program from this checkpoint with the run command.")
    if as_json:
        console.result_json({"jobId": job_id, "checkpointId": checkpoint_id})
    else:
        console.result(str(checkpoint_id))
