"""Asynchronous operations of the job manager: wait for the result, or detach and query it later."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from pystate.common.errors import UsageError
from pystate.runtime.rest.operation_messages import CheckpointResult, OperationProgress, SavepointResult
from pystate_cli.arguments.job_selection import JOB_ID
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.formats import printable
from pystate_cli.running.waiting import await_operation, progress_waits
from pystate_cli.session import Session

Snapshot = TypeVar("Snapshot", SavepointResult, CheckpointResult)

TriggerIdOption = Annotated[
    str | None,
    typer.Option("--trigger-id", metavar="ID", help="Trigger nothing; say what has become of what --detached triggered."),
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="With --trigger-id: wait until it is complete.", show_default=False)
]
IN_PROGRESS = "IN_PROGRESS"


def refuse_beside_trigger_id(trigger_id: str | None, wait: bool, others: dict[str, bool]) -> None:
    """Reject conflicting options.

    Args:
        trigger_id: The value of --trigger-id.
        wait: The value of --wait.
        others: The options that trigger a new operation, and whether they were given.

    Raises:
        UsageError: Names the conflicting options.
    """
    if trigger_id is None:
        if wait:
            message = "--wait is of --trigger-id; without --detached a command waits anyway."
            raise UsageError(message, hint="leave --wait out")
        return
    if not JOB_ID.fullmatch(trigger_id):
        message = f'"{printable(trigger_id)}" is no trigger id, which has 32 hex digits.'
        raise UsageError(message, hint="give the one that the command with --detached has printed")
    given = [name for name, is_given in others.items() if is_given]
    if given:
        message = f"--trigger-id asks for what was triggered before; {', '.join(given)} would trigger something."
        raise UsageError(message, hint="leave one of them out")


def tell_operation(
    session: Session, client: RestClient, path: str, kind: type[Snapshot], *, wait: bool, as_json: bool = False
) -> None:
    """Print the result of a triggered operation, or that it is in progress.

    Args:
        session: The session of the command.
        client: The job manager.
        path: The REST path of the operation.
        kind: The class of the answer.
        wait: Whether to wait until it is complete.
        as_json: Whether to print the whole answer.

    Raises:
        PystateError: It failed, or there is no such operation.
    """
    console = session.console
    if wait:
        waiter = "The savepoint" if kind is SavepointResult else None
        with console.progress("Waiting for the result", waiter=waiter) as show:
            answer = await_operation(client, path, kind, show)
    else:
        answer = client.get(path, kind)
    if as_json:
        console.result_json(answer)
    elif answer.operation is None:
        progress = answer.pystate or OperationProgress()
        waits = progress_waits(progress)
        if waits is not None:
            console.info(f"It {waits}.")
        elif progress.total:
            console.info(f"{progress.acknowledged} of {progress.total} subtasks have acknowledged.")
        console.result(IN_PROGRESS)
    elif answer.failure_cause is None:
        console.result(str(answer.outcome))
    if answer.failure_cause is not None:
        raise failure_of(answer.failure_cause.pystate, answer.failure_cause.stack_trace)


def tell_trigger_id(session: Session, what: str, request_id: str, command: str, job_id: str, *, as_json: bool) -> None:
    """Print the trigger id of a continuing operation, and the command that queries its result."""
    session.console.info(f"Successfully trigger {what}, triggerId: {request_id}")
    session.console.info(f"Its result: pystate {command} {job_id} --trigger-id {request_id}")
    if as_json:
        session.console.result_json({"jobId": job_id, "triggerId": request_id})
    else:
        session.console.result(request_id)
