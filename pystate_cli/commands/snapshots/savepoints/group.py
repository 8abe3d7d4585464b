"""`pystate savepoints`: list, lineage, contents, disposal."""

from __future__ import annotations

import typer

from pystate_cli.commands.snapshots.savepoints.contents import diff_savepoints, inspect_savepoint, verify_savepoint
from pystate_cli.commands.snapshots.savepoints.disposal import collect_garbage, dispose_savepoint
from pystate_cli.commands.snapshots.savepoints.listing import list_savepoints, savepoint_tree

savepoints = typer.Typer(
    name="savepoints",
    help="Savepoints as versions of a job: list, compare, verify and delete them.",
    no_args_is_help=True,
)
savepoints.command("list")(list_savepoints)
savepoints.command("tree")(savepoint_tree)
savepoints.command("inspect")(inspect_savepoint)
savepoints.command("verify")(verify_savepoint)
savepoints.command("diff")(diff_savepoints)
savepoints.command("dispose")(dispose_savepoint)
savepoints.command("gc")(collect_garbage)
