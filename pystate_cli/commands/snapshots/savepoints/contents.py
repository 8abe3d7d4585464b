"""`pystate savepoints inspect|verify|diff`: contents, verification and differences of savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pystate.common.errors import PystateError
from pystate.common.text.figures import format_count, format_size
from pystate_cli.arguments.options import JsonOption, VerboseOption
from pystate_cli.arguments.savepoint_places import SnapshotArgument, find_snapshot
from pystate_cli.console.console import Console
from pystate_cli.console.formats import printable
from pystate_cli.session import Session
from pystate_cli.views.snapshots.savepoint_changes import change_lines, change_parts, key_line
from pystate_cli.views.snapshots.savepoint_details import Inspection, details_parts, plain_details

if TYPE_CHECKING:
    from pystate.core.snapshot.metadata import CheckpointMetadata
    from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
    from pystate.ops.catalog.difference import Change
    from pystate.ops.catalog.verification import Problem


def inspect_savepoint(
    context: typer.Context, snapshot: SnapshotArgument, as_json: JsonOption = False, verbose: VerboseOption = False
) -> None:
    """Show operators, states, timers and source positions of a savepoint, without reading its other state."""
    session = Session.of(context)
    console = session.console
    inspection = _inspected(session, snapshot)
    if as_json:
        console.result_json(inspection.to_json())
    elif console.is_terminal:
        for part in details_parts(inspection, console.width, unicode=console.has_unicode):
            console.render(part)
    else:
        for line in plain_details(inspection):
            console.result(line)


def verify_savepoint(
    context: typer.Context,
    snapshot: SnapshotArgument,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every key and value, too.")] = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Read every byte of a savepoint and say all that is wrong with it; exit code 1 where something is."""
    from pystate.ops.catalog.verification import Problem, Verification
    from pystate.runtime.engines.micro_batch.spark.source_progress import check_logs

    session = Session.of(context)
    console = session.console
    location = find_snapshot(session, snapshot)
    try:
        metadata = _metadata(location)
        position = metadata.source_position
        verification = Verification(
            location, metadata, None if position is None else lambda data: check_logs(position, data), deep=deep
        )
    except PystateError as error:
        return _tell_problems(console, location.uri, 0, 0, [Problem("metadata", "_metadata", error.message)], as_json)
    with console.bytes_progress("The savepoint is being read", verification.size) as show:
        problems = verification.problems(show)
    return _tell_problems(console, location.uri, verification.files, verification.size, problems, as_json)


def _tell_problems(console: Console, uri: str, files: int, size: int, problems: list[Problem], as_json: bool) -> int:
    if as_json:
        told = [problem.to_json() for problem in problems]
        console.result_json({"path": uri, "files": files, "bytes": size, "problems": told, "sound": not problems})
    elif not problems:
        beside = f" and {format_count(files)} file{'' if files == 1 else 's'}" if files else ""
        console.result(f"{uri} is sound: _metadata{beside}, {format_size(size)} of state.")
    else:
        for problem in problems:
            place = f"{problem.file}: " if problem.file else ""
            console.result(printable(f"{problem.part}: {place}{problem.what}"))
        count = len(problems)
        console.info(f"{uri} can't be relied on: {count} problem{'' if count == 1 else 's'}.")
    return 1 if problems else 0


def diff_savepoints(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="A", help="The one before: a directory or an id.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The one after.")],
    keys: Annotated[
        str | None,
        typer.Option("--keys", metavar="UID/STATE", help="The keys of this state that were added, removed or changed."),
    ] = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show how two savepoints differ: operators, states, types, entries, bytes, contents and sources; or key by key."""
    from pystate.ops.catalog.contents import ContentComparison
    from pystate.ops.catalog.difference import Change, compare, state_path
    from pystate.ops.catalog.source_difference import compare_sources

    session = Session.of(context)
    console = session.console
    if keys is not None:
        _diff_keys(session, before, after, *state_path(keys), as_json=as_json)
        return
    old, new = _inspected(session, before), _inspected(session, after)
    contents = ContentComparison(*((find_snapshot(session, one.summary.uri), one.metadata) for one in (old, new)))
    with console.waiting("The states are being compared"):
        differences = compare(old.operators, new.operators, contents.are_equal)
    sources = compare_sources(old.sources, new.sources)
    if as_json:
        console.result_json(
            {
                "before": old.summary.uri,
                "after": new.summary.uri,
                "operators": [one.to_json() for one in differences],
                "sources": [source.to_json() for source in sources],
            }
        )
    elif console.is_terminal:
        for part in change_parts(old, new, differences, sources, console.width, unicode=console.has_unicode):
            console.render(part)
    else:
        for line in change_lines(old, new, differences, sources):
            console.result(line)
    if any(state.change is Change.ALIKE for one in differences for state in one.states):
        console.info("alike: of the same type, entries and bytes; what is in files of a backend can't be compared.")


def _diff_keys(session: Session, before: str, after: str, uid: str, name: str, *, as_json: bool) -> None:
    from pystate.ops.catalog.difference import SnapshotState, key_changes

    sides = []
    for text in (before, after):
        location = find_snapshot(session, text)
        sides.append(SnapshotState(location, _metadata(location), uid, name))
    counts: dict[Change, int] = {}
    for change, key in key_changes(*sides):
        counts[change] = counts.get(change, 0) + 1
        if as_json:  # a line per key: there may be more of them than memory
            session.console.result_json_line({"change": change.value, "key": _plain(key)})
        else:
            session.console.result(key_line(change, key))
    told = [
        f"{format_count(count)} {change.value}" for change, count in sorted(counts.items(), key=lambda one: one[0].value)
    ]
    session.console.info(f"{', '.join(told) or 'No key has changed'} in {printable(f'{uid}/{name}')}.")


def _plain(key: Any) -> Any:
    """Return a key as JSON, or its Python text if JSON can't represent it."""
    return key if isinstance(key, (str, int, float, bool, type(None))) else repr(key)


def _inspected(session: Session, text: str) -> Inspection:
    from pystate.core.snapshot.reading.inspection import inspect_operators
    from pystate.core.snapshot.storage.ownership import claimant
    from pystate.ops.catalog.snapshot_sources import snapshot_sources
    from pystate.ops.catalog.snapshot_summary import SnapshotSummary

    location = find_snapshot(session, text)
    metadata = _metadata(location)
    try:
        operators = inspect_operators(location, metadata, with_timers=True)
        owner = claimant(location)
        sources = snapshot_sources(location, metadata)
    except PystateError as error:
        error.hint = f"pystate savepoints verify {text} says all that is wrong with it"
        raise
    return Inspection(SnapshotSummary.of(metadata, location.uri), metadata, operators, sources, owner)


def _metadata(location: SnapshotLocation) -> CheckpointMetadata:
    from pystate.ops.catalog.snapshot_summary import read_snapshot

    return read_snapshot(location)
