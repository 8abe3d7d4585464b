"""`pystate savepoints dispose PATH|ID` and `pystate savepoints gc [DIR]`."""

from __future__ import annotations

from typing import Annotated

import typer

from pystate.common.errors import PystateError, UsageError
from pystate.common.text.figures import format_size
from pystate.common.time import current_time_ms
from pystate.runtime.rest.operation_messages import DisposalResult, TriggerResponse
from pystate.runtime.rest.request_bodies import SavepointDisposalRequest
from pystate_cli.arguments.options import JobManagerOption, JsonOption, VerboseOption
from pystate_cli.arguments.savepoint_places import DirectoryArgument, SnapshotArgument, directories, find_snapshot
from pystate_cli.client.rest_client import NoJobManagerError
from pystate_cli.running.waiting import await_operation
from pystate_cli.session import Session
from pystate_cli.views.snapshots.orphan_list import ORPHANS


def dispose_savepoint(
    context: typer.Context,
    snapshot: SnapshotArgument,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Delete a savepoint; refused while a job that was started from it has no checkpoint of its own."""
    dispose(Session.of(context), snapshot, job_manager, as_json=as_json)


def dispose(session: Session, text: str, job_manager: str | None, *, as_json: bool = False) -> None:
    """Delete the savepoint of a path or an id, through the job manager if one runs.

    Raises:
        PystateError: It doesn't exist, a job needs it, or it can't be deleted.
    """
    from pystate.ops.jobmanager.disposal.savepoint_disposal import dispose as delete

    console = session.console
    location = find_snapshot(session, text)
    path = location.uri
    console.info(f"Disposing savepoint '{path}'.")
    try:
        client = session.connect(job_manager)
    except NoJobManagerError:
        if job_manager is not None:
            raise
        client = None  # jobs may run without one: their files tell what they need
    try:
        if client is None:
            delete(session.home, location)
        else:
            body = SavepointDisposalRequest(savepoint_path=path)
            request_id = client.post("/savepoint-disposal", body, TriggerResponse).request_id
            console.info("Waiting for response...")
            await_operation(client, f"/savepoint-disposal/{request_id}", DisposalResult)
    except PystateError:
        console.info(f"Failed to dispose the savepoint '{path}'.")
        raise
    console.info(f"Savepoint '{path}' disposed.")
    if as_json:
        console.result_json({"path": path, "disposed": True})


def collect_garbage(
    context: typer.Context,
    directory: DirectoryArgument = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.", show_default=False)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.", show_default=False)] = False,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="What is younger stays, as 90 min or 2 d.")
    ] = "1 h",
    jobs: Annotated[
        bool,
        typer.Option(
            "--jobs", help="Also checkpoint folders of unknown jobs without a checkpoint in them.", show_default=False
        ),
    ] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Delete what belongs to no savepoint or checkpoint: snapshots that never completed, half-written and unnamed files."""
    from pystate.ops.catalog.garbage import GarbageCollection
    from pystate.runtime.job_folder.job_liveness import job_runs

    session = Session.of(context)
    console = session.console
    garbage = GarbageCollection(
        directories(session, directory, checkpoints=True),
        now_ms=current_time_ms(),
        least_age_ms=_milliseconds(older_than),
        job_state=lambda job_id: job_runs(session.home, job_id),
        jobs=jobs,
    )
    with console.waiting("The directories are being read"):
        orphans = garbage.orphans()
    for sentence in garbage.kept:
        console.warning(sentence)
    if as_json:
        console.result_json({"orphans": ORPHANS.json(orphans), "deleted": not dry_run})
    elif not console.is_terminal:
        for line in ORPHANS.plain(orphans):
            console.result(line)
    elif orphans:
        console.render(ORPHANS.table(orphans, console.width, unicode=console.has_unicode))
    if not orphans:
        console.info("Nothing to delete.")
        return
    count = f"{len(orphans)} orphan{'' if len(orphans) == 1 else 's'}, {format_size(sum(one.size for one in orphans))}"
    if dry_run:
        console.info(f"{count}. Nothing was deleted.")
        return
    if not yes and not _confirmed(session, count):
        console.info("Nothing was deleted.")
        return
    deleted = sum(garbage.delete(orphan) for orphan in orphans)
    console.info(f"{deleted} of {count} deleted.")


def _milliseconds(text: str) -> int:
    from pystate.common.time import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        message = f"--older-than {text!r} is no duration."
        raise UsageError(message, hint="for example --older-than '2 h'") from error


def _confirmed(session: Session, count: str) -> bool:
    if not session.console.can_ask:
        message = f"There is {count} to delete, and nobody to ask."
        raise UsageError(message, hint="--yes deletes without asking, --dry-run only lists")
    return session.console.confirm(f"Delete {count}?")
