"""`pystate state read PATH|ID UID STATE [--key K] [--format F] [--limit N] [-o FILE]`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import SnapshotError, UsageError
from pystate_cli.arguments.options import JsonOption, VerboseOption
from pystate_cli.arguments.savepoint_places import SnapshotArgument, find_snapshot
from pystate_cli.console.console import Console
from pystate_cli.console.formats import printable
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate.core.snapshot.reading.snapshot_table import Selection
    from pystate_cli.views.snapshots.state_rows import Write

state = typer.Typer(name="state", help="Look into the state of checkpoints and savepoints.", no_args_is_help=True)


class StateFormat(str, Enum):
    """The output format of rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@state.callback()
def root() -> None:
    """Look into the state of checkpoints and savepoints."""


@state.command("read")
def read_state(
    context: typer.Context,
    snapshot: SnapshotArgument,
    uid: Annotated[str, typer.Argument(metavar="UID", help="The operator's uid.")],
    name: Annotated[str, typer.Argument(metavar="STATE", help="The state's name: keyed, list, union or broadcast.")],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="K", help="Only this key; composite keys and untyped ones as JSON."),
    ] = None,
    form: Annotated[
        StateFormat | None,
        typer.Option("--format", help="Default: table, or what the name of FILE ends with.", show_default=False),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="No more rows than these.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file instead of stdout.")
    ] = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show a state: a row for each value, list element or map entry; JSON is an object per line."""
    session = Session.of(context)
    console = session.console
    chosen = _format(form, as_json, output)
    from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
    from pystate.core.snapshot.reading.snapshot_table import select_state

    selection = select_state(SnapshotReader(find_snapshot(session, snapshot).uri), uid, name, key)
    if chosen is StateFormat.PARQUET:
        count = _write_parquet(selection, output, limit, f"operator {uid!r}, state {name!r}")
    else:
        count = _write_text(selection, console, output, chosen, limit)
    console.info(f"{count} row{'' if count == 1 else 's'}.")


def _format(form: StateFormat | None, as_json: bool, output: Path | None) -> StateFormat:
    if as_json and form not in (None, StateFormat.JSON):
        message = f"--json and --format {form.value if form else ''} contradict each other."
        raise UsageError(message, hint="leave one of them out")
    if as_json:
        form = StateFormat.JSON
    if form is None:
        suffix = "" if output is None else output.suffix.lower().lstrip(".")
        known = {one.value: one for one in StateFormat} | {"jsonl": StateFormat.JSON, "txt": StateFormat.TABLE}
        if suffix and suffix not in known:
            message = f"The name of the file ends with .{printable(suffix)}, which says no format."
            hint = (
                f"--format {', '.join(one.value for one in StateFormat)}, or a name that ends with one of them, jsonl or txt"
            )
            raise UsageError(message, where=str(output), hint=hint)
        form = known.get(suffix, StateFormat.TABLE)
    if form is StateFormat.PARQUET and output is None:
        message = "Parquet is written to a file."
        raise UsageError(message, hint="-o FILE.parquet")
    return form


def _write_text(selection: Selection, console: Console, output: Path | None, form: StateFormat, limit: int | None) -> int:
    from pystate.core.snapshot.reading.snapshot_table import SnapshotTable, state_table
    from pystate_cli.views.snapshots.state_rows import write_csv, write_json, write_table

    table = state_table(selection)
    table = SnapshotTable(table.columns, islice(table.rows, limit))
    write_rows = {StateFormat.JSON: write_json, StateFormat.CSV: write_csv}.get(form, write_table)
    with _sink(console, output) as write:
        return write_rows(table, write)


@contextmanager
def _sink(console: Console, output: Path | None) -> Iterator[Write]:
    """Yield a text sink: stdout, or a file that gets its name when it is complete."""
    if output is None:
        yield lambda text: console.raw(text.encode("utf-8", "backslashreplace"))
        return
    with _whole_file(output) as part, part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:

        def write(text: str) -> None:
            file.write(text)

        yield write


@contextmanager
def _whole_file(output: Path) -> Iterator[Path]:
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(output)
    except OSError as error:
        message = f"Cannot write {output}: {error.strerror or error}"
        raise SnapshotError(message, where=str(output)) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _write_parquet(selection: Selection, output: Path | None, limit: int | None, where: str) -> int:
    from pystate.state_processor.parquet_export import write_parquet

    assert output is not None  # noqa: S101 - checked with the format
    with _whole_file(output) as part:
        return write_parquet(selection, str(part), limit, where)
