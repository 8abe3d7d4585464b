"""`pystate savepoints list [DIR]` and `pystate savepoints tree [DIR]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pystate_cli.arguments.options import JsonOption, VerboseOption
from pystate_cli.arguments.savepoint_places import CheckpointsOption, DirectoryArgument, directories
from pystate_cli.session import Session
from pystate_cli.views.snapshots.savepoint_list import damaged_lines, plain_lines, savepoint_rows, spec_for, summary_line
from pystate_cli.views.snapshots.savepoint_tree import plain_tree, tree

if TYPE_CHECKING:
    from pystate.ops.catalog.listing import Catalog


def list_savepoints(
    context: typer.Context,
    directory: DirectoryArgument = None,
    checkpoints: CheckpointsOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """List savepoints, the newest first."""
    session = Session.of(context)
    console = session.console
    catalog, where = _catalog(session, directory, checkpoints=checkpoints)
    if as_json:
        snapshots = [one.to_json() for one in catalog.snapshots]
        console.result_json({"savepoints": snapshots, "damaged": _damaged(catalog)})
    elif console.is_terminal:
        if catalog.snapshots:
            rows = savepoint_rows(catalog.snapshots)
            console.render(spec_for(rows, kinds=checkpoints).table(rows, console.width, unicode=console.has_unicode))
            console.result("")
        for line in (*damaged_lines(catalog.damaged, console.width), summary_line(catalog, where)):
            console.result(line)
    else:
        for line in plain_lines(catalog):
            console.result(line)
        console.info(summary_line(catalog, where))


def savepoint_tree(
    context: typer.Context,
    directory: DirectoryArgument = None,
    checkpoints: CheckpointsOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Draw which savepoint grew out of which, over jobs and versions of their programs."""
    from pystate.ops.catalog.tree import version_forest

    session = Session.of(context)
    console = session.console
    catalog, where = _catalog(session, directory, checkpoints=checkpoints)
    forest = version_forest(catalog.snapshots)
    if as_json:
        console.result_json({"trees": [node.to_json() for node in forest], "damaged": _damaged(catalog)})
        return
    if not console.is_terminal:
        for line in plain_tree(forest):
            console.result(line)
    elif forest:
        console.render(tree(forest, console.width, unicode=console.has_unicode))
        console.result("")
    tell = console.result if console.is_terminal else console.info
    for line in (*damaged_lines(catalog.damaged, console.width), summary_line(catalog, where)):
        tell(line)


def _damaged(catalog: Catalog) -> list[dict[str, str]]:
    return [{"path": one.uri, "problem": one.problem} for one in catalog.damaged]


def _catalog(session: Session, directory: str | None, *, checkpoints: bool) -> tuple[Catalog, list[str]]:
    from pystate.ops.catalog.listing import find_snapshots

    where = directories(session, directory, checkpoints=checkpoints)
    with session.console.waiting("The savepoints are being read"):
        return find_snapshots(where, checkpoints=checkpoints), where
